"""The syntax tree of a shell command, accepted only where it can be trusted. Pure.

tree-sitter recovers from errors and reads some texts otherwise than bash does. A text is therefore
refused when the tree has an error, or when what lies between its leaves is more than blanks: then
bash would see something that the tree does not show.
"""

from __future__ import annotations

import re
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from coven.governance.bash_words import Unreadable

MAX_BYTES = 64 * 1024
MAX_NODES = 50_000
MAX_LEVELS = 120
"""How deep the tree may be."""

WORDS = frozenset(
    {
        "word",
        "string",
        "raw_string",
        "ansi_c_string",
        "translated_string",
        "concatenation",
        "simple_expansion",
        "expansion",
        "brace_expression",
        "number",
        "command_substitution",
        "process_substitution",
        "arithmetic_expansion",
        "extglob_pattern",
        "regex",
        "variable_name",
    }
)
"""Nodes that are one shell word, or a part of one."""

_CODE = frozenset({"command_substitution", "process_substitution"})
_GAP = re.compile(rb"(?:[ \t\n]|\\\n)*\Z")
_DASH = re.compile(rb"[ \t]+-[ \t]*\Z")
"""The grammar drops a ``-`` before a here-document; to every program it means standard input."""
_LINE_GAP = re.compile(rb"(?:[ \t]|\\\n)*\Z")
_BEFORE_COMMENT = b" \t\n;&|()`"


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def parse(source: bytes) -> Node:
    """The root of the tree. Raises ``Unreadable`` when bash may read the text otherwise."""
    if len(source) > MAX_BYTES:
        raise Unreadable("longer than 64 KiB")
    try:
        text = source.decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None
    if "\0" in text:
        raise Unreadable("a NUL byte")
    root = Parser(_language()).parse(source).root_node
    if root.has_error:
        raise Unreadable("not understood as shell syntax")
    _check(root, source)
    return root


def span(node: Node, source: bytes) -> bytes:
    """The source bytes of a node."""
    return source[node.start_byte : node.end_byte]


def text_of(node: Node, source: bytes) -> str:
    """The source text of a node."""
    return span(node, source).decode("utf-8")


def code_inside(node: Node) -> list[Node]:
    """The outermost substitutions inside a node, or the node itself."""
    if node.type in _CODE:
        return [node]
    found: list[Node] = []
    stack = list(reversed(node.children))
    while stack:
        child = stack.pop()
        if child.type in _CODE:
            found.append(child)
        else:
            stack.extend(reversed(child.children))
    return found


def _check(root: Node, source: bytes) -> None:
    pending = [(root, 0)]
    count = 0
    while pending:
        top, base = pending.pop()
        atoms: list[tuple[Node, Node | None]] = []
        stack: list[tuple[Node, Node | None, int]] = [
            (child, top, base + 1) for child in reversed(top.children)
        ]
        while stack:
            node, parent, level = stack.pop()
            count += 1
            if count > MAX_NODES or level > MAX_LEVELS:
                raise Unreadable("too large to judge")
            if node.is_missing:
                raise Unreadable("not understood as shell syntax")
            if node.type in WORDS or node.type == "heredoc_body" or not node.children:
                named = parent is not None and parent.type == "command_name"
                atoms.append((node, parent.parent if named and parent is not None else parent))
                pending += [(code, level + 1) for code in code_inside(node)]
            else:
                stack += [(child, node, level + 1) for child in reversed(node.children)]
        _check_gaps(top, atoms, source)


def _check_gaps(top: Node, atoms: list[tuple[Node, Node | None]], source: bytes) -> None:
    at = 0 if top.type == "program" else top.start_byte
    before: tuple[Node, Node | None] | None = None
    for node, parent in atoms:
        gap = source[at : node.start_byte]
        if node.type in ("<<", "<<-") and _DASH.match(gap):
            gap = b" "
        together = before is not None and before[1] == parent and parent is not None
        strict = together and parent is not None and parent.type in ("command", "file_redirect")
        if not (_LINE_GAP if strict else _GAP).match(gap):
            raise Unreadable("text that the syntax tree does not show")
        if gap and not gap.strip(b"\\\n") and b"\\" in gap:
            raise Unreadable("a line continued in the middle of a word")
        if node.type == "comment" and node.start_byte:
            previous = source[node.start_byte - 1 : node.start_byte]
            if previous not in [bytes([one]) for one in _BEFORE_COMMENT]:
                raise Unreadable("a comment in the middle of a word")
        if not gap and before is not None and _wordish(before[0]) and _wordish(node):
            raise Unreadable("two words without a blank between them")
        at = max(at, node.end_byte)
        before = (node, parent)
    end = len(source) if top.type == "program" else top.end_byte
    if not _GAP.match(source[at:end]):
        raise Unreadable("text that the syntax tree does not show")


def _wordish(node: Node) -> bool:
    return node.type in WORDS or node.type == "$"

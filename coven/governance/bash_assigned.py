"""What a shell command assigns anywhere, and where it may change folder. Pure."""

from __future__ import annotations

import re

from tree_sitter import Node

from coven.governance.bash_scope import Variables
from coven.governance.bash_tree import WORDS, text_of
from coven.governance.bash_words import names

_READERS = names("read mapfile readarray getopts let printf wait coproc command builtin")
_MOVES = names("cd pushd popd eval source .")
_QUOTING = re.compile(r"[\"'\\]")


def collect(root: Node, source: bytes, variables: Variables) -> set[str]:
    """Tell ``variables`` every assignment; the names of functions that change folder."""
    wandering: set[str] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        stack += node.children
        if node.type == "variable_assignment":
            _assignment(node, source, variables)
        elif node.type == "for_statement":
            name = node.child_by_field_name("variable")
            values = node.children_by_field_name("value")
            if name is not None:
                found: list[str | None] = [text_of(value, source) for value in values]
                for value in found or [None]:
                    variables.assign(text_of(name, source), _loop_value(value))
        elif node.type == "c_style_for_statement":
            variables.forget_all()
        elif node.type == "expansion" and "=" in text_of(node, source):
            variables.assign(leading_name(text_of(node, source)[2:]), None)
        elif node.type == "command":
            _builtin(node, source, variables)
        elif node.type == "declaration_command":
            _declaration(node, source, variables)
        elif node.type == "function_definition" and moves(node, source):
            name = node.child_by_field_name("name")
            wandering.add(text_of(name, source) if name is not None else "")
    return wandering


def moves(node: Node, source: bytes) -> bool:
    """Whether something in here may change the folder of the shell."""
    stack = [node]
    while stack:
        here = stack.pop()
        stack += here.children
        if here.type in WORDS and _QUOTING.sub("", text_of(here, source)) in _MOVES:
            return True
    return False


def leading_name(text: str) -> str:
    """The variable that an assignment, or a subscript of it, names."""
    end = 0
    while end < len(text) and (text[end] == "_" or text[end].isalnum()):
        end += 1
    return text[:end]


def _assignment(node: Node, source: bytes, variables: Variables) -> None:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    bare = text_of(name, source) if name is not None else ""
    operator = text_of(node, source)[len(bare) :][:1]
    plain = name is not None and name.type == "variable_name" and operator == "="
    if value is not None:
        plain = plain and value.type != "array"
        variables.assign(leading_name(bare), text_of(value, source) if plain else None)
    else:
        variables.assign(leading_name(bare), "" if plain else None)


def _declaration(node: Node, source: bytes, variables: Variables) -> None:
    for child in node.children[1:]:
        text = text_of(child, source)
        attribute = text[:1] in "-+" and set(text) & set("nulic")
        if child.type in WORDS and (attribute or set(text) & set("=$`")):
            variables.forget_all()


def _builtin(node: Node, source: bytes, variables: Variables) -> None:
    words = [text_of(child, source) for child in node.children if child.type in WORDS]
    name = node.child_by_field_name("name")
    called = _QUOTING.sub("", text_of(name, source)) if name is not None else ""
    if called in ("source", "."):
        variables.forget_all()
    if called not in _READERS:
        return
    setting = called != "printf" or any("-v" in word for word in words)
    if setting and any("$" in word or "`" in word for word in words):
        variables.forget_all()
    for word in words if setting else ():
        variables.assign(leading_name(_QUOTING.sub("", word)), None)


def _loop_value(source: str | None) -> str | None:
    """A loop variable takes the fields of a word: unknown unless the word is one plain field."""
    if source is None or any(sign in source for sign in "${*?[`~"):
        return None
    return source

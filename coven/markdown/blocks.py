"""Somebody else's Markdown, parsed and written again from a short list of harmless forms.

Nothing of the source is copied: every leaf is written by :mod:`coven.markdown.spans`, so that
what a parser makes of the source does not matter, only what it makes of our plain output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode as Node

from coven.markdown.scrub import clean
from coven.markdown.spans import Line, fenced

_COMMENT = "<!--"
_LONGEST_ADDRESS = 300
_NO_LIMIT = 1 << 30


@cache
def parser() -> MarkdownIt:
    """CommonMark with GitHub's tables and strikethrough."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


@cache
def outline() -> MarkdownIt:
    """The same for blocks alone; what is inside a line is not read."""
    reader = MarkdownIt("commonmark").enable("table")
    reader.core.ruler.disable("inline")
    return reader


def rewrite(text: str) -> str:
    """The harmless form of untrusted Markdown, however long it gets."""
    root = Node(parser().parse(clean(text)))
    return "\n".join(_blocks(root.children)).strip("\n")


def _blocks(nodes: Sequence[Node], *, tight: bool = False) -> list[str]:
    lines: list[str] = []
    for node in nodes:
        written = _WRITERS.get(node.type, _unknown)(node)
        if not any(written):
            continue
        if lines and not (tight and _may_follow_at_once(node)):
            lines.append("")
        lines.extend(written)
    return lines


def _may_follow_at_once(node: Node) -> bool:
    # A list that can't interrupt a paragraph would become part of its text, or underline it.
    starts = node.type == "bullet_list" or (
        node.type == "ordered_list" and node.attrs.get("start", 1) == 1
    )
    return starts and bool(node.children and node.children[0].children)


def _paragraph(node: Node) -> list[str]:
    line = Line()
    _inlines(_content(node), line)
    return line.finished().split("\n")


def _heading(node: Node) -> list[str]:
    # A heading of a guest would break the outline of our page, so it is a bold line.
    line = Line()
    _inlines(_content(node), line, flat=True)
    text = " ".join(line.finished().split("\n"))
    return [f"**{text}**"] if text else []


def _quote(node: Node) -> list[str]:
    return [f"> {line}".rstrip() for line in _blocks(node.children)]


def _list(node: Node) -> list[str]:
    number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
    tight = _is_tight(node)
    lines: list[str] = []
    for item in node.children:
        mark = "- " if number is None else f"{min(number, 999_999_999)}. "
        number = None if number is None else number + 1
        body = _blocks(item.children, tight=tight) or [""]
        if lines and not tight:
            lines.append("")
        lines.append(f"{mark}{body[0]}".rstrip())
        lines.extend(f"{' ' * len(mark)}{line}".rstrip() for line in body[1:])
    return lines


def _is_tight(node: Node) -> bool:
    paragraphs = [c for item in node.children for c in item.children if c.type == "paragraph"]
    return all(p.hidden for p in paragraphs)


def _code(node: Node) -> list[str]:
    info = node.info.split()
    return fenced(node.content, _NO_LIMIT, info[0] if info else "").split("\n")


def _html(node: Node) -> list[str]:
    line = Line()
    for index, text in enumerate(_without_comments(node.content).split("\n")):
        if index:
            line.line_break()
        line.text(text.strip())
    return [text for text in line.finished().split("\n") if text.strip()]


def _rule(_node: Node) -> list[str]:
    return ["***"]


def _table(node: Node) -> list[str]:
    rows = [row for part in node.children for row in part.children]
    if not rows:
        return []
    lines = [_row(row) for row in rows]
    lines.insert(1, f"|{' --- |' * len(rows[0].children)}")
    return lines


def _row(node: Node) -> str:
    cells = []
    for cell in node.children:
        line = Line(table=True)
        _inlines(_content(cell), line)
        cells.append(line.finished())
    return f"| {' | '.join(cells)} |"


def _unknown(node: Node) -> list[str]:
    return _blocks(node.children)


_WRITERS: dict[str, Callable[[Node], list[str]]] = {
    "paragraph": _paragraph,
    "heading": _heading,
    "blockquote": _quote,
    "bullet_list": _list,
    "ordered_list": _list,
    "fence": _code,
    "code_block": _code,
    "html_block": _html,
    "hr": _rule,
    "table": _table,
}

_EMPHASIS = {"em": "*", "strong": "**", "s": "~~"}


def _content(node: Node) -> Sequence[Node]:
    return [child for inline in node.children for child in inline.children]


def _inlines(nodes: Sequence[Node], line: Line, *, flat: bool = False) -> None:
    # Neighbouring texts are joined before they are read: `@` and `user` must not meet later.
    pending: list[str] = []

    def flush() -> None:
        if pending:
            line.text(clean("".join(pending)).replace("\n", " "))
            pending.clear()

    for node in nodes:
        if node.type == "text":
            pending.append(node.content)
        elif node.type == "html_inline":
            pending.append(_without_comments(node.content))
        elif node.type == "image":
            alt = " ".join(node.content.split())
            pending.append(f"[image: {alt}]" if alt else "[image]")
        else:
            flush()
            _mark(node, line, flat=flat)
    flush()


def _mark(node: Node, line: Line, *, flat: bool) -> None:
    if node.type in {"softbreak", "hardbreak"}:
        line.line_break()
    elif node.type == "code_inline":
        code = clean(node.content).replace("\n", " ").strip()
        if code:
            line.code(code)
    elif node.type == "link":
        _address(node, line, flat=flat)
    elif node.type in _EMPHASIS and not flat:
        inner = line.nested()
        _inlines(node.children, inner)
        text = inner.finished()
        if text:
            line.raw(f"{_EMPHASIS[node.type]}{text}{_EMPHASIS[node.type]}")
    else:
        _inlines(node.children, line, flat=flat)


def _address(node: Node, line: Line, *, flat: bool) -> None:
    # Where a link leads is shown, not offered: its text could say something else.
    href = clean(str(node.attrs.get("href", ""))).replace("\n", " ").strip()
    label = "".join(c.content for c in node.children if c.type == "text")
    same = href in {label, f"mailto:{label}"}
    if not same:
        _inlines(node.children, line, flat=flat)
    if not href:
        return
    if len(href) > _LONGEST_ADDRESS:
        href = f"{href[:_LONGEST_ADDRESS]}…"
    if same:
        line.code(href)
    else:
        line.raw(" (")
        line.code(href)
        line.raw(")")


def _without_comments(html: str) -> str:
    kept: list[str] = []
    at = 0
    while (start := html.find(_COMMENT, at)) >= 0:
        end = html.find("-->", start + len(_COMMENT))
        if end < 0:
            break
        kept.append(html[at:start])
        at = end + len("-->")
    kept.append(html[at:])
    return re.sub(r"\n{2,}", "\n", "".join(kept))

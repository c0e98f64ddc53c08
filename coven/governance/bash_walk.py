"""Walks the syntax tree of a shell command and hands every simple command on. Pure.

Nothing is executed and no branch is ruled out: whatever a command may do on some path is reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tree_sitter import Node

from coven.governance.bash_assigned import collect, leading_name, moves
from coven.governance.bash_fold import output_of
from coven.governance.bash_scope import Scope, Variables
from coven.governance.bash_tree import WORDS, code_inside, text_of
from coven.governance.bash_words import SPLIT, UNKNOWN, Fields, Unreadable, names

MAX_VARIANTS = 16
"""Different argument vectors of one command before its words count as unknown."""

_RESERVED = names(
    "! { } then do done fi esac elif else in if while until for case select function [[ ]]"
)
_BLOCKS = frozenset(
    {
        "if_statement",
        "elif_clause",
        "else_clause",
        "while_statement",
        "for_statement",
        "c_style_for_statement",
        "do_group",
        "case_statement",
        "case_item",
    }
)
_PLAIN = frozenset(
    {"program", "compound_statement", "negated_command", "variable_assignments", "test_command"}
)
_OUTER = frozenset({"list", "pipeline", "negated_command"})
_EXPRESSIONS = frozenset(
    {
        "binary_expression",
        "unary_expression",
        "parenthesized_expression",
        "postfix_expression",
        "ternary_expression",
        "test_operator",
        "subscript",
        "array",
    }
)


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirection: the operator and what it points at."""

    operator: str
    targets: tuple[str, ...]


class Sink(Protocol):
    """Takes what the walk finds."""

    def command(self, argv: Fields, scope: Scope, redirects: tuple[Redirect, ...]) -> Scope:
        """A simple command runs; the scope after it."""

    def redirect(self, redirect: Redirect, scope: Scope) -> None:
        """A redirection of something other than a simple command."""

    def assignment(self, name: str, values: tuple[str, ...], scope: Scope) -> None:
        """A variable gets one of these values."""

    def trouble(self, why: str) -> None:
        """Something that can't be judged."""


class Walk:
    """One walk over one tree."""

    def __init__(self, root: Node, source: bytes, variables: Variables, sink: Sink) -> None:
        self._root = root
        self._source = source
        self._variables = variables
        self._sink = sink
        self._wandering: set[str] = set()
        self._handed_down: dict[int, list[Node]] = {}
        """Redirections that the tree hangs on a whole list, by the command they belong to."""

    def run(self, scope: Scope) -> Scope:
        """Report everything; the scope at the end. Raises ``Unreadable``."""
        self._wandering = collect(self._root, self._source, self._variables)
        return self._block(self._root.children, scope)

    def _block(self, nodes: Iterable[Node], scope: Scope) -> Scope:
        for node in nodes:
            scope = self._statement(node, scope)
        return scope

    def _statement(self, node: Node, scope: Scope, *, certain: bool = False) -> Scope:
        """``certain``: what follows runs only when this succeeds, so that a ``cd`` has moved."""
        kind = node.type
        if kind in ("command", "redirected_statement", "declaration_command", "unset_command"):
            then = self._command(node, scope)
        elif kind == "list":
            return self._list(node, scope, certain)
        elif kind == "pipeline":
            self._pipeline(node, scope)
            return scope
        elif kind in ("subshell", "command_substitution", "process_substitution"):
            self._subshell(node, scope)
            return scope
        elif kind == "function_definition":
            inside = scope.at((UNKNOWN,)) if self._wandering else scope
            for child in node.children:
                if child.type == "file_redirect":
                    self._redirect_alone(child, inside)
                elif child.type != "word":
                    self._statement(child, inside)
            return scope
        elif kind in _BLOCKS:
            return self._branch(node, scope)
        elif kind in _PLAIN:
            return self._block(node.children, scope)
        elif kind == "variable_assignment":
            self._assignment(node, scope)
            return scope
        elif kind in WORDS or kind in _EXPRESSIONS:
            self._inside(node, scope)
            return scope
        elif kind == "comment" or not node.is_named:
            return scope
        else:
            raise Unreadable(f"the construct {kind}")
        return then if certain else then.at((*then.cwds, *scope.cwds))

    def _list(self, node: Node, scope: Scope, certain: bool) -> Scope:
        left, operator, right = node.children[0], node.children[1].type, node.children[-1]
        both = operator == "&&"
        then = self._statement(left, scope, certain=both)
        end = self._statement(right, then, certain=both)
        if both and certain:
            return end
        return scope.at((*scope.cwds, *then.cwds, *end.cwds))

    def _pipeline(self, node: Node, scope: Scope) -> None:
        stdin = scope.stdin
        for stage in node.children:
            if stage.is_named:
                self._statement(stage, scope.reading(stdin))
                stdin = self._output(stage, stdin)

    def _subshell(self, node: Node, scope: Scope) -> None:
        self._block((child for child in node.children if child.is_named), scope)

    def _branch(self, node: Node, scope: Scope) -> Scope:
        if node.type != "case_item" and "loop" in _shape(node) and moves(node, self._source):
            scope = scope.at((UNKNOWN,))
        end = scope
        for child in node.children:
            found = self._statement(child, end)
            end = end.at((*end.cwds, *found.cwds))
        return end

    def _inside(self, node: Node, scope: Scope) -> None:
        for code in code_inside(node):
            self._subshell(code, scope)
            for child in code.children:
                if child.type == "file_redirect":
                    self._redirect_alone(child, scope)

    def _assignment(self, node: Node, scope: Scope) -> None:
        self._inside(node, scope)
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None:
            plain = value is not None and value.type in WORDS
            values = (
                self._variables.words.value(self._text(value))
                if plain and value is not None
                else (UNKNOWN,)
            )
            self._sink.assignment(leading_name(self._text(name)), values, scope)

    def _command(self, node: Node, scope: Scope) -> Scope:
        redirects: list[Node] = []
        body: Node | None = node
        extra: list[Node] = []
        if node.type == "redirected_statement":
            found = node.child_by_field_name("body")
            for child in node.children:
                if child.type.endswith("_redirect"):
                    redirects.append(child)
            if found is not None and found.type in _OUTER:
                self._handed_down[_last_command(found).id] = redirects
                then = self._statement(found, scope)
                self._tails(node, redirects, scope.at((*then.cwds, *scope.cwds)))
                return then
            body = found
        if body is not None and body.type == "command":
            redirects = [*(c for c in body.children if c.type.endswith("_redirect")), *redirects]
        own = list(redirects)
        redirects += self._handed_down.pop(node.id, [])
        for child in redirects:
            self._inside(child, scope)
            if child.type == "file_redirect":
                extra += child.children_by_field_name("destination")[1:]
            elif child.type == "heredoc_redirect":
                extra += child.children_by_field_name("argument")
        nested = [
            part
            for child in redirects
            if child.type == "heredoc_redirect"
            for part in child.children
            if part.type == "file_redirect"
        ]
        for child in nested:
            self._inside(child, scope)
            extra += child.children_by_field_name("destination")[1:]
        pointed = tuple(self._redirect(child) for child in (*redirects, *nested))
        for child in redirects:
            scope = self._feeding(child, scope)
        if body is None:
            for one in pointed:
                self._sink.redirect(one, scope)
            return scope
        if body.type == "command":
            then = self._simple(body, extra, scope, pointed)
        elif extra:
            raise Unreadable("words after a redirection of a block")
        elif body.type in ("declaration_command", "unset_command"):
            then = self._declaration(body, scope, pointed)
        else:
            for one in pointed:
                self._sink.redirect(one, scope)
            then = self._statement(body, scope)
        self._tails(node, own, scope)
        return then

    def _tails(self, node: Node, redirects: list[Node], scope: Scope) -> None:
        for child in redirects:
            for part in child.children if child.type == "heredoc_redirect" else ():
                if part.type in ("pipeline", "list", "command", "redirected_statement"):
                    self._tail(node, child, part, scope)

    def _tail(self, whole: Node, heredoc: Node, part: Node, scope: Scope) -> None:
        """What stands behind ``<<EOF`` on the same line: ``| sh``, ``&& rm``."""
        operators = {child.type for child in heredoc.children if not child.is_named}
        if part.type == "pipeline" or "|" in operators or "|&" in operators:
            stdin = self._output(whole, scope.stdin)
            for stage in part.children if part.type == "pipeline" else [part]:
                if stage.is_named:
                    self._statement(stage, scope.reading(stdin))
                    stdin = self._output(stage, stdin)
        else:
            self._statement(part, scope.at((UNKNOWN,)))

    def _declaration(self, node: Node, scope: Scope, redirects: tuple[Redirect, ...]) -> Scope:
        words: list[str] = []
        for child in node.children:
            if child.type == "variable_assignment":
                self._assignment(child, scope)
                words.append(self._text(child).split("=", 1)[0] + "=")
            elif child.type != "comment":
                self._inside(child, scope)
                words.append(self._text(child))
        known = tuple(word if word.isprintable() and "$" not in word else UNKNOWN for word in words)
        return self._sink.command(known, scope, redirects)

    def _simple(
        self, node: Node, extra: list[Node], scope: Scope, redirects: tuple[Redirect, ...]
    ) -> Scope:
        words: list[Node] = []
        for child in node.children:
            if child.type == "variable_assignment":
                self._assignment(child, scope)
            elif child.type == "command_name" or not child.type.endswith("_redirect"):
                if child.type == "subshell":
                    raise Unreadable("brackets after a command")
                words.append(child)
        variants: list[list[str]] = [[]]
        name = node.child_by_field_name("name")
        for word in (*words, *extra):
            self._inside(word, scope)
            source = self._text(word)
            if word == name and source in _RESERVED:
                raise Unreadable(f"the keyword {source} out of place")
            options = self._variables.words.readings(source)
            if len(options) == 1:
                for variant in variants:
                    variant += options[0]
            else:
                variants = [[*before, *option] for before in variants for option in options]
            if len(variants) > MAX_VARIANTS:
                heads = {variant[0] if variant else SPLIT for variant in variants}
                variants = [[*heads, SPLIT]] if len(heads) == 1 else [[SPLIT]]
        then = scope
        for argv in map(tuple, variants):
            found = self._sink.command(argv, scope, redirects)
            then = found if then == scope else then.at((*then.cwds, *found.cwds))
            if argv and argv[0] in self._wandering:
                then = then.at((UNKNOWN,))
        return then

    def _redirect(self, node: Node) -> Redirect:
        if node.type != "file_redirect":
            return Redirect("<<", ())
        targets = node.children_by_field_name("destination")
        operator = next((child.type for child in node.children if not child.is_named), ">")
        values = self._variables.words.target(self._text(targets[0])) if targets else ()
        return Redirect(operator, values)

    def _redirect_alone(self, node: Node, scope: Scope) -> None:
        self._inside(node, scope)
        self._sink.redirect(self._redirect(node), scope)

    def _feeding(self, node: Node, scope: Scope) -> Scope:
        """The scope with what a redirection puts on standard input."""
        if node.type == "herestring_redirect":
            word = next((child for child in node.children if child.type in WORDS), None)
            values = self._variables.words.value(self._text(word)) if word is not None else ()
            return scope.reading(values[0] + "\n" if len(values) == 1 else UNKNOWN)
        if node.type == "heredoc_redirect":
            return scope.reading(self._heredoc(node))
        if node.type == "file_redirect" and any(child.type == "<" for child in node.children):
            return scope.reading(UNKNOWN)
        return scope

    def _heredoc(self, node: Node) -> str:
        parts = {child.type: child for child in node.children}
        start, body, end = (parts.get(f"heredoc_{one}") for one in ("start", "body", "end"))
        if start is None or end is None:
            raise Unreadable("a here-document without an end")
        word = self._text(start)
        values = self._variables.words.value(word)
        dashed = any(child.type == "<<-" for child in node.children)
        first = self._source.find(b"\n", start.end_byte) + 1
        text, found = [], False
        at = first
        for line in self._source[first:].split(b"\n"):
            bare = line.lstrip(b"\t") if dashed else line
            if bare.decode("utf-8") == values[0]:
                found = end.end_byte == at + len(line)
                break
            text.append(bare.decode("utf-8") + "\n")
            at += len(line) + 1
        if not found or len(values) != 1:
            raise Unreadable("a here-document that ends elsewhere")
        content = "".join(text)
        if word == values[0] and any(sign in content for sign in "$`\\"):
            if body is None or not body.children:
                return content if not any(sign in content for sign in "$`") else UNKNOWN
            return self._expanded(content)
        return content

    def _expanded(self, content: str) -> str:
        quoted = '"' + content.replace('"', '\\"') + '"'
        values = self._variables.words.value(quoted)
        return values[0] if len(values) == 1 else UNKNOWN

    def _output(self, stage: Node, stdin: str) -> str:
        """What a pipeline stage prints, when that is plain."""
        node = stage
        while node.type in _OUTER or node.type == "redirected_statement":
            if node.type in _OUTER:
                node = node.children[-1]
                continue
            for child in node.children:
                if child.type.endswith("_redirect"):
                    stdin = self._feeding(child, Scope(stdin=stdin)).stdin
            found = node.child_by_field_name("body")
            if found is None:
                return UNKNOWN
            node = found
        if node.type != "command":
            return UNKNOWN
        argv: Fields = ()
        for child in node.children:
            if child.type in WORDS or child.type == "command_name":
                options = self._variables.words.readings(self._text(child))
                if len(options) != 1:
                    return UNKNOWN
                argv += options[0]
        return output_of(argv, stdin)

    def _text(self, node: Node | None) -> str:
        return "" if node is None else text_of(node, self._source)


def _last_command(node: Node) -> Node:
    """Where a redirection at the end of a list really belongs."""
    while node.type in _OUTER:
        node = node.children[-1]
    return node


def _shape(node: Node) -> str:
    loops = ("while_statement", "for_statement", "c_style_for_statement", "do_group")
    return "loop" if node.type in loops else "branch"

"""Every step of the analysis is needed: without it, a named case of the corpus gets through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coven.governance import (
    bash,
    bash_assigned,
    bash_fold,
    bash_git,
    bash_hosts,
    bash_peel,
    bash_programs,
    bash_scope,
    bash_tokens,
    bash_tools,
    bash_tree,
    bash_walk,
    bash_words,
    bash_writes,
)
from tests.unit.test_bash_evasion import CASES, fired

M = pytest.MonkeyPatch


def put(owner: Any, name: str, value: Any) -> Callable[[M], None]:
    """Replace one function or table."""
    return lambda patch: patch.setattr(owner, name, value)


def drop(table: Any, *keys: str) -> Callable[[M], None]:
    """Take entries out of a table."""

    def change(patch: M) -> None:
        for key in keys:
            patch.delitem(table, key)

    return change


def without(owner: Any, name: str, *members: str) -> Callable[[M], None]:
    """Take members out of a set."""
    return put(owner, name, getattr(owner, name) - set(members))


def nothing(*_args: Any, **_more: Any) -> list[Any]:
    return []


def plain_quotes(patch: M) -> None:
    real = bash_tokens.tokenize
    patch.setattr(
        bash_words,
        "tokenize",
        lambda source: (
            [bash_tokens.Token("char", one, False) for one in source]
            if set(source) & set("'\"\\")
            else real(source)
        ),
    )


def no_methods(owner: Any, name: str) -> Callable[[M], None]:
    return put(owner, name, lambda self, *_args, **_more: None)


def keep_scope(owner: Any, name: str) -> Callable[[M], None]:
    return put(owner, name, lambda self, argv, scope: scope)


def trusting(patch: M) -> None:
    """Take the tree as it comes, errors and all."""

    class Root:
        def __init__(self, node: Any) -> None:
            self._node = node

        def __getattr__(self, name: str) -> Any:
            return False if name == "has_error" else getattr(self._node, name)

    class Lenient:
        def __init__(self, language: Any) -> None:
            from tree_sitter import Parser

            self._parser = Parser(language)

        def parse(self, source: bytes) -> Any:
            tree = self._parser.parse(source)
            return type("Tree", (), {"root_node": Root(tree.root_node)})

    patch.setattr(bash_tree, "Parser", Lenient)


def _no_values(fields: tuple[str, ...], *_: str) -> Any:
    from coven.governance.bash_options import split

    return split(fields)


MUTATIONS: dict[str, tuple[Callable[[M], None], str]] = {
    # Reading the text.
    "errors of the tree are refused": (trusting, "redirection for reading and writing"),
    "gaps of the tree are checked": (
        put(bash_tree, "_check", nothing), "field separator without braces"),
    "keywords out of place are refused": (
        put(bash_walk, "_RESERVED", frozenset()), "group behind time"),
    "quotes are folded": (plain_quotes, "empty quotes inside a word"),
    "backslashes are folded": (plain_quotes, "leading backslash against aliases"),
    "ANSI-C strings are decoded": (
        put(bash_tokens, "_ANSI_CODE", bash_tokens.re.compile(r"(?!)(.)")),
        "ANSI-C quoting, octal"),
    "braces are expanded": (put(bash_words, "_braces", lambda tokens: [tokens]), "braces"),
    "variables are looked up": (
        put(bash_scope.Variables, "lookup", lambda self, name: ("",)), "variable as the operand"),
    "values are split into fields": (
        put(bash_words, "_piece", lambda char, quoted: bash_tokens.Token("char", char, True)),
        "the whole command in a variable"),
    "an own field separator is noticed": (
        put(bash_scope, "_SPLITTING", ""), "own field separator"),
    "reading builtins set variables": (
        put(bash_assigned, "_READERS", frozenset()), "read into a variable"),
    "loops give values": (
        put(bash_assigned, "_loop_value", lambda source: ""), "loop variable as the operand"),
    "a dynamic program is a fact": (
        no_methods(bash._Findings, "trouble"), "command substitution as the program"),
    # Walking.
    "substitutions are walked": (no_methods(bash_walk.Walk, "_inside"), "inside double quotes"),
    "subshells are walked": (no_methods(bash_walk.Walk, "_subshell"), "in a subshell"),
    "here-documents are read": (
        put(bash_walk.Walk, "_heredoc", lambda self, node: ""), "here-document to a shell"),
    "what follows a here-document is walked": (
        no_methods(bash_walk.Walk, "_tails"), "here-document piped to a shell"),
    "standard input is followed": (
        put(bash_walk.Walk, "_feeding", lambda self, node, scope: scope), "here-string to a shell"),
    "pipes are followed": (
        put(bash_walk.Walk, "_output", lambda self, stage, stdin: ""), "echo piped to a shell"),
    "decoders are folded": (
        put(bash_fold, "_decoded", lambda stdin, decode: stdin), "base64 piped to a shell"),
    "redirections of lists are handed down": (
        put(bash_walk, "_last_command", lambda node: node), "redirection at the end of a list"),
    "cd is followed": (keep_scope(bash._Findings, "_moved"), "cd first"),
    "cd in functions is noticed": (put(bash_walk, "collect", lambda *_: set()), "cd in a function"),
    "cd in loops is noticed": (put(bash_assigned, "_MOVES", frozenset()), "cd in a function"),
    "environment variables that run code": (
        put(bash, "environment", nothing), "git's ssh command from the environment"),
    # Peeling.
    "wrappers": (put(bash_peel, "_WRAPPERS", {}), "nice"),
    "env": (put(bash_peel, "_env", nothing), "env"),
    "shells": (put(bash_peel, "_shell", nothing), "sh -c"),
    "interpreters": (put(bash_peel, "_interpreter", nothing), "code piped into python"),
    "eval": (drop(bash_programs.SPECIAL, "eval"), "eval"),
    "source": (drop(bash_programs.SPECIAL, "source"), "sources a process substitution"),
    "trap": (drop(bash_programs.SPECIAL, "trap"), "trap"),
    "alias": (drop(bash_programs.SPECIAL, "alias"), "alias"),
    "find": (drop(bash_programs.SPECIAL, "find"), "find -exec with a shell"),
    "watch": (drop(bash_programs.SPECIAL, "watch"), "watch"),
    "ssh": (drop(bash_programs.SPECIAL, "ssh"), "ssh's proxy command"),
    "su": (drop(bash_programs.SPECIAL, "su"), "su -c"),
    "script": (drop(bash_programs.SPECIAL, "script"), "script -c"),
    "git": (drop(bash_programs.SPECIAL, "git"), "git alias on the command line"),
    "tar": (drop(bash_programs.SPECIAL, "tar"), "tar's command"),
    "make": (drop(bash_programs.SPECIAL, "make"), "another shell for make"),
    "parallel": (drop(bash_programs.SPECIAL, "parallel"), "parallel"),
    "rsync": (drop(bash_programs.SPECIAL, "rsync"), "rsync's remote shell"),
    "hash": (drop(bash_programs.SPECIAL, "hash"), "another program under a name"),
    "mapfile": (drop(bash_programs.SPECIAL, "mapfile"), "called back for each line"),
    "capsh": (drop(bash_programs.SPECIAL, "capsh"), "a capability shell runs it"),
    "sg": (drop(bash_programs.SPECIAL, "sg"), "another group runs it"),
    "hyperfine": (drop(bash_programs.SPECIAL, "hyperfine"), "a benchmark prepares with it"),
    "tmux": (
        drop(bash_programs.SPECIAL, "tmux"), "a terminal multiplexer runs it, in one word"),
    "screen": (
        drop(bash_programs.SPECIAL, "screen"), "a terminal multiplexer runs it, in words"),
    "nix-shell": (drop(bash_programs.SPECIAL, "nix-shell"), "a nix shell runs it"),
    "servers in variables": (
        put(bash_peel, "_SERVERS", bash_tokens.re.compile("(?!)")),
        "one of several proxies in a variable"),
    "servers in git's settings": (
        put(bash_git, "_server", lambda *_: None),
        "a rewritten URL by the settings of the command line"),
    "servers of gh": (put(bash_hosts, "_gh", nothing), "another server of gh"),
    "depth is limited": (put(bash, "MAX_DEPTH", 3000), "too many wrappers"),
    # Deriving.
    "canonical spellings": (
        put(bash, "_plain_spellings", nothing), "options apart, by words alone"),
    "rewriting pushes": (put(bash_git, "canonical", nothing), "plus before the ref"),
    "redirections write": (put(bash, "_WRITING", frozenset()), "redirection"),
    "programs write": (put(bash_writes, "writes", nothing), "tee"),
    "git writes": (put(bash_git, "git_writes", nothing), "git -C"),
    "short options with a value": (
        put(bash_tools, "split", _no_values), "sort -o"),
    "folders are joined": (put(bash, "join", lambda cwd, path: path), "cd in pieces"),
    "patterns are no names": (
        put(bash._Findings, "_places", lambda self, path: [path.replace(bash.GLOB, "")]),
        "pattern that hides the folder"),
    "devices of bash": (put(bash_hosts, "device", lambda path: None), "device of bash"),
    "clients reach hosts": (put(bash_hosts, "_CLIENTS", {}), "curl without a scheme"),
    "targets reach hosts": (put(bash_hosts, "_TARGETED", {}), "netcat"),
    "git reaches hosts": (put(bash_hosts, "remotes", nothing), "git over ssh"),
    "hosts in code": (put(bash_hosts, "requests_in", nothing), "code piped into python"),
}  # fmt: skip


@pytest.mark.parametrize("step", MUTATIONS)
def test_without_this_step_a_case_gets_through(step: str, monkeypatch: M) -> None:
    change, trick = MUTATIONS[step]
    cases = [case for case in CASES["case"] if case["trick"] == trick]
    assert cases, trick
    assert all(case.get("found", "rule") in fired(case) for case in cases)
    change(monkeypatch)
    assert any(case.get("found", "rule") not in fired(case) for case in cases)

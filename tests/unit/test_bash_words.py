"""Words are read as bash reads them; the analysis never raises and stays within its time."""

from __future__ import annotations

import shlex
import subprocess
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coven.governance.bash import analyse
from coven.governance.bash_words import Unreadable, Words, is_known, source_text

WORDS = Words(lambda name: {"x": ("a b",), "e": ("",)}.get(name), lambda: ("/home/u",))
TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Co")), max_size=20)
PIECES = st.sampled_from(
    ["a", "b", "'", '"', "\\", "$'", "$x", "${x}", "$e", "{", "}", ",", "~", "/", "-", "=", "%",
     "\\n", "\\x41", "\\101", "\\'", '\\"', "''", '""', "'c d'", '"e f"', "{g,h}", ".", "$"]
)  # fmt: skip
SNIPPETS = st.sampled_from(
    ["rm", " ", "-rf", "/", "'", '"', "\\", "\n", ";", "&", "|", "(", ")", "{", "}", "$(", "`",
     "<<EOF", "EOF", "<", ">", "#", "$x", "x=", "if", "then", "fi", "do", "done", "for", "in",
     "[[", "]]", "case", "esac", "\t", "$'", "((", "))", "<(", "=", "!", "é", "\r", "\0", "eval",
     "sh -c", "sudo", "xargs", "cd", "*", "~", "2>&1", "coproc", "time", "function f"]
)  # fmt: skip


@given(st.lists(TEXT, min_size=1, max_size=6))
@example(["rm", "-rf", "/", "", "'", "$x", "#", "a\tb"])
def test_quoted_arguments_are_read_back_exactly(argv: list[str]) -> None:
    facts = analyse(shlex.join(["program", *argv]))
    assert facts.unanalysable is None
    assert ("program", *argv) in [command.argv for command in facts.commands]


def bash_reads(words: list[str]) -> list[list[str] | None]:
    """The fields that bash makes of every word; None for one that is no word to it."""
    script = "set -f\nx='a b' e=\nHOME=/home/u\n" + "".join(
        f"if eval {shlex.quote('set -- ' + word)} 2>/dev/null; "
        "then printf '%s\\037' \"$@\"; printf '\\036'; else printf '\\035\\036'; fi\n"
        for word in words
    )
    done = subprocess.run(  # noqa: TID251
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=False, timeout=30,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    parts = done.stdout.split("\036")[:-1]
    return [None if part == "\035" else part.split("\037")[:-1] for part in parts]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.lists(PIECES, min_size=1, max_size=6).map("".join), min_size=60, max_size=60))
def test_words_are_read_as_bash_reads_them(words: list[str]) -> None:
    expected = bash_reads(words)
    if len(expected) != len(words):
        return  # an open quote swallowed the rest of the script
    for word, fields in zip(words, expected, strict=True):
        try:
            readings = WORDS.readings(word)
        except Unreadable:
            continue
        if fields is None or not all(is_known(one) for one in readings[0]):
            continue
        shown = [source_text(one) for one in readings[0]]
        # printf prints one empty field when there is none.
        assert (shown or [""]) == fields, word


@settings(max_examples=100, deadline=None)
@given(st.lists(SNIPPETS, max_size=40).map("".join))
def test_no_text_makes_the_analysis_raise(text: str) -> None:
    started = time.process_time()
    analyse(text)
    assert time.process_time() - started < 10


HUGE = {
    "one long word": "echo " + "a" * 60_000,
    "many words": "echo " + "a " * 30_000,
    "many commands": "rm a;" * 12_000,
    "many assignments": "".join(f"x{n}=$x{n - 1};" for n in range(1, 3000)),
    "values that multiply": "x=a;" + "x=$x$x;" * 2000 + "$x",
    "braces that multiply": "echo " + "{a,b}" * 2000,
    "deep substitutions": "$(" * 10_000 + ")" * 10_000,
    "deep brackets": "(" * 10_000 + ")" * 10_000,
    "deep quotes": '"$(' * 5_000 + ')"' * 5_000,
    "open quotes": "'\"" * 20_000,
    "deep parameters": "${x:-" * 8_000 + "}" * 8_000,
    "a long list": "true && " * 8_000 + "true",
    "a long pipeline": "cat | " * 8_000 + "cat",
    "nested shells": "sh -c " * 8_000,
    "nested eval": "eval " * 8_000 + "x",
    "many here-documents": "cat <<E\nx\nE\n" * 4_000,
    "backslashes": "\\" * 60_000,
    "redirections": "x" + " >a" * 20_000,
    "unions of folders": "cd a; cd ..;" * 3000 + "touch x",
    "case branches": "case x in " + "a) b;; " * 6000 + "esac",
    "dollar signs": "$" * 60_000,
    "too long": "x" * 200_000,
    "find with many commands": "find . " + "-exec rm {} ';' " * 4000,
    "parallel values": "parallel rm ::: " + "a " * 20_000,
    "git options": "git " + "-c alias.x=!y " * 4000 + "x",
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_commands_take_bounded_time(name: str) -> None:
    started = time.process_time()
    analyse(HUGE[name])
    assert time.process_time() - started < 10

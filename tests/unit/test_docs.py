"""What the documentation names exists: links, headings, commands, options, settings, files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from coven.cli.main import build
from coven.metrics import COUNTED
from coven.metrics_standing import ASKED, STANDING
from coven.settings.models import Settings
from coven.settings.schema import walk
from coven.tenancy import repo_file

ROOT = Path(__file__).parents[2]
TOP = (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
PAGES = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
TREE = typer.main.get_command(build())
KEYS = {re.sub(r'\[\]|\."owner/name"', "", key) for key, _ in walk()}
SOURCE = "".join(file.read_text() for file in (ROOT / "coven").rglob("*.py"))
KEYS |= {f"{key}_file" for key in KEYS}


def prose(text: str) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def code_spans(text: str) -> list[str]:
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(text))


def anchors(text: str) -> set[str]:
    """Of the headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", prose(text), re.M)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in found}


def links() -> list[tuple[str, str]]:
    return [
        (page, target)
        for page, text in TEXTS.items()
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(text))
        if not re.match(r"[a-z]+:", target)
    ]


def test_links_are_found() -> None:
    assert len(links()) > 20


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page: str) -> None:
    for where, target in links():
        if where != page:
            continue
        name, _, anchor = target.partition("#")
        file = (ROOT / page).parent / name if name else ROOT / page
        assert file.exists(), f"{page}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text()), f"{page}: {target}"


def commands(text: str) -> list[str]:
    """Every ``coven-github …`` in shell blocks and in code spans."""
    blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    wanted = [*lines, *code_spans(text)]
    found = [re.match(r"(?:[A-Z_]+=\S+ )*(coven-github [^#;&]*)", line) for line in wanted]
    return [each[1].strip() for each in found if each is not None]


def problem_of(command: str) -> str | None:
    """What is wrong with a command of the documentation; ``…`` stands for anything. Pure."""
    try:
        words = shlex.split(command.replace("\u2026", "...").rstrip("`'\")"))[1:]
    except ValueError:
        words = command.split()[1:]
    at: Any = TREE
    used: list[str] = []
    for word in words:
        if word in {"...", "..", "\u2026"} or "{" in word:
            return None
        if word.startswith("-"):
            name = word.split("=")[0]
            known = {opt for param in at.params for opt in (*param.opts, *param.secondary_opts)}
            if name not in known | {"--help"}:
                return f"{' '.join(used) or 'coven-github'} has no option {name}"
        elif hasattr(at, "commands"):
            below = at.commands.get(word)
            if below is None:
                choices = word.split("|")
                if all(choice in at.commands for choice in choices):
                    return None
                return f"no command {' '.join([*used, word])}"
            at = below
            used.append(word)
    return None


@pytest.mark.parametrize("page", TEXTS)
def test_commands_exist(page: str) -> None:
    found = {command: problem_of(command) for command in commands(TEXTS[page])}
    assert {c: problem for c, problem in found.items() if problem} == {}


@pytest.mark.parametrize(
    ("command", "good"),
    [
        ("coven-github db upgrade", True),
        ("coven-github tasks list --state queued", True),
        ("coven-github tasks list --stat queued", False),
        ("coven-github task list", False),
        ("coven-github tasks frobnicate", False),
        ("coven-github memory \u2026", True),
    ],
)
def test_wrong_commands_are_noticed(command: str, good: bool) -> None:
    assert (problem_of(command) is None) == good


@pytest.mark.parametrize("page", TEXTS)
def test_settings_exist(page: str) -> None:
    sections = set(Settings.model_fields)
    for span in code_spans(TEXTS[page]):
        found = re.match(r"([a-z_]+)\.([a-z_]+(?:\.[a-z_]+)*)(?: = .*)?\Z", span)
        if found is None or found[1] not in sections:
            continue
        if re.search(r"\.(py|toml|md|json|yaml|pem|db|pub|service|lock|created)$", span):
            continue
        name = f"{found[1]}.{found[2]}"
        # Events and codes are written like settings; they stand in the code as texts.
        known = name in KEYS or name in FREE_KEYS or f'"{name}"' in SOURCE
        assert known, f"{page}: {span}"


FREE_KEYS = {"github.com", "memory.max"}
"""Words with a dot that look like settings and are something else."""


@pytest.mark.parametrize("page", TEXTS)
def test_files_exist(page: str) -> None:
    for span in code_spans(TEXTS[page]):
        if re.fullmatch(r"(deploy|docs|tests|coven|webhooks|worker)/[\w./@-]+", span):
            assert (ROOT / span).exists(), f"{page}: {span}"


@pytest.mark.parametrize("page", TEXTS)
def test_make_targets_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXTS[page], re.M | re.S)
    named = [*code_spans(TEXTS[page]), *(line for block in blocks for line in block.splitlines())]
    for text in named:
        found = re.match(r"(?:[A-Z]+=\S+ )*make ([a-z]+)", text)
        assert found is None or found[1] in targets, f"{page}: {text}"


def test_every_metric_is_described_as_it_is() -> None:
    rows = dict(re.findall(r"^\| `(coven_[a-z_]+)` \| ([^|]*) \|", TEXTS["docs/metrics.md"], re.M))
    metrics = (*COUNTED, *STANDING, *ASKED)
    expected = {
        metric.name: ", ".join(f"`{label}`" for label in metric.labels) or "\u2013"
        for metric in metrics
    }
    assert {name: labels.strip() for name, labels in rows.items()} == expected


def test_every_test_that_the_security_page_names_exists() -> None:
    source = "".join(file.read_text() for file in (ROOT / "tests").rglob("*.py"))
    named = re.findall(r"`(test_\w+)`", TEXTS["docs/security.md"])
    assert len(named) > 40
    assert [name for name in named if f"def {name}(" not in source] == []


def test_every_example_of_a_repositorys_file_is_valid() -> None:
    blocks = [
        block
        for text in TEXTS.values()
        for block in re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)
        if re.search(r"^version: 1$", block, re.M)
    ]
    assert len(blocks) > 1
    assert [repo_file.read(block.encode()).problems for block in blocks] == [()] * len(blocks)


def test_every_page_is_in_the_index() -> None:
    index = {target.partition("#")[0] for page, target in links() if page == "README.md"}
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")}
    assert pages <= index

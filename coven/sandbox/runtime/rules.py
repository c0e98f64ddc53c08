"""Static rules with which the reference runtime finds real defects at real lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One defect."""

    severity: str
    file: str
    line: int
    title: str
    body: str
    recommendation: str

    def as_json(self) -> dict[str, object]:
        """The six keys of the contract."""
        return {
            "severity": self.severity,
            "file": self.file,
            "line": self.line,
            "title": self.title,
            "body": self.body,
            "recommendation": self.recommendation,
        }


@dataclass(frozen=True)
class LineRule:
    """A defect that one line shows."""

    pattern: re.Pattern[str]
    suffixes: tuple[str, ...]
    severity: str
    title: str
    body: str
    recommendation: str


PYTHON = (".py", ".pyi")
SCRIPT = (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs")
ANY: tuple[str, ...] = ()

_CREDENTIAL = (
    r"(?i)\b[\w.-]*(?:password|passwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token)\w*"
    r"[\"']?\s*[:=]\s*[\"'](?!\$|\{|<|env|os\.|changeme|example|your)[^\"'\s]{6,}[\"']"
)
_SQL = r"(?i)(?:f[\"'](?:select|insert|update|delete)\b.*\{|[\"'](?:select|insert|update|delete)\b"
_SQL += r"[^\"']*[\"']\s*(?:\+|%\s*[\w(]|\.format\())"


def _rule(
    pattern: str, suffixes: tuple[str, ...], severity: str, title: str, body: str, advice: str
) -> LineRule:
    return LineRule(re.compile(pattern), suffixes, severity, title, body, advice)


LINE_RULES = (
    _rule(
        _CREDENTIAL,
        ANY,
        "critical",
        "Credential written into the source",
        "Whoever can read the repository can use this credential, and it stays in the history.",
        "Read it from the environment or a secret store, and revoke this value.",
    ),
    _rule(
        r"-----BEGIN (?:RSA |EC |OPENSSH )?PRIVATE KEY-----",
        ANY,
        "critical",
        "Private key in the repository",
        "A private key is committed here.",
        "Remove the file, revoke the key and keep keys in a secret store.",
    ),
    _rule(
        r"(?<![\w.])(?:eval|exec)\s*\((?!\s*\))",
        PYTHON + SCRIPT,
        "high",
        "Text is run as code",
        "Whatever reaches this call runs with the rights of the program.",
        "Parse the input (`ast.literal_eval`, `json.loads`) or dispatch on known names.",
    ),
    _rule(
        r"\bshell\s*=\s*True\b",
        PYTHON,
        "high",
        "Command goes through a shell",
        "With `shell=True` a value in the command can start further commands.",
        "Pass a list of arguments and drop `shell=True`.",
    ),
    _rule(
        _SQL,
        PYTHON + SCRIPT + (".rb", ".php", ".java", ".go"),
        "high",
        "SQL is built from text",
        "A value that holds a quote changes the statement (SQL injection).",
        "Use placeholders and hand the values over separately.",
    ),
    _rule(
        r"\byaml\.load\s*\((?!.*Loader\s*=)",
        PYTHON,
        "high",
        "YAML is loaded with an unsafe loader",
        "`yaml.load` without a safe loader can build arbitrary objects.",
        "Use `yaml.safe_load`.",
    ),
    _rule(
        r"\bpickle\.loads?\s*\(",
        PYTHON,
        "medium",
        "Pickled data is loaded",
        "Loading a pickle runs code that the data chooses.",
        "Use JSON, or load only data that you signed.",
    ),
    _rule(
        r"\bverify\s*=\s*False\b",
        PYTHON,
        "high",
        "TLS certificates are not checked",
        "Anybody on the way can read and change this traffic.",
        "Remove `verify=False`; name a CA bundle where the host has its own CA.",
    ),
    _rule(
        r"\.innerHTML\s*=(?!=)",
        SCRIPT,
        "medium",
        "Text becomes HTML",
        "A value with markup in it runs as script in the reader's browser.",
        "Use `textContent`, or escape the value.",
    ),
    _rule(
        r"(?:==|!=)\s*None\b",
        PYTHON,
        "low",
        "Comparison with None by value",
        "`==` may be overloaded; whether something is None is a question of identity.",
        "Write `is None` or `is not None`.",
    ),
    _rule(
        r"^\s*(?:breakpoint\(\)|import pdb\b|pdb\.set_trace\(\))",
        PYTHON,
        "medium",
        "Debugger statement left in",
        "The program stops here and waits for somebody at the terminal.",
        "Remove it.",
    ),
    _rule(
        r"^\s*debugger\s*;?\s*$",
        SCRIPT,
        "medium",
        "Debugger statement left in",
        "The page stops here when the developer tools are open.",
        "Remove it.",
    ),
    _rule(
        r"(?i)[\"']http://(?!localhost|127\.|0\.0\.0\.0|\[::1\]|example\.|www\.w3\.org|schemas\.)",
        PYTHON + SCRIPT + (".go", ".rs", ".rb", ".java", ".toml", ".yml", ".yaml", ".json"),
        "low",
        "Plain HTTP address",
        "This traffic can be read and changed on the way.",
        "Use https.",
    ),
    _rule(
        r"range\(\s*len\([^()]*\)\s*\+\s*1\s*\)",
        PYTHON,
        "high",
        "Loop runs one step too far",
        "The last index is `len(x)`, which is outside the sequence, so this raises IndexError.",
        "Iterate over `range(len(x))`, or over the sequence itself.",
    ),
    _rule(
        r"<=\s*[\w.]+\.length\s*;",
        SCRIPT,
        "high",
        "Loop runs one step too far",
        "The last index is `length`, which is outside the array, so the value is undefined.",
        "Use `<` instead of `<=`.",
    ),
    _rule(
        r"(?:#|//)\s*(?:TODO|FIXME|XXX)\b",
        ANY,
        "info",
        "Unfinished work is marked here",
        "The change leaves a note about work that is still to be done.",
        "Finish it, or open an issue and name it in the note.",
    ),
)


def line_findings(name: str, text: str) -> Iterator[Finding]:
    """What the line rules see in a file."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > 2000:
            continue
        for rule in LINE_RULES:
            if rule.suffixes and not name.endswith(rule.suffixes):
                continue
            if rule.pattern.search(line):
                yield Finding(
                    rule.severity, name, number, rule.title, rule.body, rule.recommendation
                )


FileRule = Callable[[str, str], Iterator[Finding]]


def findings(name: str, text: str, lines: set[int] | None) -> list[Finding]:
    """All findings of a file, on ``lines`` only when they are known, one per line and title."""
    from coven.sandbox.runtime.python_rules import python_findings  # ast only when needed

    found = list(line_findings(name, text))
    if name.endswith(PYTHON):
        found += python_findings(name, text)
    unique = {(item.line, item.title): item for item in found}
    kept = [item for item in unique.values() if lines is None or item.line in lines]
    return sorted(kept, key=lambda item: item.line)

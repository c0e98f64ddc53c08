"""``docs/commands.md``, made from the table of verbs: ``python -m coven.commands_page``."""

from __future__ import annotations

import sys

from coven.verbs import VERBS

_HEAD = """\
# Commands

<!-- Made by `python -m coven.commands_page > docs/commands.md`; a test compares. -->

Write the familiar's handle at the start of a paragraph, of a line of it or of a list item, then a
verb: `@cody review`. The alias (`commands.alias`, by default `@familiar`) means the familiar that
reviews in this repository, and so does `/coven`: `/coven review`.

| Command | Where | Who | What follows | What it does | What you see |
|---|---|---|---|---|---|
"""

_TAIL = """
*Who*: somebody with write access, or a collaborator (in a private repository, whoever can read it).
Everybody else gets no answer and starts nothing. A verb that is answered with a reply runs on the
control queue, at once and beside running work.

## What counts as a command

- Upper and lower case do not matter, nor do `[bot]` after the handle, a comma, colon, full stop or
  dash after handle or verb, or how lines end. The verb may stand on the next line.
- Quotations, code (fenced, inline, indented), HTML and its comments, tables, headings with `#`,
  links and emphasis are never commands; neither is a handle in the middle of a sentence, an e-mail
  address, `@cody-2`, `@cody/team` or a look-alike letter.
- Several commands in one comment run in their order, each once: at most three sessions and one
  answer. Decisions on memory are all carried out, and answered together. The text up to the next
  command belongs to the one before it; in a list, the text of its item. Looked at are the first
  2 000 lines and the first ten that begin with a handle.
- A word that is close to a verb is answered once with *did you mean*, when the comment begins with
  it. Elsewhere a word that is no verb is talk.
- Only the text that was written is read: never the title, never older comments. The text of an
  issue is read when it is opened, by its author, and when `commands.in_issues` is on.
- An edit counts when it changes the command, its author made it, and no command of the comment has
  run. A deleted comment stops its work.
- `review <commit>` and `deepen <commit>` bind the review to exactly that commit.
- After ten sessions within ten minutes on one thread, or a hundred in one installation, commands
  pause. The familiar says so once; `resume` by somebody with write access ends the pause early.
"""


def render() -> str:
    """The whole page."""
    rows = [
        f"| `{verb.usage}` | {verb.surface.value} | {verb.trust.value} | {verb.argument.value} "
        f"| {verb.summary} | {verb.shown} |"
        for verb in VERBS.values()
    ]
    return _HEAD + "\n".join(rows) + "\n" + _TAIL


if __name__ == "__main__":
    sys.stdout.write(render())

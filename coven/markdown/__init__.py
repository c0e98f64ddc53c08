"""Untrusted text made harmless for GitHub Markdown, and finished Markdown cut to size.

Everything that a model, a person, a branch or an error says passes one of these before it stands
in a comment, a Check Run or a pull request:

==============  ==============================================================================
``inline``      one line of text inside our own sentence or list item
``cell``        the same inside a table cell
``block``       Markdown of somebody else, kept as Markdown: lists, code, emphasis, tables
``code_span``   a name: branch, path, id
``fenced``      program text or output
``plain``       fields that are not Markdown: titles, annotations, commit subjects
``link``        our own link with a text that may be untrusted
``cut_bytes``   finished Markdown, cut at the end of a block with a visible note
==============  ==============================================================================

What never survives: mentions of people and teams, references to issues, pull requests and
commits, closing keywords, addresses that GitHub would link, images, raw HTML, headings, comment
markers, and characters that can't be seen or that turn the reading direction. A mention or a
reference is put into a code span, the one place that GitHub never links (GitHub, "Basic writing
and formatting syntax"); invisible characters inside the word are not reliable.
"""

from __future__ import annotations

from coven.markdown.cut import CUT_NOTE, block, cut_bytes
from coven.markdown.scrub import clean, clean_line, cut_plain, plain
from coven.markdown.spans import cell, code_cell, code_span, fenced, inline, link

__all__ = [
    "CUT_NOTE",
    "block",
    "cell",
    "clean",
    "clean_line",
    "code_cell",
    "code_span",
    "cut_bytes",
    "cut_plain",
    "fenced",
    "inline",
    "link",
    "plain",
]

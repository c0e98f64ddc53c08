"""How much GitHub takes: one place for every number. Bytes are UTF-8 bytes.

GitHub's documentation counts characters, its servers count bytes for Check Runs; a text within
the byte limit is within the other one as well. Sources: GitHub REST, "Checks", "Issue comments",
"Pull requests", "Rate limits", and the messages of its 422 answers.
"""

from __future__ import annotations

from typing import Final

CHECK_NAME: Final = 100
"""Ours; GitHub names no limit. Bytes."""
CHECK_TITLE: Final = 255
"""Bytes."""
CHECK_SUMMARY: Final = 65_535
"""Bytes."""
CHECK_TEXT: Final = 65_535
"""Bytes."""
ANNOTATIONS_PER_CALL: Final = 50
ANNOTATION_TITLE: Final = 255
"""Bytes."""
ANNOTATION_MESSAGE: Final = 64 * 1024
"""Bytes."""
ACTIONS: Final = 3
ACTION_LABEL: Final = 20
ACTION_DESCRIPTION: Final = 40
ACTION_IDENTIFIER: Final = 20
COMMENT: Final = 65_536
"""Issue comment, review comment, review body. Bytes (GitHub: characters)."""
PULL_TITLE: Final = 256
"""Bytes (GitHub: characters)."""
PULL_BODY: Final = 65_536
"""Bytes (GitHub: characters)."""
MEMORY_BYTES: Final = 28_000
"""Ours: the most that proposals and citations take of a comment, summary or pull request."""
CREATIONS_PER_MINUTE: Final = 80
CREATIONS_PER_HOUR: Final = 500

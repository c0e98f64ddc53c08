"""What a waiting task waits for, and how long at the most."""

from __future__ import annotations

from datetime import timedelta

WAITING_FOR_ANSWER = "answer"
"""Somebody with write access answers the familiar's question."""
ANSWER_PATIENCE = timedelta(hours=72)
WAITING_FOR_APPROVAL = "approval"
"""A maintainer names the commit of an outsider's pull request."""
APPROVAL_PATIENCE = timedelta(days=14)
WAITING_FOR_ESCALATION = "escalation"
"""A person approves one action that a rule escalates."""
ESCALATION_PATIENCE = timedelta(hours=72)

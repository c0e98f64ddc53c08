"""The few answers that the receiver words itself; everything else is in :mod:`coven.texts`."""

from __future__ import annotations

from coven.markdown import code_span


def needs_full_commit(handle: str) -> str:
    """``review`` was given something that looks like a short commit id."""
    return (
        "A review can be bound to a commit, but only by its full id (40 or 64 hexadecimal "
        "digits): a short one may come to mean another commit.\n\n"
        f"**Next:** write {code_span(f'@{handle} review <full commit id>')}, or "
        f"{code_span(f'@{handle} review')} for the head as it is."
    )


def paused(handle: str, what: str, minutes: int) -> str:
    """Too many sessions were asked for; said once per pause. ``what``: the thread or all."""
    return (
        f"So many sessions were asked for {what} within {minutes} minutes that commands pause "
        "here, in case something runs in a circle. What was asked for just now was not started."
        "\n\n"
        f"**Next:** somebody with write access writes {code_span(f'@{handle} resume')}, or "
        f"everybody waits {minutes} minutes."
    )


def needs_pull_request(handle: str) -> str:
    """``review`` was asked for on an issue."""
    return (
        "There is nothing to review on an issue.\n\n"
        f"**Next:** write {code_span(f'@{handle} review')} on a pull request, or "
        f"{code_span(f'@{handle} fix')} here for a draft pull request."
    )


def nothing_to_retry(handle: str) -> str:
    """``retry`` on a thread where nothing of this familiar has ended."""
    return (
        "Nothing has ended on this thread yet, so there is nothing to do again.\n\n"
        f"**Next:** write {code_span(f'@{handle} help')} for what can be asked for."
    )

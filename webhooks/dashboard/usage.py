"""Usage: what was done, by installation, familiar and day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta

from flask import Response

from coven.store import installations, sweeps
from coven.store.engine import Tx
from webhooks.api import handlers, inputs, shapes
from webhooks.dashboard.asking import Ask, Page, Sent, Shown
from webhooks.dashboard.charts import columns
from webhooks.dashboard.lines import csv_lines

WINDOW = timedelta(days=7)
"""What is shown unless asked otherwise."""
MOST_DAYS = 92
MOST_BARS = 24


def show(ask: Ask, tx: Tx) -> Shown:
    """Charts with the numbers beside them."""
    query, answer = _asked(ask, tx)
    days = _days(ask, query, answer.days)
    tasks = Counter[str]()
    minutes = Counter[str]()
    names = _names(ask, tx)
    for each in answer.usage:
        label = names.get(each.installation_id, str(each.installation_id))
        tasks[
            f"{label} · {each.familiar_id}" if ask.installation is None else each.familiar_id
        ] += each.tasks
        minutes[each.repo] += each.runtime_secs
    return Shown(
        "usage.html",
        {
            "title": "Usage",
            "section": "usage",
            "usage": answer.usage,
            "query": query,
            "since": query.since.date() if query.since else None,
            "days": days,
            "names": names,
            "by_day": columns(
                "Session minutes by day", [(d[5:], s / 60) for d, _, s in days], "minutes"
            ),
            "tasks_by_day": columns(
                "Sessions begun by day", [(d[5:], float(t)) for d, t, _ in days], "sessions"
            ),
            "by_familiar": columns("Work by familiar", _top(tasks), "tasks"),
            "by_repo": columns(
                "Minutes by repository", [(n, s / 60) for n, s in _top(minutes)], "minutes"
            ),
            "familiars": tasks.most_common(MOST_BARS),
        },
        rows=len(answer.usage) + len(answer.days),
    )


def export(ask: Ask, tx: Tx) -> Sent:
    """The same as CSV."""
    _, answer = _asked(ask, tx)
    rows = [
        (u.installation_id, u.repo, u.familiar_id, u.tasks, u.completed, u.failed, u.runtime_secs)
        for u in answer.usage
    ]
    head = ("installation", "repository", "familiar", "tasks", "completed", "failed", "seconds")
    response = Response(csv_lines(head, rows), mimetype="text/csv")
    response.headers["Content-Disposition"] = 'attachment; filename="usage.csv"'
    return Sent(response, rows=len(rows))


def _asked(ask: Ask, tx: Tx) -> tuple[inputs.UsageQuery, shapes.UsageAnswer]:
    query = ask.read(inputs.UsageQuery)
    if query.since is None:
        start = (ask.now - WINDOW).replace(hour=0, minute=0, second=0, microsecond=0)
        query = query.model_copy(update={"since": start})
    answer = handlers.usage(ask.call(tx, query)).answer
    assert isinstance(answer, shapes.UsageAnswer)
    return query, answer


def _days(
    ask: Ask, query: inputs.UsageQuery, lines: Iterable[shapes.UsageDay]
) -> list[tuple[str, int, int]]:
    """Every day of the window, those without work too: day, sessions begun, seconds."""
    tasks: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for line in lines:
        tasks[line.day] += line.tasks
        seconds[line.day] += line.seconds
    if not tasks and not seconds:
        return []
    last = (query.until or ask.now).date()
    first = query.since.date() if query.since else last - timedelta(days=MOST_DAYS)
    first = max(first, last - timedelta(days=MOST_DAYS - 1))
    return [
        (day, tasks[day], seconds[day])
        for day in (
            date.fromordinal(n).isoformat() for n in range(first.toordinal(), last.toordinal() + 1)
        )
    ]


def _names(ask: Ask, tx: Tx) -> dict[int, str]:
    if ask.installation is not None:
        found = installations.get(ask.installation, tx)
        return {ask.installation: found.account_login or ""} if found else {}
    return {
        int(each.id): each.account_login
        for each in sweeps.standing_installations(tx)
        if each.account_login
    }


def _top(counts: Counter[str]) -> list[tuple[str, float]]:
    return [(name, float(count)) for name, count in counts.most_common(MOST_BARS)]


PAGES = (
    Page(path="/usage", name="usage", view=show),
    Page(path="/usage.csv", name="usage_csv", view=export),
)

"""Check runs and check suites, with the limits of the real ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from coven.sandbox import changes, events, render, render_threads
from coven.sandbox.answers import Answer, ApiError, invalid, not_found
from coven.sandbox.call import Call, Route
from coven.sandbox.state import JSON, CheckRun, CheckSuite, now

OUTPUT_BYTES = 65_535
"""``summary`` and ``text`` each, counted in UTF-8 bytes by the server."""
ANNOTATIONS = 50
MESSAGE_BYTES = 64 * 1024
ACTIONS = 3
ACTION_LIMITS = {"label": 20, "description": 40, "identifier": 20}
STATUSES = ("queued", "in_progress", "completed")
CONCLUSIONS = (
    "action_required",
    "cancelled",
    "failure",
    "neutral",
    "success",
    "skipped",
    "timed_out",
)
LEVELS = ("notice", "warning", "failure")


def bad(text: str) -> ApiError:
    """422 the way the checks endpoints word it."""
    return ApiError(422, f"Invalid request.\n\n{text}")


def _string(given: JSON, name: str, limit: int = 0) -> str | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise bad(f"For 'properties/{name}', {value!r} is not a string.")
    size = len(value.encode("utf-8", "replace"))
    if limit and size > limit:
        raise bad(f"Only {limit} characters are allowed; {size} were supplied.")
    return value


def check_annotation(given: Any) -> JSON:
    """One annotation, or 422."""
    if not isinstance(given, dict):
        raise bad("An annotation is not an object.")
    for name in ("path", "start_line", "end_line", "annotation_level", "message"):
        if given.get(name) in (None, ""):
            raise bad(f'"{name}" wasn\'t supplied.')
    start, end = given["start_line"], given["end_line"]
    for line in (start, end):
        if not isinstance(line, int) or isinstance(line, bool) or line < 1:
            raise bad("Annotation lines start at 1.")
    if end < start:
        raise bad("end_line must not be before start_line.")
    if given["annotation_level"] not in LEVELS:
        raise bad(f"annotation_level is not one of {', '.join(LEVELS)}.")
    columns = [given.get("start_column"), given.get("end_column")]
    if any(c is not None for c in columns) and start != end:
        raise bad("Columns are allowed only where start_line equals end_line.")
    if str(given["path"]).startswith("/"):
        raise bad("path must be relative to the root of the repository.")
    _string(given, "message", MESSAGE_BYTES)
    _string(given, "raw_details", MESSAGE_BYTES)
    _string(given, "title", 255)
    return {
        "path": given["path"],
        "start_line": start,
        "end_line": end,
        "start_column": columns[0],
        "end_column": columns[1],
        "annotation_level": given["annotation_level"],
        "title": given.get("title") or "",
        "message": given["message"],
        "raw_details": given.get("raw_details") or "",
    }


def _output(run: CheckRun, given: Any) -> None:
    if given is None:
        return
    if not isinstance(given, dict):
        raise bad("output is not an object.")
    for name in ("title", "summary"):
        if not isinstance(given.get(name), str) or not given[name]:
            raise bad(f'"{name}" wasn\'t supplied.')
    summary, text = _string(given, "summary", OUTPUT_BYTES), _string(given, "text", OUTPUT_BYTES)
    annotations = given.get("annotations") or []
    if not isinstance(annotations, list):
        raise bad("annotations is not a list.")
    if len(annotations) > ANNOTATIONS:
        raise bad(
            f"No more than {ANNOTATIONS} items are allowed; {len(annotations)} were supplied."
        )
    checked = [check_annotation(entry) for entry in annotations]
    run.title, run.summary = given["title"], summary
    if "text" in given:
        run.text = text
    run.annotations.extend(checked)


def _actions(given: Any) -> list[JSON] | None:
    if given is None:
        return None
    if not isinstance(given, list) or len(given) > ACTIONS:
        raise bad(f"No more than {ACTIONS} actions are allowed.")
    for action in given:
        for name, limit in ACTION_LIMITS.items():
            value = action.get(name) if isinstance(action, dict) else None
            if not isinstance(value, str) or not value:
                raise bad(f'"{name}" wasn\'t supplied.')
            if len(value) > limit:
                raise bad(f"Only {limit} characters are allowed; {len(value)} were supplied.")
    return given


def _moment(given: JSON, name: str) -> datetime | None:
    value = given.get(name)
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError as error:
        raise bad(f"{name} is not a timestamp.") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def apply(run: CheckRun, given: JSON) -> None:
    """Write the fields of a create or update request; nothing changes when one is refused."""
    status, conclusion = given.get("status"), given.get("conclusion")
    if status is not None and status not in STATUSES:
        raise bad(f"status {status!r} is not one of {', '.join(STATUSES)}.")
    if conclusion is not None and conclusion not in CONCLUSIONS:
        raise bad(f"conclusion {conclusion!r} is not one of {', '.join(CONCLUSIONS)}.")
    completed_at, started_at = _moment(given, "completed_at"), _moment(given, "started_at")
    done = status == "completed" or completed_at is not None
    if done and conclusion is None and run.conclusion is None:
        raise bad("conclusion is required when status is completed.")
    actions = _actions(given.get("actions"))
    name = given.get("name", run.name)
    if not isinstance(name, str) or not name.strip():
        raise bad('"name" wasn\'t supplied.')
    for field in ("external_id", "details_url"):
        _string(given, field)
    _output(run, given.get("output"))
    run.name = name
    if actions is not None:
        run.actions = actions
    run.external_id = given.get("external_id", run.external_id) or ""
    run.details_url = given.get("details_url", run.details_url)
    if conclusion is not None or done:
        run.status, run.conclusion = "completed", conclusion or run.conclusion
        run.completed_at = completed_at or run.completed_at or now()
    elif status is not None:
        run.status = status  # the old conclusion stays: a completed run cannot be reopened
    if started_at is not None:
        run.started_at = started_at
    elif run.started_at is None and run.status != "queued":
        run.started_at = now()
    run.history.append({"status": run.status, "conclusion": run.conclusion})


def create_check_run(call: Call) -> Answer:
    hub, repo = call.hub, call.repo
    sha = call.body.get("head_sha")
    if not isinstance(sha, str) or not sha:
        raise bad('"head_sha" wasn\'t supplied.')
    found = hub.git(repo).resolve(sha)
    if found != sha:
        raise ApiError(422, f"No commit found for SHA: {sha}")
    run = CheckRun(hub.state.new_id(), repo.id, 0, call.app_id, "", sha)
    apply(run, call.body)
    run.suite_id = changes.suite_of(hub, repo, sha, call.app_id).id
    hub.state.runs[run.id] = run
    _announce(call, run, "created")
    if run.status == "completed":
        _announce(call, run, "completed")
    return Answer(render_threads.check_run(hub, run), 201)


def _announce(call: Call, run: CheckRun, action: str) -> None:
    hub, bot = call.hub, call.hub.account(call.bot_id)
    hub.announce("check_run", lambda: events.check_run(hub, run, action, bot))


def _run(call: Call, *, own: bool = False) -> CheckRun:
    run = call.hub.state.runs.get(call.number("check_run_id"))
    if run is None or run.repo_id != call.repo.id:
        raise not_found()
    if own and run.app_id != call.app_id:
        raise ApiError(
            403,
            f"Invalid app_id `{call.app_id}` - check run can only be modified by the GitHub App "
            "that created it.",
        )
    return run


def get_check_run(call: Call) -> Answer:
    return Answer(render_threads.check_run(call.hub, _run(call)))


def update_check_run(call: Call) -> Answer:
    run = _run(call, own=True)
    was = run.status
    apply(run, call.body)
    if run.status == "completed" and was != "completed":
        _announce(call, run, "completed")
    return Answer(render_threads.check_run(call.hub, run))


def list_annotations(call: Call) -> Answer:
    run = _run(call)
    html = render.html_url(call.hub, call.repo)
    return call.page(
        run.annotations, lambda a: {**a, "blob_href": f"{html}/blob/{run.head_sha}/{a['path']}"}
    )


def rerequest_check_run(call: Call) -> Answer:
    run = _run(call, own=True)
    hub, bot = call.hub, call.hub.account(call.bot_id)
    hub.announce("check_run", lambda: events.check_run(hub, run, "rerequested", bot))
    return Answer({}, 201)


def latest(runs: list[CheckRun]) -> list[CheckRun]:
    """The newest run of each name and App, newest first."""
    newest: dict[tuple[int, str], CheckRun] = {}
    for run in runs:
        newest[(run.app_id, run.name)] = run
    return sorted(newest.values(), key=lambda r: -r.id)


def _filtered(call: Call, runs: list[CheckRun]) -> Answer:
    name, app_id = call.query.get("check_name"), call.query.get("app_id")
    status = call.query.get("status")
    if status is not None and status not in STATUSES:
        raise invalid("CheckRun", "status")
    kept = [
        run
        for run in runs
        if (name is None or run.name == name) and (app_id is None or str(run.app_id) == app_id)
    ]
    which = call.query.get("filter", "latest")
    if which not in ("latest", "all"):
        raise invalid("CheckRun", "filter")
    shown = latest(kept) if which == "latest" else sorted(kept, key=lambda r: -r.id)
    if status is not None:
        shown = [run for run in shown if run.status == status]
    return call.page(shown, lambda r: render_threads.check_run(call.hub, r), "check_runs")


def list_check_runs(call: Call) -> Answer:
    """Runs on a commit; by default the latest of each name only."""
    sha = call.sha(call.args["ref"])
    runs = [
        r for r in call.hub.state.runs.values() if (r.repo_id, r.head_sha) == (call.repo.id, sha)
    ]
    return _filtered(call, runs)


def list_check_suites(call: Call) -> Answer:
    sha, app_id = call.sha(call.args["ref"]), call.query.get("app_id")
    found = [
        s
        for s in call.hub.state.suites.values()
        if (s.repo_id, s.head_sha) == (call.repo.id, sha)
        and (app_id is None or str(s.app_id) == app_id)
    ]
    return call.page(found, lambda s: render_threads.check_suite(call.hub, s), "check_suites")


def _suite(call: Call) -> CheckSuite:
    found = call.hub.state.suites.get(call.number("check_suite_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def get_check_suite(call: Call) -> Answer:
    return Answer(render_threads.check_suite(call.hub, _suite(call)))


def list_suite_runs(call: Call) -> Answer:
    return _filtered(call, render_threads.suite_runs(call.hub, _suite(call)))


_R = "/repos/<owner>/<repo>"
_C = f"{_R}/check-runs"
ROUTES = (
    Route("POST", _C, create_check_run, "checks=write"),
    Route("GET", f"{_C}/<check_run_id>", get_check_run, "checks=read"),
    Route("PATCH", f"{_C}/<check_run_id>", update_check_run, "checks=write"),
    Route("GET", f"{_C}/<check_run_id>/annotations", list_annotations, "checks=read"),
    Route("POST", f"{_C}/<check_run_id>/rerequest", rerequest_check_run, "checks=write"),
    Route("GET", f"{_R}/commits/<path:ref>/check-runs", list_check_runs, "checks=read"),
    Route("GET", f"{_R}/commits/<path:ref>/check-suites", list_check_suites, "checks=read"),
    Route("GET", f"{_R}/check-suites/<check_suite_id>", get_check_suite, "checks=read"),
    Route("GET", f"{_R}/check-suites/<check_suite_id>/check-runs", list_suite_runs, "checks=read"),
)

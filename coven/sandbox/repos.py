"""Repositories, branches, refs and who may do what in them."""

from __future__ import annotations

from coven.sandbox import changes, render
from coven.sandbox.answers import Answer, ApiError, not_found
from coven.sandbox.call import Call, Route
from coven.sandbox.state import JSON


def get_repository(call: Call) -> Answer:
    return Answer(render.full_repository(call.hub, call.repo))


def _branch_commit(call: Call, sha: str) -> JSON:
    return {"sha": sha, "url": f"{render.api_url(call.hub, call.repo)}/commits/{sha}"}


def list_branches(call: Call) -> Answer:
    branches = call.hub.git(call.repo).branches()
    return call.page(
        sorted(branches),
        lambda name: {
            "name": name,
            "commit": _branch_commit(call, branches[name]),
            "protected": name in call.repo.protected,
        },
    )


def get_branch(call: Call) -> Answer:
    name = call.args["branch"]
    git = call.hub.git(call.repo)
    sha = git.branch(name)
    if sha is None:
        raise ApiError(404, "Branch not found")
    api, html = render.api_url(call.hub, call.repo), render.html_url(call.hub, call.repo)
    protected = name in call.repo.protected
    return Answer(
        {
            "name": name,
            "commit": render.commit(call.hub, call.repo, git.info(sha)),
            "_links": {"self": f"{api}/branches/{name}", "html": f"{html}/tree/{name}"},
            "protected": protected,
            "protection": {
                "enabled": protected,
                "required_status_checks": {
                    "enforcement_level": "off",
                    "contexts": [],
                    "checks": [],
                },
            },
            "protection_url": f"{api}/branches/{name}/protection",
        }
    )


def check_collaborator(call: Call) -> Answer:
    """204 for a collaborator, 404 for everybody else."""
    user = call.hub.user(call.args["login"])
    if user.id != call.repo.owner_id and user.id not in call.repo.roles:
        raise not_found()
    return Answer(status=204)


def get_permission(call: Call) -> Answer:
    """Highest permission of a person; bots and names that nobody has are 404."""
    login = call.args["login"]
    missing = ApiError(404, f"{login} is not a user")
    try:
        user = call.hub.user(login)
    except ApiError as error:
        raise missing from error
    if user.type != "User":
        raise missing
    role = call.hub.role(call.repo, user)
    level = role.permission
    shown = render.user(call.hub, user) or {}
    return Answer(
        {
            "permission": level,
            "role_name": role.name,
            "user": {
                **shown,
                "permissions": {
                    "admin": level == "admin",
                    "maintain": role.base in ("admin", "maintain"),
                    "push": level in ("admin", "write"),
                    "triage": role.base in ("admin", "maintain", "write", "triage"),
                    "pull": level != "none",
                },
                "role_name": role.name,
            },
        }
    )


def _ref(call: Call, ref: str, sha: str) -> JSON:
    api = render.api_url(call.hub, call.repo)
    return {
        "ref": ref,
        "node_id": render.node_id("Ref", call.repo.id) + ref,
        "url": f"{api}/git/{ref}",
        "object": {"sha": sha, "type": "commit", "url": f"{api}/git/commits/{sha}"},
    }


def get_ref(call: Call) -> Answer:
    """One ref by its exact name under ``heads/``, ``tags/`` or ``pull/``."""
    ref = f"refs/{call.args['ref']}"
    sha = call.hub.git(call.repo).resolve_ref(ref)
    if sha is None:
        raise not_found()
    return Answer(_ref(call, ref, sha))


def list_matching_refs(call: Call) -> Answer:
    start = f"refs/{call.args['ref']}"
    branches = call.hub.git(call.repo).branches()
    found = [f"refs/heads/{name}" for name in sorted(branches)]
    return call.page(
        [ref for ref in found if ref.startswith(start)],
        lambda ref: _ref(call, ref, branches[ref.removeprefix("refs/heads/")]),
    )


def create_ref(call: Call) -> Answer:
    ref, sha = call.text("ref", "Reference"), call.text("sha", "Reference")
    assert ref is not None
    assert sha is not None
    git = call.hub.git(call.repo)
    if not ref.startswith("refs/heads/") or ref.count("/") < 2:
        raise ApiError(422, "Reference name must start with 'refs/heads/'")
    if git.resolve_ref(ref) is not None:
        raise ApiError(422, "Reference already exists")
    if git.resolve_ref(f"{sha}^{{commit}}") is None:
        raise ApiError(422, "Object does not exist")
    before = git.branches()
    git.update_ref(ref, sha)
    changes.branches_moved(call.hub, call.repo, before, call.bot_id)
    return Answer(_ref(call, ref, sha), 201)


def delete_ref(call: Call) -> Answer:
    ref = f"refs/{call.args['ref']}"
    git = call.hub.git(call.repo)
    if git.resolve_ref(ref) is None or not ref.startswith(("refs/heads/", "refs/tags/")):
        raise ApiError(422, "Reference does not exist")
    if ref.removeprefix("refs/heads/") in call.repo.protected:
        raise ApiError(422, "Cannot delete a protected branch")
    before = git.branches()
    git.delete_ref(ref)
    changes.branches_moved(call.hub, call.repo, before, call.bot_id)
    return Answer(status=204)


_R = "/repos/<owner>/<repo>"
ROUTES = (
    Route("GET", _R, get_repository, "metadata=read", caller="either"),
    Route("GET", f"{_R}/branches", list_branches, "contents=read"),
    Route("GET", f"{_R}/branches/<path:branch>", get_branch, "contents=read"),
    Route("GET", f"{_R}/collaborators/<login>", check_collaborator, "metadata=read"),
    Route("GET", f"{_R}/collaborators/<login>/permission", get_permission, "metadata=read"),
    Route("GET", f"{_R}/git/ref/<path:ref>", get_ref, "contents=read"),
    Route("GET", f"{_R}/git/matching-refs/<path:ref>", list_matching_refs, "contents=read"),
    Route("POST", f"{_R}/git/refs", create_ref, "contents=write"),
    Route("DELETE", f"{_R}/git/refs/<path:ref>", delete_ref, "contents=write"),
)

"""The API in Flask: one view for every row of the table, and the document beside them."""

from __future__ import annotations

import re
from typing import Any

from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from coven.governance.signed_requests import HEADERS
from coven.services import Services
from webhooks.api.inputs import MAX_BODY_BYTES
from webhooks.api.openapi import document_bytes
from webhooks.api.operations import OPERATIONS, PREFIX, Operation
from webhooks.api.problems import Problem
from webhooks.api.serving import Api, Asked, Reply, problem_reply
from webhooks.nearby import is_forwarded

_WORDS = {
    404: ("not_found", f"there is no such path; {PREFIX}/openapi.json lists them"),
    405: ("method_not_allowed", "this path does not take the method; see the Allow header"),
    413: ("too_large", f"the body is longer than {MAX_BODY_BYTES} bytes; send less"),
}


def api_blueprint(services: Services) -> Blueprint:
    """All routes under the prefix."""
    blueprint = Blueprint("api", __name__, url_prefix=PREFIX)
    api = Api(services)
    for operation in OPERATIONS:
        blueprint.add_url_rule(
            re.sub(r"\{(\w+)\}", r"<\1>", operation.path),
            endpoint=operation.name,
            view_func=_view(api, operation),
            methods=[operation.method],
        )
    document = document_bytes()

    @blueprint.get("/openapi.json")
    def openapi() -> Response:
        return Response(document, mimetype="application/json")

    return blueprint


def is_api(path: str) -> bool:
    """Whether errors of this path are told as problems."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def refused(error: HTTPException) -> Response:
    """What Flask refuses before a view is called."""
    status = error.code or 500
    code, detail = _WORDS.get(
        status, ((error.name or "error").lower().replace(" ", "_"), "this can't be read")
    )
    headers = {}
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return _response(problem_reply(Problem(status, code, detail, headers=headers)))


def crashed() -> Response:
    """Our own mistake."""
    detail = "something broke on our side; the operator finds it in the log"
    return _response(problem_reply(Problem(500, "internal", detail)))


def _view(api: Api, operation: Operation) -> Any:
    def view(**path: str) -> Response:
        request.max_content_length = MAX_BODY_BYTES
        asked = Asked(
            path=path,
            query=request.query_string,
            body=request.get_data(parse_form_data=False),
            media_type=request.mimetype,
            authorization=request.headers.get("Authorization"),
            if_none_match=request.headers.get("If-None-Match"),
            address=request.remote_addr or "",
            host=request.host,
            forwarded=is_forwarded(request.headers.keys()),
            method=request.method,
            target=request.path
            + (f"?{request.query_string.decode('latin-1')}" * bool(request.query_string)),
            signed={name: request.headers[name] for name in HEADERS if name in request.headers},
        )
        return _response(api.answer(operation, asked))

    return view


def _response(reply: Reply) -> Response:
    response = Response(reply.body, reply.status, mimetype=reply.media_type)
    response.headers.extend(reply.headers)
    return response

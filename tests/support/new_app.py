"""A person at GitHub's page for a new App, without a browser."""

from __future__ import annotations

import html
import re

import requests


def confirm(action: str, manifest: str, name: str | None = None) -> str:
    """Post the form and confirm it; the address that GitHub leads back to."""
    with requests.Session() as session:
        session.trust_env = False
        page = session.post(action, data={"manifest": manifest}, timeout=20)
        assert page.status_code == 200, page.text
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
        fields = {key: html.unescape(value) for key, value in fields.items()}
        if name is not None:
            fields["name"] = name
        base = action.split("/settings/")[0].split("/organizations/")[0]
        answer = session.post(
            f"{base}/settings/apps", data=fields, timeout=20, allow_redirects=False
        )
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"]

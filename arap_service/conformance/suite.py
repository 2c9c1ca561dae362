"""How this suite is called, and how it tells of an exchange in a word or two."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from arap_service.conformance.wire import URN
from blackbox_kit.model import Json, Suite

PREFIX: Final = "arap-"


def asked(sent: Json) -> str:
    """Method and path."""
    url = str(sent.get("url"))
    try:
        return f"{sent.get('method')} {urlsplit(url).path}"
    except ValueError:  # the service has named what is no URL
        return f"{sent.get('method')} {url}"


def came(got: Any) -> str:
    """Status, and what the body is about."""
    if not isinstance(got, Mapping) or "status" not in got:
        return "nothing"
    body = got.get("body")
    said = [str(got["status"])]
    if isinstance(body, Mapping):
        task = body.get("task")
        if isinstance(task, Mapping):
            said.append(f"task {task.get('status')}")
        if isinstance(body.get("decision"), bool):
            said.append("permit" if body["decision"] else "denial")
        if isinstance(body.get("type"), str):
            said.append(body["type"].removeprefix(URN))
    return " ".join(said)


SUITE: Final = Suite("arap", "Access Request and Approval Profile", PREFIX, asked, came)

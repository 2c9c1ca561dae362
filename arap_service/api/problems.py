"""Renders errors: `ArapError` and the framework's own faults become problem documents, declared in OpenAPI.

What a caller reads is ours: no text of an exception, no submitted value. Paths of the Authorization API answer in short
plain text instead, because every JSON body there must be an object and an error is a string (PDP-11). RFC 9457;
Access Request and Approval Profile, "Error Responses".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from arap_service.domain.errors import ArapError, InvalidRequest, PayloadTooLarge
from arap_service.protocol.canonical import json_pointer
from arap_service.store.database import StoreUnavailable

PROBLEM_JSON: Final = "application/problem+json"
NO_STORE: Final = {"Cache-Control": "no-store"}  # ARS-07
TEXT_PATHS: Final = ("/access/v1/evaluation", "/access/v1/search", "/.well-known/authzen-configuration")
_RETRY_SECONDS: Final = "1"


class Problem(JSONResponse):
    """A problem document."""

    media_type = PROBLEM_JSON


def problem(error: ArapError, *, headers: Mapping[str, str] | None = None) -> Response:
    """The problem document of `error`, with the headers that belong to it and those given."""
    members: dict[str, Any] = {"type": str(error.urn), "title": error.title, "status": error.status}
    if error.detail is not None:
        members["detail"] = error.detail
    return Problem({**error.extra, **members}, error.status, {**NO_STORE, **error.headers, **(headers or {})})


def plain(status: int, text: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """A short text answer of the Authorization API."""
    return PlainTextResponse(text, status, {**NO_STORE, **(headers or {})})


def problem_responses(*errors: type[ArapError]) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI should say about these errors, for `responses=` of a route."""
    by_status: dict[int, list[type[ArapError]]] = {}
    for error in errors:
        by_status.setdefault(error.status, []).append(error)
    return {
        status: {
            "description": "; ".join(error.title for error in group),
            "content": {PROBLEM_JSON: {"schema": _schema(group)}},
        }
        for status, group in by_status.items()
    }


def install_problems(app: FastAPI, *, base_path: str = "") -> None:
    """Make `app` answer every error in its proper form; `base_path` is what all our paths stand under."""
    text_paths = tuple(path if path.startswith("/.well-known") else base_path + path for path in TEXT_PATHS)

    def answer(request: Request, error: Exception) -> Response:
        return text_of(error) if request.url.path.startswith(text_paths) else problem_of(error)

    for kind in (ArapError, HTTPException, RequestValidationError, StoreUnavailable, ClientDisconnect, Exception):
        app.add_exception_handler(kind, answer)


def problem_of(error: Exception) -> Response:
    """The problem document that answers any error on every other path."""
    return _fault(error).as_problem()


def text_of(error: Exception) -> Response:
    """The short text that answers any error on a path of the Authorization API."""
    return _fault(error).as_text()


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is shown of an error: one of ours, or a bare HTTP status."""

    status: int
    headers: Mapping[str, str]
    error: ArapError | None = None

    def as_text(self) -> Response:
        text = HTTPStatus(self.status).phrase if self.error is None else str(self.error)
        return plain(self.status, text, headers=self.headers)

    def as_problem(self) -> Response:
        if self.error is not None:
            return problem(self.error, headers=self.headers)
        members = {"type": "about:blank", "title": HTTPStatus(self.status).phrase, "status": self.status}
        return Problem(members, self.status, {**NO_STORE, **self.headers})


def _fault(error: Exception) -> _Fault:
    log = structlog.get_logger("arap")
    match error:
        case ArapError():
            return _Fault(error.status, error.headers, error)
        case HTTPException():
            own = {400: InvalidRequest(), 413: PayloadTooLarge()}.get(error.status_code)
            return _Fault(error.status_code, error.headers or {}, own)
        case RequestValidationError():
            where = error.errors()[0]["loc"]
            own = InvalidRequest("A parameter is missing or of the wrong form.", pointer=json_pointer(where))
            return _Fault(own.status, {}, own)
        case StoreUnavailable():
            log.error("store_unavailable", reason=error.reason)
            return _Fault(503, {"Retry-After": _RETRY_SECONDS})
        case ClientDisconnect():
            return _Fault(400, {}, InvalidRequest())  # he has gone before his body was whole, and nobody reads this
        case _:
            log.error("request_failed", error=type(error).__name__)
            return _Fault(500, {})


def _schema(errors: list[type[ArapError]]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type", "title", "status"],
        "properties": {
            "type": {"enum": [str(error.urn) for error in errors]},
            "title": {"type": "string"},
            "status": {"const": errors[0].status},
            "detail": {"type": "string"},
        },
    }

"""The hand-written service over HTTP: what is where, what is read of a request, and its control endpoints.

The bearer tokens are those of `subject.CALLERS`. `answered` is the service without sockets; `app` puts it behind some.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.arap_conformance.plain_decisions import Answer, Refusal, strict, text
from tests.arap_conformance.signatures import Json
from tests.arap_conformance.subject import PlainService, problem

LARGEST: Final = 100_000
REQUESTS, FORMS = "/access/v1/requests", "/forms/plain/"


@dataclass(frozen=True)
class Asked:
    """A request; the names of headers are in lower case, `rest` is what its path has after the beginning."""

    method: str
    path: str
    query: Json
    headers: Json
    raw: bytes
    rest: str = ""

    def document(self) -> Any:
        """Its JSON document.

        Raises:
            ValueError: There is none.
        """
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" or len(self.raw) > LARGEST:
            raise ValueError
        return strict(self.raw)


Handler = Callable[[PlainService, Asked], Awaitable[Answer]]


async def answered(service: PlainService, asked: Asked) -> Answer:
    """The answer to a request, with its identifier."""
    try:
        answer = await _routed(service, asked)
    except Refusal as refusal:
        answer = refusal.answer
    if (identifier := asked.headers.get("x-request-id")) is not None:
        answer = replace(answer, headers={**answer.headers, "X-Request-ID": identifier})
    return answer


async def _routed(service: PlainService, asked: Asked) -> Answer:
    for (method, beginning), handler in ROUTES.items():
        is_there = asked.path.startswith(beginning) if beginning.endswith("/") else asked.path == beginning
        if is_there and asked.method == method:
            return await handler(service, replace(asked, rest=asked.path.removeprefix(beginning)))
    return Answer(404)


def body_of(answer: Answer) -> bytes:
    """The body of an answer as it is sent."""
    if answer.body is None:
        return b""
    return (answer.body if isinstance(answer.body, str) else json.dumps(answer.body)).encode()


async def _evaluation(service: PlainService, asked: Asked) -> Answer:
    caller = service.caller(asked.headers, "evaluate")
    if "evaluate" not in caller["may"]:
        raise text(403, "Not for you.")
    try:
        question = asked.document()
    except (ValueError, RecursionError):
        raise text(400, "The body is no JSON document.") from None
    return service.answered(question, caller["client"])


async def _metadata(service: PlainService, _: Asked) -> Answer:
    return service.described()


async def _keys(service: PlainService, _: Asked) -> Answer:
    return Answer(200, service.jwks(), {"Cache-Control": "max-age=60"})


async def _submit(service: PlainService, asked: Asked) -> Answer:
    try:
        body = asked.document()
    except (ValueError, RecursionError):
        service.caller(asked.headers, "nothing")
        raise problem("invalid-request", 400) from None
    caller = service.caller(asked.headers, "submit")
    return await service.submit(body, caller, asked.headers.get("idempotency-key"))


async def _status(service: PlainService, asked: Asked) -> Answer:
    return service.status(asked.rest, service.caller(asked.headers, "status"))


async def _cancel(service: PlainService, asked: Asked) -> Answer:
    task_id, _, operation = asked.rest.partition("/")
    if operation != "cancel":
        return Answer(404)
    caller = service.caller(asked.headers, "cancel")
    try:
        body = asked.document() if asked.raw else None
    except (ValueError, RecursionError):
        raise problem("invalid-request", 400) from None
    return await service.cancel(task_id, caller, body)


async def _schema(service: PlainService, asked: Asked) -> Answer:
    service.caller(asked.headers, "schema")
    return service.schema()


async def _catalogs(service: PlainService, asked: Asked) -> Answer:
    service.caller(asked.headers, "catalogs")
    return Answer(200, service.catalogs(asked.query.get("evaluation", "")))


async def _projects(service: PlainService, asked: Asked) -> Answer:
    return Answer(200, service.catalog(asked.query, service.caller(asked.headers, "catalog")))


async def _control(service: PlainService, asked: Asked) -> Answer:
    return await service.control(asked.rest, asked.query)


ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("GET", "/.well-known/authzen-configuration"): _metadata,
    ("GET", "/keys"): _keys,
    ("POST", "/access/v1/evaluation"): _evaluation,
    ("POST", "/access/v1/evaluations"): _evaluation,
    ("POST", REQUESTS): _submit,
    ("GET", REQUESTS + "/"): _status,
    ("POST", REQUESTS + "/"): _cancel,
    ("GET", FORMS + "schema"): _schema,
    ("GET", FORMS + "catalogs"): _catalogs,
    ("GET", FORMS + "projects"): _projects,
    ("POST", "/control/"): _control,
}


def app(service: PlainService) -> Starlette:
    """The service as an application."""

    async def endpoint(request: Request) -> Response:
        query, headers = dict(request.query_params), dict(request.headers)
        asked = Asked(request.method, request.url.path, query, headers, await request.body())
        answer = await answered(service, asked)
        kind = None if answer.body is None else answer.kind
        return Response(body_of(answer), answer.status, dict(answer.headers), media_type=kind)

    return Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "POST"])])

"""The hand-written service over HTTP: its routes, what is read of a request, and its control endpoints.

The bearer tokens are those of `subject.CALLERS`.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.arap_conformance.plain_decisions import Answer, Refusal, strict, text
from tests.arap_conformance.subject import PlainService, problem

LARGEST = 100_000
Handler = Callable[[Request], Awaitable[Response]]


def sent(answer: Answer, request: Request) -> Response:
    """The answer on the wire, with the request's identifier."""
    headers = dict(answer.headers)
    if (identifier := request.headers.get("x-request-id")) is not None:
        headers["X-Request-ID"] = identifier
    body = answer.body if isinstance(answer.body, str) else "" if answer.body is None else json.dumps(answer.body)
    return Response(body, answer.status, headers, media_type=answer.kind if answer.body is not None else None)


def guarded(handler: Callable[[Request], Awaitable[Answer]]) -> Handler:
    """Refusals become answers."""

    async def endpoint(request: Request) -> Response:
        try:
            return sent(await handler(request), request)
        except Refusal as refusal:
            return sent(refusal.answer, request)

    return endpoint


async def document(request: Request) -> Any:
    """The JSON document of a request.

    Raises:
        ValueError: There is none.
    """
    raw = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or len(raw) > LARGEST:
        raise ValueError
    return strict(raw)


def app(service: PlainService) -> Starlette:
    """The service."""
    return Starlette(routes=[*_decisions(service), *_requests(service), *_forms(service), _control(service)])


def _decisions(service: PlainService) -> list[Route]:
    async def evaluation(request: Request) -> Answer:
        caller = service.caller(dict(request.headers), "evaluate")
        if "evaluate" not in caller["may"]:
            raise text(403, "Not for you.")
        try:
            asked = await document(request)
        except (ValueError, RecursionError):
            raise text(400, "The body is no JSON document.") from None
        return service.answered(asked, caller["client"])

    async def metadata(_: Request) -> Answer:
        return service.described()

    async def keys(_: Request) -> Answer:
        return Answer(200, service.jwks(), {"Cache-Control": "max-age=60"})

    return [
        Route("/.well-known/authzen-configuration", guarded(metadata)),
        Route("/keys", guarded(keys)),
        Route("/access/v1/evaluation", guarded(evaluation), methods=["POST"]),
        Route("/access/v1/evaluations", guarded(evaluation), methods=["POST"]),
    ]


def _requests(service: PlainService) -> list[Route]:
    async def submit(request: Request) -> Answer:
        try:
            body = await document(request)
        except (ValueError, RecursionError):
            service.caller(dict(request.headers), "nothing")
            raise problem("invalid-request", 400) from None
        caller = service.caller(dict(request.headers), "submit")
        return await service.submit(body, caller, request.headers.get("idempotency-key"))

    async def status(request: Request) -> Answer:
        return service.status(request.path_params["task"], service.caller(dict(request.headers), "status"))

    async def cancel(request: Request) -> Answer:
        caller = service.caller(dict(request.headers), "cancel")
        try:
            body = await document(request) if await request.body() else None
        except (ValueError, RecursionError):
            raise problem("invalid-request", 400) from None
        return await service.cancel(request.path_params["task"], caller, body)

    place = "/access/v1/requests"
    return [
        Route(place, guarded(submit), methods=["POST"]),
        Route(place + "/{task}", guarded(status), methods=["GET"]),
        Route(place + "/{task}/cancel", guarded(cancel), methods=["POST"]),
    ]


def _forms(service: PlainService) -> list[Route]:
    async def schema(request: Request) -> Answer:
        service.caller(dict(request.headers), "schema")
        return service.schema()

    async def catalogs(request: Request) -> Answer:
        service.caller(dict(request.headers), "catalogs")
        return Answer(200, service.catalogs(request.query_params.get("evaluation", "")))

    async def projects(request: Request) -> Answer:
        caller = service.caller(dict(request.headers), "catalog")
        return Answer(200, service.catalog(dict(request.query_params), caller))

    return [
        Route("/forms/plain/schema", guarded(schema)),
        Route("/forms/plain/catalogs", guarded(catalogs)),
        Route("/forms/plain/projects", guarded(projects)),
    ]


def _control(service: PlainService) -> Route:
    async def control(request: Request) -> Answer:
        return await service.control(request.path_params["verb"], dict(request.query_params))

    return Route("/control/{verb}", guarded(control), methods=["POST"])

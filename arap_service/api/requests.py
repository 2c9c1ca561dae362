"""The access request endpoint and its tasks over HTTP: submit, status, cancel, execution report.

Parses, authenticates, counts and renders; what is accepted and who may see what is decided in `requests`. Access
Request and Approval Profile, "Access Request Response", "Poll the Task", "Cancellation".
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response

from arap_service import requests
from arap_service.api.auth import CallerDep, ContextDep, authenticate, context
from arap_service.api.bodies import idempotency_key, json_bytes, json_object
from arap_service.api.direct import Answer, DirectRoute, Endpoint
from arap_service.api.problems import NO_STORE, problem_responses
from arap_service.context import Context
from arap_service.domain import errors
from arap_service.domain.callers import Scope
from arap_service.requests import own

direct = APIRouter(route_class=DirectRoute, tags=["access requests"])
router = APIRouter(tags=["access requests"])

SUBMISSION_PATH: Final = "/access/v1/request"
_OBJECT = {"type": "object"}
_INSTANT = {"type": "string", "format": "date-time"}
_LINKS = {"type": "object", "additionalProperties": {"type": "string", "format": "uri"}}
_RESULT = {
    "type": "object",
    "required": ["mode", "approval"],
    "properties": {"mode": {"const": "reevaluate"}, "approval": _OBJECT},
}
_ENDS = ["approved", "denied", "expired", "cancelled", "failed"]
_RESOURCE = {
    "type": "object",
    "required": ["type", "id"],
    "properties": {
        "type": {"type": "string", "minLength": 1},
        "id": {"type": "string", "minLength": 1},
        "properties": _OBJECT,
    },
}
_ACTION = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "minLength": 1}, "properties": _OBJECT},
}
_CALLBACK = {
    "type": "object",
    "required": ["endpoint"],
    "properties": {
        "endpoint": {"type": "string", "format": "uri"},
        "events": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "state": {},
    },
}
_ITEM = {
    "type": "object",
    "required": ["resource", "action", "status"],
    "properties": {
        "resource": _OBJECT,
        "action": _OBJECT,
        "status": {"enum": ["pending", *_ENDS]},
        "result": _RESULT,
        "links": _LINKS,
        "display": _OBJECT,
    },
}
_TASK = {
    "type": "object",
    "required": ["task"],
    "properties": {
        "task": {
            "type": "object",
            "required": ["id", "status", "status_endpoint", "expires_at"],
            "properties": {
                "id": {"type": "string"},
                "status": {"enum": ["pending", *_ENDS, "partial"]},
                "status_endpoint": {"type": "string", "format": "uri"},
                "expires_at": _INSTANT,
                "links": _LINKS,
                "display": _OBJECT,
                "items": {"type": "array", "items": _ITEM},
            },
        },
        "result": _RESULT,
    },
}
_DENIAL = {
    "type": "object",
    "required": ["expires_at"],
    "properties": {
        "expires_at": _INSTANT,
        "binding_token": {"type": "string"},
        "evaluation_id": {"type": "string"},
    },
}
_SUBJECT = {
    "type": "object",
    "required": ["type", "id"],
    "properties": {"type": {"type": "string"}, "id": {"type": "string"}, "properties": _OBJECT},
    "description": (
        "Exactly the subject of the denied evaluation: a type and an id that is compared as it is. Who acts for it"
        " stands in `properties.act`: `sub` and `iss` of the immediate actor, and in its own `act` whoever acts for"
        " that one."
    ),
}
_CLIENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "source": _OBJECT,
        "actor": {
            "type": "object",
            "required": ["id"],
            "properties": {"id": {"type": "string"}, "issuer": {"type": "string"}, "act": _OBJECT},
        },
    },
    "description": (
        "What the client says about itself. `id`, `name` and `source` are labels: the client is whoever the access"
        " token says, and nothing is decided or routed by them. `actor` repeats the chain of the denied evaluation,"
        " `id` and `issuer` meaning `sub` and `iss`; the accepted proof is the `act` claim of the access token, which"
        " must hold the same chain, link by link. An actor without that proof is refused."
    ),
}
"""ARS-103: subject shape, actor convention and accepted proof."""
_SUBMISSION = {
    "type": "object",
    "required": ["subject"],
    "oneOf": [{"required": ["resource", "action", "denial"]}, {"required": ["items"]}],
    "properties": {
        "subject": _SUBJECT,
        "resource": _RESOURCE,
        "action": _ACTION,
        "context": _OBJECT,
        "items": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["resource", "action"],
                "properties": {
                    "resource": _RESOURCE,
                    "action": _ACTION,
                    "requested_access": _OBJECT,
                    "denial": _DENIAL,
                },
            },
        },
        "denial": _DENIAL,
        "requested_access": _OBJECT,
        "callback": _CALLBACK,
        "client": _CLIENT,
    },
}
_CANCELLATION = {
    "type": "object",
    "properties": {"reason": {"type": "string", "maxLength": 2000}, "comment": {"type": "string", "maxLength": 2000}},
}
REPORT = {
    "type": "object",
    "required": ["disposition", "at", "generation"],
    "properties": {
        "disposition": {"enum": sorted(own.DISPOSITIONS)},
        "at": _INSTANT,
        "generation": {"type": "integer", "minimum": 0},
    },
}
KEY_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 260},
    "description": "Repeat a request under the same key to get the answer of the first.",
}


def body_of(schema: dict[str, Any], *, required: bool = True, key: bool = False) -> dict[str, Any]:
    """What OpenAPI should say about a body that is read by us and not by the framework."""
    described: dict[str, Any] = {
        "requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}
    }
    return {**described, "parameters": [KEY_HEADER]} if key else described


def _accepted(status: int, description: str) -> dict[int | str, dict[str, Any]]:
    return {status: {"description": description, "content": {"application/json": {"schema": _TASK}}}}


async def submitting(request: Request) -> Answer:
    """Create a task, or return the one that this key or this denial has created before."""
    caller, ctx = await authenticate(request), context(request)
    caller.require(Scope.SUBMIT)
    ctx.rates.check("submission", caller.principal)
    submitted = await requests.submit(
        ctx, caller, await json_bytes(request), idempotency_key=idempotency_key(request.headers)
    )
    headers = task_headers(ctx, submitted.task, status=submitted.status_code)
    return Answer(submitted.body, submitted.status_code, headers)


PATHS: Final = {SUBMISSION_PATH: Endpoint(submitting)}
"""What is answered before the framework's layers, for `DirectPaths`."""


@direct.post(
    SUBMISSION_PATH,
    summary="Request access after a requestable denial",
    status_code=202,
    response_class=JSONResponse,
    openapi_extra=body_of(_SUBMISSION, key=True),
    responses={
        **_accepted(201, "The request was decided at once"),
        **_accepted(202, "The request is open"),
        **problem_responses(
            errors.InvalidRequest,
            errors.NotRequestable,
            errors.InvalidDenialBinding,
            errors.CallbackRejected,
            errors.BulkUnsupported,
            errors.Unauthenticated,
            errors.Forbidden,
            errors.ActorUnverified,
            errors.DuplicateRequest,
            errors.ExpiredDenial,
            errors.TaskExpired,
            errors.PayloadTooLarge,
            errors.InputInvalid,
            errors.CatalogValueRejected,
            errors.RateLimited,
        ),
    },
)
async def submit(request: Request) -> Response:
    """Create a task, or return the one that this key or this denial has created before."""
    return (await submitting(request)).response()


_OWN = (errors.Unauthenticated, errors.Forbidden, errors.UnknownTask, errors.TaskExpired)


@router.get(
    "/access/v1/request/{task_id}",
    summary="How a request stands",
    response_class=JSONResponse,
    responses={**_accepted(200, "The task"), **problem_responses(*_OWN, errors.RateLimited)},
)
async def status(task_id: str, caller: CallerDep, ctx: ContextDep) -> JSONResponse:
    """The task handle, with the result for callers who may have it."""
    ctx.rates.check("poll", caller.principal)
    return _task(ctx, await requests.status(ctx, caller, task_id))


@router.post(
    "/access/v1/request/{task_id}/cancel",
    summary="Withdraw an open request",
    response_class=JSONResponse,
    openapi_extra=body_of(_CANCELLATION, required=False),
    responses={
        **_accepted(200, "The task, cancelled"),
        **problem_responses(*_OWN, errors.InvalidRequest, errors.InvalidTaskState),
    },
)
async def cancel(task_id: str, request: Request, caller: CallerDep, ctx: ContextDep) -> JSONResponse:
    """Cancel the task; the body may give a reason and a comment."""
    body = await json_object(request, optional=True)
    return _task(ctx, await requests.cancel(ctx, caller, task_id, body))


@router.post(
    "/access/v1/request/{task_id}/report",
    summary="Report what became of an approval",
    status_code=204,
    response_class=Response,
    openapi_extra=body_of(REPORT),
    responses=problem_responses(*_OWN, errors.InvalidRequest, errors.InvalidTaskState),
)
async def report(task_id: str, request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """Record the execution; the same report twice is one."""
    await requests.report(ctx, caller, task_id, await json_object(request))
    return Response(status_code=204, headers=NO_STORE)


@router.post(
    "/access/v1/request/{task_id}/items/{item}/report",
    summary="Report what became of the approval of one item",
    status_code=204,
    response_class=Response,
    openapi_extra=body_of(REPORT),
    responses=problem_responses(*_OWN, errors.InvalidRequest, errors.InvalidTaskState),
)
async def report_item(
    task_id: str, item: Annotated[int, Path(ge=1, le=10_000)], request: Request, caller: CallerDep, ctx: ContextDep
) -> Response:
    """Record the execution of what one item of a bundle allowed."""
    await requests.report(ctx, caller, task_id, await json_object(request), item=item)
    return Response(status_code=204, headers=NO_STORE)


def task_headers(ctx: Context, task: Mapping[str, Any], *, status: int = 200) -> dict[str, str]:
    """Where a task that was submitted is found, and when to ask about one that is open."""
    headers = {}
    if status in {201, 202}:
        headers["location"] = task["status_endpoint"]  # ARS-50
    if task["status"] == "pending":
        headers["retry-after"] = str(ctx.settings.limits.poll_seconds)  # ARS-58
    return headers


def _task(ctx: Context, body: dict[str, Any]) -> JSONResponse:
    return JSONResponse(body, headers={**NO_STORE, **task_headers(ctx, body["task"])})

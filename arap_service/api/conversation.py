"""What people say about an open request, over HTTP: for the requester its open question, for resolvers all of it.

Routes and their description; who may say what is decided in `requests.conversation`. See design.md sections 5 and 6.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from arap_service import requests
from arap_service.api.auth import CallerDep, ContextDep
from arap_service.api.bodies import MOST_EXACT, Body, parsed
from arap_service.api.problems import NO_STORE, problem_responses
from arap_service.api.requests import body_of
from arap_service.api.resolver import detail_response
from arap_service.domain import errors
from arap_service.views import RequestDetail

router = APIRouter(tags=["resolver"])
requester = APIRouter(tags=["access requests"])
_OWN = (errors.Unauthenticated, errors.Forbidden, errors.UnknownTask, errors.InvalidTaskState)
_REVIEWER = problem_responses(*_OWN, errors.IneligibleApprover, errors.InvalidRequest)


class Asked(Body):
    """A question to the requester; `schema` describes the object that is wanted, one text when it is left out."""

    message: Annotated[str, Field(min_length=1, max_length=2000)]
    wanted: Annotated[dict[str, Any] | None, Field(alias="schema")] = None


class Said(Body):
    """A comment for the other reviewers."""

    text: Annotated[str, Field(min_length=1, max_length=2000)]


class Answered(Body):
    """The answer to the question of this version."""

    version: Annotated[int, Field(ge=1, le=MOST_EXACT)]
    input: dict[str, Any]


@requester.get(
    "/access/v1/request/{task_id}/input",
    summary="What a reviewer wants to know",
    response_class=JSONResponse,
    responses=problem_responses(*_OWN, errors.TaskExpired, errors.RateLimited),
)
async def question(task_id: str, caller: CallerDep, ctx: ContextDep) -> JSONResponse:
    """Message, JSON Schema of the answer, and the version to answer to."""
    ctx.rates.check("poll", caller.principal)
    return JSONResponse(await requests.question(ctx, caller, task_id), headers=NO_STORE)


@requester.post(
    "/access/v1/request/{task_id}/input",
    summary="Answer a reviewer's question",
    status_code=204,
    response_class=Response,
    openapi_extra=body_of(Answered.model_json_schema()),
    responses=problem_responses(
        *_OWN, errors.TaskExpired, errors.StaleVersion, errors.InvalidRequest, errors.InputInvalid, errors.RateLimited
    ),
)
async def answer(task_id: str, request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """Give the reviewer what was asked for; the deadline of the request stays."""
    ctx.rates.check("submission", caller.principal)
    body = await parsed(request, Answered)
    await requests.answer(ctx, caller, task_id, version=body.version, given=body.input)
    return Response(status_code=204, headers=NO_STORE)


@router.post(
    "/resolver/v1/requests/{request_id}/questions",
    summary="Ask the requester for more",
    response_model=RequestDetail,
    openapi_extra=body_of(Asked.model_json_schema()),
    responses=_REVIEWER,
)
async def ask(request_id: str, request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """Ask a question; one at a time, while the deadline keeps running."""
    body = await parsed(request, Asked)
    return detail_response(await requests.ask(ctx, caller, request_id, message=body.message, schema=body.wanted))


@router.post(
    "/resolver/v1/requests/{request_id}/comments",
    summary="Comment for the other reviewers",
    response_model=RequestDetail,
    openapi_extra=body_of(Said.model_json_schema()),
    responses=_REVIEWER,
)
async def comment(request_id: str, request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """Say something that the requester does not see."""
    body = await parsed(request, Said)
    return detail_response(await requests.comment(ctx, caller, request_id, text=body.text))


@router.post(
    "/resolver/v1/requests/{request_id}/claim",
    summary="Say that one works on it",
    response_model=RequestDetail,
    responses=_REVIEWER,
)
async def claim(request_id: str, caller: CallerDep, ctx: ContextDep) -> Response:
    """Tell the others; it keeps nobody from deciding."""
    return detail_response(await requests.claim(ctx, caller, request_id))


@router.post(
    "/resolver/v1/requests/{request_id}/release",
    summary="Say that nobody works on it any more",
    response_model=RequestDetail,
    responses=_REVIEWER,
)
async def release(request_id: str, caller: CallerDep, ctx: ContextDep) -> Response:
    """Take a claim back, one's own or that of somebody who is away."""
    return detail_response(await requests.release(ctx, caller, request_id))


@router.post(
    "/resolver/v1/requests/{request_id}/cancel",
    summary="Withdraw an open request",
    response_model=RequestDetail,
    responses=problem_responses(*_OWN, errors.TaskExpired),
)
async def cancel(request_id: str, caller: CallerDep, ctx: ContextDep) -> Response:
    """End a request that nobody needs any more, without approving or denying it."""
    await requests.cancel(ctx, caller, request_id, None)
    return detail_response(await requests.detail(ctx, caller, request_id))

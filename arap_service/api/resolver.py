"""The resolver API: reviewing and deciding requests by machine.

Parses, authenticates and renders; who sees and decides what is the matter of `requests`, the same functions that the
desk calls. Faults are problem documents, no answer is ever stored, and lists go on by opaque cursors. See design.md
section 6.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field, TypeAdapter

from arap_service import requests
from arap_service.api.auth import CallerDep, ContextDep
from arap_service.api.bodies import MOST_EXACT, Body, idempotency_key, json_object, parsed
from arap_service.api.problems import NO_STORE, problem_responses
from arap_service.api.requests import REPORT, body_of
from arap_service.api.waiting import MOST_SECONDS, until_news
from arap_service.domain import errors
from arap_service.domain.callers import Scope
from arap_service.domain.errors import InvalidRequest
from arap_service.protocol.arap import parse_instant
from arap_service.views import Page, QueueFilter, QueueRow, RequestDetail

router = APIRouter(prefix="/resolver/v1", tags=["resolver"])


@dataclass(frozen=True, slots=True)
class QueuePage:
    """A part of the queue; `after` is the mark to wait from, on answers to calls that may wait."""

    items: tuple[QueueRow, ...]
    next_cursor: str | None
    after: str | None = None


_PAGE: TypeAdapter[Page[QueueRow]] = TypeAdapter(Page[QueueRow])
_MARKED: TypeAdapter[QueuePage] = TypeAdapter(QueuePage)
_DETAIL: TypeAdapter[RequestDetail] = TypeAdapter(RequestDetail)
_OWN = (errors.Unauthenticated, errors.Forbidden, errors.UnknownTask)
Status = Literal["pending", "approved", "denied", "expired", "cancelled", "failed", "partial"]


class Narrowing(Body):
    """What of a widened scope stays wide; without it an approval is for exactly what was asked."""

    may_vary: Annotated[list[Annotated[str, Field(max_length=255)]], Field(max_length=20)]


class Decision(Body):
    """A vote on what the caller has seen at `version`."""

    decision: Literal["approve", "deny"]
    version: Annotated[int, Field(ge=1, le=MOST_EXACT)]
    reason: Annotated[str, Field(max_length=4000)] | None = None
    approved_until: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    item: Annotated[int, Field(ge=1, le=10_000)] | None = None  # of a bundle; `version` is then that of the item
    scope: Narrowing | None = None
    proposed_arguments: dict[str, Any] | None = None  # with a denial: what the agent could call with instead


class Revocation(Body):
    """Why an approval is taken back."""

    reason: Annotated[str, Field(min_length=1, max_length=4000)]


@router.get(
    "/requests",
    summary="The queue",
    response_model=QueuePage,
    responses=problem_responses(*_OWN[:2], errors.InvalidRequest, errors.RateLimited),
)
async def queue(
    request: Request,
    caller: CallerDep,
    ctx: ContextDep,
    *,
    status: Annotated[Status | None, Query()] = None,
    mine: Annotated[bool, Query(description="Only those that the caller may decide now.")] = False,
    template: Annotated[str | None, Query(max_length=100)] = None,
    subject: Annotated[str | None, Query(max_length=500)] = None,
    q: Annotated[str | None, Query(max_length=200)] = None,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    wait: Annotated[
        int | None, Query(ge=0, le=MOST_SECONDS, description="Wait so many seconds for something new since `after`.")
    ] = None,
    after: Annotated[str | None, Query(max_length=20, description="The mark of an earlier answer.")] = None,
) -> Response:
    """Requests that the caller may see: the oldest deadline first among open ones, else the newest first."""
    caller.require(Scope.APPROVAL_READ)
    mark = None
    if wait is not None or after is not None:
        mark = await until_news(request, ctx, caller, after=after, seconds=wait or 0)
    wanted = QueueFilter(status=status, mine=mine, template=template, subject=subject, q=q, cursor=cursor, limit=limit)
    page = await requests.queue(ctx, caller, wanted)
    return _json(
        _PAGE.dump_json(page) if mark is None else _MARKED.dump_json(QueuePage(page.items, page.next_cursor, mark))
    )


@router.get(
    "/requests/{request_id}", summary="One request", response_model=RequestDetail, responses=problem_responses(*_OWN)
)
async def detail(request_id: str, caller: CallerDep, ctx: ContextDep) -> Response:
    """Everything that a decision needs; the ETag is the version to decide on."""
    return detail_response(await requests.detail(ctx, caller, request_id))


@router.post(
    "/requests/{request_id}/decisions",
    summary="Approve or deny",
    response_model=RequestDetail,
    openapi_extra=body_of(Decision.model_json_schema(), key=True),
    responses=problem_responses(
        *_OWN,
        errors.IneligibleApprover,
        errors.InvalidRequest,
        errors.StaleVersion,
        errors.InvalidTaskState,
        errors.DuplicateRequest,
        errors.InputInvalid,
    ),
)
async def decide(request_id: str, request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """Vote; the answer is the request as it stands then."""
    body = await parsed(request, Decision)
    return detail_response(
        await requests.decide(
            ctx,
            caller,
            request_id,
            decision=body.decision,
            version=body.version,
            reason=body.reason,
            approved_until=_instant(body.approved_until),
            item=body.item,
            proposed_arguments=body.proposed_arguments,
            may_vary=None if body.scope is None else body.scope.may_vary,
            idempotency_key=idempotency_key(request.headers),
        )
    )


@router.post(
    "/approvals/{approval_id}/revoke",
    summary="Take an approval back",
    response_model=RequestDetail,
    openapi_extra=body_of(Revocation.model_json_schema()),
    responses=problem_responses(*_OWN, errors.InvalidRequest, errors.InvalidTaskState, errors.InputInvalid),
)
async def revoke(approval_id: str, request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """End the approval, at once effective at the decision point."""
    body = await parsed(request, Revocation)
    return detail_response(await requests.revoke(ctx, caller, approval_id, reason=body.reason))


@router.post(
    "/approvals/{approval_id}/executions",
    summary="Report what became of an approval",
    status_code=204,
    response_class=Response,
    openapi_extra=body_of(REPORT),
    responses=problem_responses(*_OWN, errors.TaskExpired, errors.InvalidRequest, errors.InvalidTaskState),
)
async def report(approval_id: str, request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """The gate's report, by the approval it used."""
    await requests.report_on_approval(ctx, caller, approval_id, await json_object(request))
    return Response(status_code=204, headers=NO_STORE)


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return parse_instant(text)
    except ValueError:
        raise InvalidRequest("A timestamp is wanted.", pointer="/approved_until") from None


def detail_response(found: RequestDetail) -> Response:
    """One request, with its version as ETag."""
    return _json(_DETAIL.dump_json(found), ETag=f'"{found.version}"')


def _json(body: bytes, **headers: str) -> Response:
    return Response(body, media_type="application/json", headers={**NO_STORE, **headers})

"""Standing rules over REST: propose one from a decided request, list, confirm and end.

Parses, authenticates and renders; who may is the matter of `requests.standing_rules`. See design.md section 4.
"""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field, TypeAdapter

from arap_service.api.auth import CallerDep, ContextDep
from arap_service.api.bodies import Body, parsed
from arap_service.api.problems import NO_STORE, problem_responses
from arap_service.api.requests import body_of
from arap_service.domain import errors
from arap_service.requests import standing_rules
from arap_service.requests.standing_rules import RuleView
from arap_service.views import Page

router = APIRouter(prefix="/resolver/v1", tags=["resolver"])
_PAGE: TypeAdapter[Page[RuleView]] = TypeAdapter(Page[RuleView])
_VIEW: TypeAdapter[RuleView] = TypeAdapter(RuleView)
_OWN = (errors.Unauthenticated, errors.Forbidden)


class Proposal(Body):
    """Which requests like this one should be approved at once, and for how long."""

    item: Annotated[int, Field(ge=1, le=10_000)] | None = None
    may_vary: list[Annotated[str, Field(max_length=255)]] = Field(default_factory=list, max_length=20)
    days: Annotated[int, Field(ge=1, le=365)] | None = None


@router.post(
    "/requests/{request_id}/standing-rules",
    summary="Propose to decide always like this",
    status_code=201,
    response_model=RuleView,
    openapi_extra=body_of(Proposal.model_json_schema()),
    responses=problem_responses(
        *_OWN,
        errors.UnknownTask,
        errors.IneligibleApprover,
        errors.InvalidRequest,
        errors.InvalidTaskState,
        errors.InputInvalid,
    ),
)
async def propose(request_id: str, request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """For somebody who had a part in deciding it; nothing is in force by that."""
    body = await parsed(request, Proposal, optional=True)
    found = await standing_rules.propose_rule(
        ctx, caller, request_id, item=body.item, may_vary=body.may_vary, days=body.days
    )
    return _view(found, status_code=201)


@router.get(
    "/standing-rules",
    summary="Standing rules",
    response_model=Page[RuleView],
    responses=problem_responses(*_OWN, errors.InvalidRequest),
)
async def list_rules(
    caller: CallerDep,
    ctx: ContextDep,
    *,
    status: Annotated[Literal["proposed", "active", "expired", "ended"] | None, Query()] = None,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Rules and proposals, the newest first."""
    page = await standing_rules.list_rules(ctx, caller, status=status, after=cursor, limit=limit)
    return Response(_PAGE.dump_json(page), media_type="application/json", headers=NO_STORE)


@router.post(
    "/standing-rules/{rule_id}/confirm",
    summary="Put a standing rule into force",
    response_model=RuleView,
    responses=problem_responses(*_OWN, errors.NotFound, errors.IneligibleApprover, errors.InvalidTaskState),
)
async def confirm(rule_id: str, caller: CallerDep, ctx: ContextDep) -> Response:
    """For an administrator who neither proposed it nor is served by it."""
    return _view(await standing_rules.confirm_rule(ctx, caller, rule_id))


@router.post(
    "/standing-rules/{rule_id}/end",
    summary="End a standing rule",
    response_model=RuleView,
    responses=problem_responses(errors.Unauthenticated, errors.NotFound, errors.InvalidTaskState),
)
async def end(rule_id: str, caller: CallerDep, ctx: ContextDep) -> Response:
    """At once; for an administrator, and for whoever proposed or confirmed it."""
    return _view(await standing_rules.end_rule(ctx, caller, rule_id))


def _view(found: RuleView, *, status_code: int = 200) -> Response:
    body = _VIEW.dump_json(found)
    return Response(body, status_code=status_code, media_type="application/json", headers=NO_STORE)

"""The reviews of emergencies that were used: listing them, closing one.

Parses, authenticates and renders; who may close one is the matter of `requests.reviews`. See ARS-119.
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
from arap_service.requests import reviews
from arap_service.requests.reviews import ReviewView
from arap_service.views import Page

router = APIRouter(prefix="/resolver/v1", tags=["resolver"])
_PAGE: TypeAdapter[Page[ReviewView]] = TypeAdapter(Page[ReviewView])
_VIEW: TypeAdapter[ReviewView] = TypeAdapter(ReviewView)


class Closing(Body):
    """What somebody found who looked at an emergency afterwards."""

    outcome: Literal["justified", "unjustified"]
    note: Annotated[str, Field(min_length=1, max_length=4000)]


@router.get(
    "/emergency-reviews",
    summary="Emergencies that were used",
    response_model=Page[ReviewView],
    responses=problem_responses(errors.Unauthenticated, errors.Forbidden, errors.InvalidRequest),
)
async def list_reviews(
    caller: CallerDep,
    ctx: ContextDep,
    *,
    state: Annotated[Literal["open", "overdue", "closed"] | None, Query()] = None,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """The one that is due first before the others."""
    page = await reviews.list_reviews(ctx, caller, state=state, after=cursor, limit=limit)
    return Response(_PAGE.dump_json(page), media_type="application/json", headers=NO_STORE)


@router.post(
    "/emergency-reviews/{approval_id}/close",
    summary="Close the review of an emergency",
    response_model=ReviewView,
    openapi_extra=body_of(Closing.model_json_schema()),
    responses=problem_responses(
        errors.Unauthenticated,
        errors.NotFound,
        errors.InvalidRequest,
        errors.IneligibleApprover,
        errors.InvalidTaskState,
    ),
)
async def close(approval_id: str, request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """For an owner or administrator who had no part in the request."""
    body = await parsed(request, Closing)
    found = await reviews.close_review(ctx, caller, approval_id, outcome=body.outcome, note=body.note)
    return Response(_VIEW.dump_json(found), media_type="application/json", headers=NO_STORE)

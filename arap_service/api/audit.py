"""The audit log over HTTP, for auditors: a right of its own, apart from that to see requests.

Parses, authenticates and renders; what is shown is decided in `auditing`. See design.md section 6.
"""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import TypeAdapter

from arap_service.api.auth import CallerDep, ContextDep
from arap_service.api.problems import NO_STORE, problem_responses
from arap_service.auditing import reading
from arap_service.auditing.reading import MAX_LIMIT, AuditFilter, CheckpointView, EntryView
from arap_service.domain import errors
from arap_service.views import Page

router = APIRouter(prefix="/resolver/v1/audit", tags=["audit"])
_PAGE: TypeAdapter[Page[EntryView]] = TypeAdapter(Page[EntryView])
_CHECKPOINT: TypeAdapter[CheckpointView] = TypeAdapter(CheckpointView)
_OWN = (errors.Unauthenticated, errors.Forbidden)


@router.get(
    "",
    summary="The audit log",
    response_model=Page[EntryView],
    responses=problem_responses(*_OWN, errors.InvalidRequest),
)
async def entries(
    caller: CallerDep,
    ctx: ContextDep,
    *,
    evaluation: Annotated[
        str | None, Query(max_length=200, description="Everything that became of this evaluation.")
    ] = None,
    issuer: Annotated[
        str | None, Query(max_length=500, description="Whose evaluation, where several have one of this id.")
    ] = None,
    chain: Annotated[str | None, Query(max_length=200, description="A request's id, login, configuration, …")] = None,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
) -> Response:
    """Entries, the oldest first; the last page has no cursor."""
    wanted = AuditFilter(evaluation=evaluation, issuer=issuer, chain=chain, cursor=cursor, limit=limit)
    return _json(_PAGE.dump_json(await reading.entries(ctx, caller, wanted)))


@router.get(
    "/checkpoint",
    summary="The newest signed checkpoint",
    response_model=CheckpointView,
    responses=problem_responses(*_OWN, errors.NotFound),
)
async def checkpoint(caller: CallerDep, ctx: ContextDep) -> Response:
    """What the log holds, signed; to be kept where nobody here can change it."""
    return _json(_CHECKPOINT.dump_json(await reading.newest_checkpoint(ctx, caller)))


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json", headers=NO_STORE)

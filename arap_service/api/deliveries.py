"""Deliveries over HTTP, for operators: look at them, have one sent again, enable an endpoint.

Parses, authenticates and renders; what may be done is decided in `outbox.py`. See design.md section 6.
"""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field, TypeAdapter

from arap_service import outbox
from arap_service.api.auth import CallerDep, ContextDep
from arap_service.api.bodies import Body, parsed
from arap_service.api.problems import NO_STORE, problem_responses
from arap_service.api.requests import body_of
from arap_service.domain import errors
from arap_service.outbox import MAX_LIMIT, DeliveryFilter, DeliveryView, SilencedView
from arap_service.views import Page

router = APIRouter(prefix="/resolver/v1/deliveries", tags=["deliveries"])
_PAGE: TypeAdapter[Page[DeliveryView]] = TypeAdapter(Page[DeliveryView])
_ONE: TypeAdapter[DeliveryView] = TypeAdapter(DeliveryView)
_SILENCED: TypeAdapter[list[SilencedView]] = TypeAdapter(list[SilencedView])
_OWN = (errors.Unauthenticated, errors.Forbidden)
Status = Literal["pending", "delivered", "dead", "disabled"]


class Endpoint(Body):
    """An endpoint and whose it is, as the list of disabled ones shows them."""

    client_id: Annotated[str, Field(min_length=1, max_length=500)]
    endpoint: Annotated[str, Field(min_length=1, max_length=4000)]


@router.get(
    "",
    summary="Deliveries",
    response_model=Page[DeliveryView],
    responses=problem_responses(*_OWN, errors.InvalidRequest),
)
async def page(
    caller: CallerDep,
    ctx: ContextDep,
    *,
    status: Annotated[Status | None, Query()] = None,
    request: Annotated[str | None, Query(max_length=200, description="Those about one request.")] = None,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 50,
) -> Response:
    """Deliveries, the newest first; dead letters are those with status dead."""
    wanted = DeliveryFilter(status=status, request=request, cursor=cursor, limit=limit)
    return _json(_PAGE.dump_json(await outbox.page(ctx, caller, wanted)))


@router.get(
    "/disabled-endpoints",
    summary="Endpoints that have said 410",
    response_model=list[SilencedView],
    responses=problem_responses(*_OWN),
)
async def silenced(caller: CallerDep, ctx: ContextDep) -> Response:
    """Nothing is sent there until they are enabled again."""
    return _json(_SILENCED.dump_json(list(await outbox.silenced(ctx, caller))))


@router.post(
    "/enable-endpoint",
    summary="Send to an endpoint again",
    status_code=204,
    response_class=Response,
    openapi_extra=body_of(Endpoint.model_json_schema()),
    responses=problem_responses(*_OWN, errors.InvalidRequest, errors.NotFound),
)
async def enable(request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """What comes next is sent there; what was disabled meanwhile can be sent again one by one."""
    body = await parsed(request, Endpoint)
    await outbox.enable(ctx, caller, client_id=body.client_id, endpoint=body.endpoint)
    return Response(status_code=204, headers=NO_STORE)


@router.get(
    "/{delivery_id}",
    summary="One delivery",
    response_model=DeliveryView,
    responses=problem_responses(*_OWN, errors.NotFound),
)
async def detail(delivery_id: str, caller: CallerDep, ctx: ContextDep) -> Response:
    """A delivery with every attempt that was made."""
    return _json(_ONE.dump_json(await outbox.detail(ctx, caller, delivery_id)))


@router.post(
    "/{delivery_id}/redeliver",
    summary="Send a delivery again",
    response_model=DeliveryView,
    status_code=202,
    responses=problem_responses(*_OWN, errors.NotFound, errors.InvalidTaskState),
)
async def redeliver(delivery_id: str, caller: CallerDep, ctx: ContextDep) -> Response:
    """Under the same identifier, as soon as the courier comes to it, with a schedule that begins anew."""
    return _json(_ONE.dump_json(await outbox.redeliver(ctx, caller, delivery_id)), status=202)


def _json(body: bytes, *, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json", headers=NO_STORE)

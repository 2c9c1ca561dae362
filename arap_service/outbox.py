"""What operators see of deliveries and do about them: look, send again, enable an endpoint that had said 410.

The right to do so is `operate`, which `admin` includes. Sending again keeps the identifier, so that a receiver can
tell; the schedule begins anew. Nothing here sends: the courier does, and never touches the task (ARS-97). Design.md
section 6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlmodel import Session

from arap_service import audit
from arap_service.context import Context
from arap_service.cursors import cursor, read_cursor
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.delivery import DeliveryStatus
from arap_service.domain.errors import InvalidRequest, InvalidTaskState, NotFound
from arap_service.protocol.arap import parse_instant
from arap_service.store import deliveries
from arap_service.store.database import WriteSession
from arap_service.store.tables import Delivery, DeliveryAttempt
from arap_service.store.tasks import is_storable
from arap_service.views import Page

TOPIC: Final = "deliveries"
"""What the courier waits for."""
MAX_LIMIT: Final = 200
CHAIN: Final = "configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One attempt: when, what came of it, the receiver's status or a code of ours."""

    number: int
    at: datetime
    outcome: str
    http_status: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryView:
    """A delivery as an operator sees it; `status` dead or disabled ones wait for somebody to send them again.

    `next_at` is the next attempt of a pending one; `attempts_made` are listed where one delivery is asked for.
    """

    id: str
    request_id: str
    client_id: str
    subscription: str | None
    endpoint: str
    event: str
    status: str
    attempts: int
    created_at: datetime
    next_at: datetime | None
    finished_at: datetime | None
    last_error: str | None
    attempts_made: tuple[AttemptView, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SilencedView:
    """An endpoint that has said 410, whose it is, and when."""

    client_id: str
    endpoint: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries to list, the newest first; None means all."""

    status: str | None = None
    request: str | None = None
    cursor: str | None = None
    limit: int = 50


async def page(ctx: Context, caller: Caller, wanted: DeliveryFilter) -> Page[DeliveryView]:
    """A page of deliveries.

    Raises:
        Forbidden: The caller is no operator.
        InvalidRequest: A part of the selection is malformed.
    """
    _require_operator(caller)
    return await ctx.database.read(lambda session: page_of(session, wanted))


async def detail(ctx: Context, caller: Caller, delivery_id: str) -> DeliveryView:
    """One delivery with its attempts.

    Raises:
        Forbidden: The caller is no operator.
        NotFound: There is no such delivery, or its request is not kept any more.
    """
    _require_operator(caller)
    return await ctx.database.read(lambda session: _detail(session, delivery_id))


async def redeliver(ctx: Context, caller: Caller, delivery_id: str) -> DeliveryView:
    """Have a delivery sent again, whatever became of it; its endpoint is enabled again if it had said 410.

    Raises:
        Forbidden: The caller is no operator.
        NotFound: There is no such delivery, or its request is not kept any more.
        InvalidTaskState: It is being sent at this moment.
    """
    _require_operator(caller)
    now = ctx.clock()
    found = await ctx.database.write(lambda session: restart(session, delivery_id, actor=caller.principal, now=now))
    ctx.log.info("delivery_restarted", delivery_id=delivery_id)
    return found


async def silenced(ctx: Context, caller: Caller) -> Sequence[SilencedView]:
    """Every endpoint that nothing is sent to.

    Raises:
        Forbidden: The caller is no operator.
    """
    _require_operator(caller)
    return await ctx.database.read(silenced_of)


async def enable(ctx: Context, caller: Caller, *, client_id: str, endpoint: str) -> None:
    """Send to an endpoint again; what was disabled meanwhile stays so until it is sent again.

    Raises:
        Forbidden: The caller is no operator.
        NotFound: Nothing keeps deliveries from going there.
    """
    _require_operator(caller)
    now = ctx.clock()
    await ctx.database.write(
        lambda session: enable_in(session, client_id, endpoint=endpoint, actor=caller.principal, now=now)
    )


def _require_operator(caller: Caller) -> None:
    if not caller.may(Scope.ADMIN):
        caller.require(Scope.OPERATE)


# The same within a transaction, for commands


def page_of(session: Session, wanted: DeliveryFilter) -> Page[DeliveryView]:
    """See `page`."""
    if wanted.status is not None and wanted.status not in set(DeliveryStatus):
        raise InvalidRequest("There is no such status.", pointer="/status")
    if wanted.request is not None and not is_storable(wanted.request):
        raise InvalidRequest("There can be no such request.", pointer="/request")
    after = None
    if wanted.cursor is not None:
        at, delivery_id = read_cursor(wanted.cursor, "deliveries", str, str)
        try:
            after = (parse_instant(str(at)), str(delivery_id))
        except ValueError:
            raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor") from None
    found = deliveries.deliveries_page(
        session, status=wanted.status, task_id=wanted.request, after=after, limit=wanted.limit + 1
    )
    shown = found[: wanted.limit]
    more = cursor("deliveries", shown[-1].created_at.isoformat(), shown[-1].id) if len(found) > wanted.limit else None
    return Page(tuple(_view(each) for each in shown), more)


def restart(session: WriteSession, delivery_id: str, *, actor: str, now: datetime) -> DeliveryView:
    """See `redeliver`."""
    before = _found(session, delivery_id)
    previous = before.status
    delivery = deliveries.restart_delivery(session, delivery_id, now=now)
    if delivery is None:
        raise InvalidTaskState("The delivery is being sent just now.")
    enabled = deliveries.enable_endpoint(session, deliveries.owner_of(delivery), endpoint=delivery.endpoint)
    audit.append(
        session,
        delivery.task_id,
        kind="delivery_restarted",
        actor=actor,
        detail={"delivery": delivery.id, "was": previous, "endpoint_enabled": enabled},
        now=now,
    )
    session.on_commit(TOPIC)
    return _view(delivery)


def silenced_of(session: Session) -> Sequence[SilencedView]:
    """See `silenced`."""
    return [
        SilencedView(client_id=row.client_id, endpoint=row.endpoint, at=row.at)
        for row in deliveries.silenced_endpoints(session)
    ]


def enable_in(session: WriteSession, client_id: str, *, endpoint: str, actor: str, now: datetime) -> None:
    """See `enable`."""
    if not (is_storable(client_id) and is_storable(endpoint)):
        raise NotFound
    if not deliveries.enable_endpoint(session, client_id, endpoint=endpoint):
        raise NotFound("Nothing keeps deliveries from going there.")
    detail = {"client_id": client_id, "endpoint": endpoint}
    audit.append(session, CHAIN, kind="endpoint_enabled", actor=actor, detail=detail, now=now)


def _detail(session: Session, delivery_id: str) -> DeliveryView:
    delivery = _found(session, delivery_id)
    return _view(delivery, deliveries.attempts_of(session, delivery_id))


def _found(session: Session, delivery_id: str) -> Delivery:
    found = deliveries.find_delivery(session, delivery_id) if is_storable(delivery_id) else None
    if found is None:
        raise NotFound
    return found


def _view(row: Delivery, attempts: Sequence[DeliveryAttempt] | None = None) -> DeliveryView:
    made = None if attempts is None else tuple(_attempt(each) for each in attempts)
    return DeliveryView(
        id=row.id,
        request_id=row.task_id,
        client_id=row.client_id,
        subscription=row.subscription,
        endpoint=row.endpoint,
        event=row.event,
        status=row.status,
        attempts=row.attempts,
        created_at=row.created_at,
        next_at=row.next_at if row.status == DeliveryStatus.PENDING else None,
        finished_at=row.finished_at,
        last_error=row.last_error,
        attempts_made=made,
    )


def _attempt(row: DeliveryAttempt) -> AttemptView:
    return AttemptView(number=row.number, at=row.at, outcome=row.outcome, http_status=row.http_status, error=row.error)

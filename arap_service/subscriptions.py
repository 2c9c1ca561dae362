"""The deployment's own subscriptions: every event of every request, to endpoints that the configuration names (ARS-98).

Apart from callbacks, which belong to a request and its client; the same courier sends both. Each subscription follows
the log from where it was when the service first knew it, so that an event becomes exactly one delivery, whichever
instance sees it. An event is told, never a result: nothing can be enforced by it. See design.md section 5.
"""

import json
from functools import partial
from typing import Any

from sqlmodel import Session

from arap_service.auditing.events import Event, events_after
from arap_service.auditing.places import place_entries
from arap_service.context import Context
from arap_service.outbox import TOPIC
from arap_service.protocol.arap import format_instant
from arap_service.records import task_seal
from arap_service.settings_parts import SubscriptionSettings
from arap_service.store import log, tasks
from arap_service.store.database import WriteSession
from arap_service.store.tables import Delivery


async def follow_subscriptions(ctx: Context) -> int:
    """Turn what has happened since the last time into deliveries; how many there are to send.

    Raises:
        StoreUnavailable: The database is locked or cannot be reached; the next call goes on from there.
    """
    subscriptions, count = ctx.settings.subscriptions, 0
    if not subscriptions:
        return 0
    await place_entries(ctx.database)
    for name, subscription in subscriptions.items():
        while not await ctx.database.read(partial(_is_up_to_date, name=name)):
            count += await ctx.database.write(partial(_follow, ctx, name=name, subscription=subscription))
    return count


def _place(name: str) -> str:
    return f"subscription:{name}"


def _is_up_to_date(session: Session, *, name: str) -> bool:
    followed = log.position_of_follower(session, _place(name))
    return followed is not None and followed >= log.last_position(session)


def _follow(ctx: Context, session: WriteSession, *, name: str, subscription: SubscriptionSettings) -> int:
    follower = log.follower(session, _place(name))
    if follower is None:
        return 0  # it begins here: what was before is not told
    found = events_after(session, after=follower.position)
    wanted = [event for event in found.events if not subscription.events or event.name in subscription.events]
    count = sum(_deliver(ctx, session, event, name=name, endpoint=subscription.endpoint) for event in wanted)
    follower.position = found.position
    if count:
        session.on_commit(TOPIC)
    return count


def _deliver(ctx: Context, session: WriteSession, event: Event, *, name: str, endpoint: str) -> bool:
    task = tasks.find_task(session, event.request_id)
    if task is None:
        return False  # retention was faster
    body: dict[str, Any] = {
        "id": str(event.position),
        "event": event.name,
        "request": event.request_id,
        "evaluation_id": event.evaluation_id,
        "at": format_instant(event.at),
    }
    delivery_id, now = ctx.new_id("msg"), ctx.clock()
    sealed = task_seal(task, ctx.ring).seal_bytes(f"delivery:{delivery_id}:body_sealed", json.dumps(body).encode())
    session.add(
        Delivery(
            id=delivery_id,
            task_id=task.id,
            client_id=task.client_id,
            subscription=name,
            endpoint=endpoint,
            event=event.name,
            created_at=now,
            next_at=now,
            body_sealed=sealed,
        )
    )
    return True

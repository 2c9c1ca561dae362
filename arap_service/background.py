"""The work that no request does: deliveries, deadlines, retention, checkpoints, fresh rules and keys.

Every loop does its work, then waits for a wake-up or its interval, whatever comes first. A failed round is logged and
the loop goes on; what a round left undone is still in the database for the next.
"""

from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from arap_service.auditing.checkpoints import Checkpointer, notary_of
from arap_service.context import Context
from arap_service.courier import Courier
from arap_service.notifier import Notifier
from arap_service.requests.endings import REQUESTS
from arap_service.requests.reviews import remind_of_overdue
from arap_service.subscriptions import follow_subscriptions
from arap_service.workers import expire_due, keep_step_times, purge_due

Round = Callable[[Context], Awaitable[object]]


async def run_background(ctx: Context) -> None:
    """Run every loop until cancelled."""
    async with anyio.create_task_group() as group:
        group.start_soon(_loop, ctx, "rules", _refresh_rules, 2.0)
        group.start_soon(_loop, ctx, "keys", _refresh_keys, 60.0)
        group.start_soon(_loop, ctx, "deadlines", expire_due, 1.0)
        group.start_soon(_loop, ctx, "steps", keep_step_times, 1.0)
        if ctx.settings.notifications.channels:
            group.start_soon(_loop, ctx, "reviews", remind_of_overdue, 60.0)
        group.start_soon(_loop, ctx, "retention", purge_due, 60.0)
        group.start_soon(_loop, ctx, "signing", _checkpointer(ctx), float(ctx.settings.limits.checkpoint_seconds))
        if ctx.settings.subscriptions:
            group.start_soon(_loop, ctx, REQUESTS, follow_subscriptions, 2.0)
        group.start_soon(Courier(ctx).run)
        if ctx.settings.notifications.channels:
            group.start_soon(Notifier(ctx).run)


def _checkpointer(ctx: Context) -> Round:
    checkpointer = Checkpointer(notary_of(ctx), owner=ctx.new_id("checkpointer"))

    async def sign(_: Context) -> None:
        await checkpointer.round()

    return sign


async def _refresh_rules(ctx: Context) -> None:
    await anyio.to_thread.run_sync(ctx.policy.refresh)
    await ctx.policy.record(ctx.database, now=ctx.clock())


async def _refresh_keys(ctx: Context) -> None:
    await ctx.keys.reload(ctx.database, ctx.ring)


async def _loop(ctx: Context, name: str, work: Round, interval: float) -> None:
    with ctx.database.subscribe(name) as subscription:
        while True:
            try:
                await work(ctx)
            except Exception:  # the top of a worker loop
                ctx.log.exception("round_failed", loop=name)
            await subscription.wait(interval)

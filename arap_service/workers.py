"""What time alone does to requests: deadlines end them, and retention removes what is no longer needed.

Any number of instances may run these at once; every step is a guarded transition or an idempotent removal. Callers
loop; nothing here sleeps. See design.md section 5 (ARS-54, ARS-62, ARS-120, ARS-124).
"""

from datetime import timedelta
from functools import partial
from typing import Final

from arap_service.context import Context
from arap_service.requests.decisions import expire_if_due
from arap_service.store import notices, steps, tasks
from arap_service.store.database import WriteSession
from arap_service.store.tables import Tombstone

TOMBSTONE: Final = timedelta(days=7)
"""How long a removed task is remembered as gone rather than unknown."""
DENIAL_GRACE: Final = timedelta(hours=1)
"""How much longer than its deadline a denial on record is kept; tolerances for clocks are far below."""
_BATCH: Final = 100


async def expire_due(ctx: Context) -> int:
    """End every pending request whose deadline has come; how many this instance ended."""
    count = 0
    while due := await ctx.database.read(lambda session: tasks.due_tasks(session, now=ctx.clock(), limit=_BATCH)):
        ended = 0
        for task_id, _ in due:
            ended += await ctx.database.write(partial(_expire, ctx, task_id=task_id))
        count += ended
        if not ended:
            break
    return count


async def keep_step_times(ctx: Context) -> int:
    """Remind, ask further people and end what waited too long; how many requests this instance looked at."""
    count = 0
    while due := await ctx.database.read(lambda session: steps.tasks_with_due(session, now=ctx.clock(), limit=_BATCH)):
        for task_id in due:
            await ctx.database.write(partial(_keep_time, ctx, task_id=task_id))
        count += len(due)
    return count


def _keep_time(ctx: Context, session: WriteSession, *, task_id: str) -> None:
    task, now = tasks.find_task(session, task_id, for_update=True), ctx.clock()
    if task is None:
        return
    if task.status == "pending":
        expire_if_due(ctx, session, task, now=now)
    else:
        steps.take_due(session, task, now=now)  # there is nothing to be done any more


def _expire(ctx: Context, session: WriteSession, *, task_id: str) -> bool:
    task = tasks.find_task(session, task_id)
    return task is not None and expire_if_due(ctx, session, task, now=ctx.clock())


async def purge_due(ctx: Context) -> int:
    """Remove requests whose retention is over, leaving a tombstone and the audit; how many were removed."""
    count = 0
    while removed := await ctx.database.write(lambda session: _purge(ctx, session)):
        count += removed
    await ctx.database.write(
        lambda session: tasks.forget_old(session, now=ctx.clock(), denials_before=ctx.clock() - DENIAL_GRACE)
    )
    told_before = ctx.clock() - timedelta(days=ctx.settings.notifications.keep_days)
    await ctx.database.write(lambda session: notices.forget_notices(session, before=told_before))
    return count


def _purge(ctx: Context, session: WriteSession) -> int:
    now, removed = ctx.clock(), 0
    for task in tasks.purgeable_tasks(session, now=now, limit=_BATCH):
        session.expunge(task)
        if not tasks.remove_task(session, task.id):
            continue
        session.add(
            Tombstone(
                task_id=task.id,
                submitter=task.submitter,
                client_id=task.client_id,
                removed_at=now,
                keep_until=now + TOMBSTONE,
            )
        )
        removed += 1
    return removed

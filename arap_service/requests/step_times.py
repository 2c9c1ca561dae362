"""What the clock does to open steps: reminds, asks further people, and ends what waited too long.

Called by whoever is about to decide, with the request locked, and by a worker for what nobody touches; either way it is
judged by the clock, done once, and in one transaction with its record. See design.md section 4, "A step".
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from arap_service.context import Context
from arap_service.domain.notices import NoticeKind
from arap_service.domain.task import Deny, Event, Expire
from arap_service.domain.timing import timing_of
from arap_service.records import Part
from arap_service.requests.announcing import announce
from arap_service.requests.endings import REQUESTS, Cause, Moved, carry_out, move, record, task_topic
from arap_service.store import items, steps, tasks
from arap_service.store.database import WriteSession
from arap_service.store.step_tables import StepDue
from arap_service.store.tables import StepState, Task

BY: Final = "step_deadline"


def keep_time(ctx: Context, session: WriteSession, task: Task, *, now: datetime) -> bool:
    """Do what has become due with the steps of a request; whether that has ended it or an item of it."""
    if task.status != "pending":
        return False
    due = steps.take_due(session, task, now=now)
    ended = [_do(ctx, session, task, each, due, now=now) for each in due]
    return any(ended)


def _do(
    ctx: Context, session: WriteSession, task: Task, due: StepDue, others: Sequence[StepDue], *, now: datetime
) -> bool:
    state = steps.find_step(session, due)
    part = Part(task, items.find_item(session, task.id, due.item) if due.item else None)
    if state is None or state.status != "waiting" or part.own.status != "pending":
        return False
    match due.kind:
        case "remind":
            later = (
                each for each in others if (each.step_id, each.item, each.kind) == (due.step_id, due.item, "remind")
            )
            if not any(each.number > due.number for each in later):  # after an outage one reminder is enough
                _announce(ctx, session, NoticeKind.REMINDER, part, state, about=str(due.number), now=now)
        case "escalate":
            _escalate(ctx, session, part, state, now=now)
        case _:
            return _end(ctx, session, part, state, now=now)
    return False


def _escalate(ctx: Context, session: WriteSession, part: Part, state: StepState, *, now: datetime) -> None:
    to = timing_of(state.timing).escalate
    if to is None:
        return
    for kind, names in (("group", to.groups), ("person", to.people)):
        for name in sorted(names):
            steps.add_voice(session, state, kind=kind, name=name)
    session.flush()
    steps.mark_escalated(session, state, at=now)
    said: dict[str, JsonValue] = {"step": state.step_id, "groups": [*sorted(to.groups)], "people": [*sorted(to.people)]}
    record(session, part, "step_escalated", "system", said, now=now)
    announce(
        ctx,
        session,
        NoticeKind.ESCALATED,
        part.task,
        now=now,
        item=part.item,
        step=state.step_id,
        people=to.people,
        groups=to.groups,
    )
    session.on_commit(task_topic(part.task.id))
    session.on_commit(REQUESTS)


def _end(ctx: Context, session: WriteSession, part: Part, state: StepState, *, now: datetime) -> bool:
    event: Event = Deny()
    if timing_of(state.timing).on_deadline == "expire":
        # The deadline of a step is one of the request.
        tasks.cut_pending(session, part.task.id, item=part.item, at=now)
        event = Expire()
    session.refresh(part.own)
    moved = move(ctx, session, part, event, Cause("system", BY, detail={"step": state.step_id}), now=now)
    if not isinstance(moved, Moved):
        return False
    tasks.set_step(session, part.task.id, item=part.item, step_id=state.step_id, status="ended")
    carry_out(ctx, session, moved, Cause("system", BY, detail={"step": state.step_id}), now=now)
    return True


def _announce(
    ctx: Context, session: WriteSession, kind: NoticeKind, part: Part, state: StepState, *, about: str, now: datetime
) -> None:
    announce(ctx, session, kind, part.task, now=now, about=about, item=part.item, step=state.step_id)

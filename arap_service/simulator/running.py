"""Carries out what is armed about tasks: ends them when their time has come, and takes approvals back.

Outcomes go through the same state machine, rows and audit as every other; the audit names the simulator. What applies
is chosen in `program.py`. See docs/simulator.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final

from sqlmodel import Session, col, select

from arap_service.context import Context
from arap_service.domain.behaviours import Group
from arap_service.domain.task import Approve, Cancel, Deny, Event, Expire, Fail
from arap_service.requests.endings import REQUESTS, Cause, end, record, task_topic
from arap_service.simulator.program import Armed, Occasion, Program
from arap_service.store import items, tasks, votes
from arap_service.store.database import WriteSession
from arap_service.store.tables import Task

ACTOR: Final = "simulator"
_EVENTS: Final[Mapping[str, type[Event]]] = MappingProxyType(
    {"approve": Approve, "deny": Deny, "expire": Expire, "fail": Fail, "cancel": Cancel}
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a task will end, and when."""

    armed: Armed
    due: datetime


@dataclass(frozen=True, slots=True)
class OpenTask:
    """What is looked at of an open task."""

    id: str
    template: str
    created_at: datetime
    has_callback: bool


def open_tasks(session: Session) -> list[OpenTask]:
    """The open tasks, oldest first."""
    found = session.exec(select(Task).where(col(Task.status) == "pending").order_by(col(Task.created_at))).all()
    return [OpenTask(task.id, task.template_id, task.created_at, task.callback_endpoint is not None) for task in found]


class Outcomes:
    """Ends tasks; a plan is made once, when a task is first seen with an outcome that applies to it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._plans: dict[str, Plan] = {}

    def forget(self, task_id: str | None = None) -> None:
        """Plan this task anew, or all of them."""
        if task_id is None:
            self._plans.clear()
        else:
            self._plans.pop(task_id, None)

    async def carry_out(self, ctx: Context, found: list[OpenTask]) -> datetime | None:
        """End what is due; when the next one will be."""
        self._plans = {task.id: self._plans[task.id] for task in found if task.id in self._plans}
        for task in found:
            plan = self._plan(task)
            if plan is not None and plan.due <= ctx.clock():
                await ctx.database.write(partial(_end, ctx, task_id=task.id, plan=plan))
                self._plans.pop(task.id, None)
        return min((plan.due for plan in self._plans.values()), default=None)

    def _plan(self, task: OpenTask) -> Plan | None:
        if task.id not in self._plans:
            armed = self._program.choose(Occasion(task.id, task.template, task.id), Group.OUTCOME)
            if armed is None:
                return None
            due = max(task.created_at, armed.at) + timedelta(seconds=armed.act.after)
            self._plans[task.id] = Plan(armed, due)
        return self._plans[task.id]


def _end(ctx: Context, session: WriteSession, *, task_id: str, plan: Plan) -> None:
    task = tasks.find_task(session, task_id, for_update=True)
    if task is None:
        return
    now, event = ctx.clock(), _EVENTS[plan.armed.act.name]()
    if isinstance(event, Expire):
        task.pending_until = min(task.pending_until, now)
        for item in items.items_of(session, [task.id]):
            item.pending_until = min(item.pending_until, now)
        session.flush()
    wrote = {"reason": "The simulator was told to deny."} if isinstance(event, Deny) else None
    end(ctx, session, task, event, Cause(ACTOR, ACTOR, wrote=wrote), now=now)


def revoke(ctx: Context, session: WriteSession, approval_id: str) -> bool:
    """Take an approval back as a reviewer would; whether it was in force."""
    found = votes.find_approval(session, approval_id, for_update=True)
    now = ctx.clock()
    if found is None or tasks.end_approval(session, approval_id, to="revoked", at=now, by=ACTOR, reason=None) is None:
        return False
    task = found[1]
    tasks.bump_task(session, task.id)
    record(session, task, "approval_revoked", ACTOR, {"approval_id": approval_id}, now=now)
    session.on_commit(task_topic(task.id))
    session.on_commit(REQUESTS)
    return True

"""How a task ends: the one place that turns a transition of `domain/task.py` into rows, in the caller's transaction.

Compare-and-set on status and version, then approval, audit entry and notification (ARS-55, ARS-56). Who may cause the
event has been decided before.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, assert_never

from pydantic import JsonValue

from arap_service import audit
from arap_service.context import Context
from arap_service.domain.task import Event, Grant, Notify, Record, Refused, TaskState, Transition, decide
from arap_service.keys import APPROVAL_TYP, Use
from arap_service.protocol.arap import TaskStatus, format_instant
from arap_service.protocol.canonical import bound_context, prune_subject
from arap_service.records import task_seal, tuple_of
from arap_service.requests.handles import task_handle
from arap_service.short_tokens import sign_short
from arap_service.store import tasks
from arap_service.store.database import WriteSession
from arap_service.store.tables import Approval, Delivery, Task

DELIVERIES: Final = "deliveries"
"""Topic that the courier waits for."""
REQUESTS: Final = "requests"
"""Topic that is rung whenever any request changes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a task ends: who did it, by what rule, and what he wrote for the requester."""

    actor: str
    by: str
    wrote: Mapping[str, str] | None = None
    wishes: Sequence[datetime] = ()  # until when those who approved want it to last
    detail: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A task in its new state, and the transition whose effects are still to be carried out."""

    task: Task
    transition: Transition


def task_topic(task_id: str) -> str:
    """Topic that is rung whenever a task changes."""
    return f"task:{task_id}"


def state_of(task: Task) -> TaskState:
    """A task as the state machine sees it."""
    return TaskState(task.id, TaskStatus(task.status), task.version, task.pending_until)


def end(
    ctx: Context, session: WriteSession, task: Task, event: Event, cause: Cause, *, now: datetime
) -> Task | Refused | None:
    """Apply `event`: the ended task, or why the machine refuses, or None when somebody else was faster."""
    moved = move(ctx, session, task, event, cause, now=now)
    if not isinstance(moved, Moved):
        return moved
    carry_out(ctx, session, moved, cause, now=now)
    return moved.task


def move(
    ctx: Context, session: WriteSession, task: Task, event: Event, cause: Cause, *, now: datetime
) -> Moved | Refused | None:
    """The compare-and-set of `end` alone; whoever wins carries the effects out in the same transaction."""
    transition = decide(state_of(task), event, now=now)
    if isinstance(transition, Refused):
        return transition
    seal = task_seal(task, ctx.ring)
    ended = tasks.end_task(
        session,
        task.id,
        seen=task.version,
        to=transition.to.value,
        at=now,
        by=cause.by,
        decision=None if cause.wrote is None else seal.seal("decision_sealed", dict(cause.wrote)),
    )
    return None if ended is None else Moved(ended, transition)


def carry_out(ctx: Context, session: WriteSession, moved: Moved, cause: Cause, *, now: datetime) -> None:
    """Turn the effects of a transition that has been made into rows."""
    task = moved.task
    detail: dict[str, JsonValue] = {"by": cause.by, "version": task.version, **(cause.detail or {})}
    for effect in moved.transition.effects:
        match effect:
            case Grant():
                approval = grant(ctx, session, task, cause, now=now)
                detail |= {"approval_id": approval.id, "approved_until": format_instant(approval.approved_until)}
            case Record(kind):
                record(session, task, kind, cause.actor, detail, now=now)
            case Notify(status):
                _notify(ctx, session, task, status, now=now)
            case _:
                assert_never(effect)
    session.after_commit(partial(ctx.metrics.ended, task.status, cause.by))
    session.on_commit(task_topic(task.id))
    session.on_commit(REQUESTS)


def record(
    session: WriteSession,
    task: Task,
    kind: str,
    actor: str,
    detail: Mapping[str, JsonValue],
    *,
    now: datetime,
    is_first: bool = False,
) -> None:
    """Append to the audit chain of a task; `is_first` for the entry that comes with its creation."""
    audit.append(
        session,
        task.id,
        kind=kind,
        actor=actor,
        detail=detail,
        now=now,
        evaluation_id=task.evaluation_id,
        opens_chain=is_first,
    )


def latest_end(task: Task, *, now: datetime) -> datetime:
    """The latest moment that an approval given now may last to: the template's cap, and no longer than was asked."""
    cap = now + timedelta(seconds=int(task.template["approval_seconds"]))
    return min(moment for moment in (cap, task.requested_until, task.expires_at) if moment is not None)


def granted_end(task: Task, wishes: Sequence[datetime], *, now: datetime) -> datetime:
    """When an approval given now ends: when everybody allows (ARS-108), in whole seconds as signed times are."""
    return min((latest_end(task, now=now), *wishes)).replace(microsecond=0)


def grant(ctx: Context, session: WriteSession, task: Task, cause: Cause, *, now: datetime) -> Approval:
    """Write the approval of a task, with its signed proof (PDP-69); its end, which has been checked, is to come."""
    at, until = now.replace(microsecond=0), granted_end(task, cause.wishes, now=now)
    approval_id = ctx.new_id("apr")
    approval = Approval(
        id=approval_id,
        task_id=task.id,
        approved_at=at,
        approved_until=until,
        state=sign_short(ctx.keys, Use.APPROVAL, _claims(ctx, task, approval_id, at=at, until=until), APPROVAL_TYP),
    )
    session.add(approval)
    return approval


def _claims(ctx: Context, task: Task, approval_id: str, *, at: datetime, until: datetime) -> dict[str, Any]:
    about = tuple_of(task, task_seal(task, ctx.ring))
    claims: dict[str, Any] = {
        "iss": ctx.settings.access_request_endpoint,
        "aud": ctx.settings.identifier,
        "iat": int(at.timestamp()),
        "exp": int(until.timestamp()),
        "jti": ctx.new_id("aps"),
        "approval_id": approval_id,
        "task_id": task.id,
        "evaluation_id": task.evaluation_id,
        "subject": prune_subject(about.subject),
        "resource": about.resource,
        "action": about.action,
        "context": bound_context(about.context, task.binding_members),
        "binding_context_members": task.binding_members,
        "binding_hash": task.binding_hash,
        "client_id": task.client_id,
        "agent": task.agent,
        "actor": [{"iss": issuer, "sub": subject} for issuer, subject in task.actors] or None,
        "template": task.template_id,
    }
    return {name: value for name, value in claims.items() if value is not None}


def _notify(ctx: Context, session: WriteSession, task: Task, status: TaskStatus, *, now: datetime) -> None:
    if task.callback_endpoint is None or (task.callback_events and status not in task.callback_events):  # ARS-92
        return
    seal = task_seal(task, ctx.ring)
    body: dict[str, Any] = {"task": task_handle(task, ctx.settings)}  # ARS-94: a notification, no result
    if task.callback_state_sealed is not None:
        body["state"] = seal.open("callback_state_sealed", task.callback_state_sealed)  # ARS-93
    delivery_id = ctx.new_id("msg")
    sealed = seal.seal_bytes(
        f"delivery:{delivery_id}:body_sealed",
        json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(),
    )
    session.add(
        Delivery(
            id=delivery_id,
            task_id=task.id,
            client_id=task.client_id,
            endpoint=task.callback_endpoint,
            event=status.value,
            created_at=now,
            next_at=now,
            body_sealed=sealed,
        )
    )
    session.on_commit(DELIVERIES)

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
from arap_service.domain.binding import WIDENED
from arap_service.domain.bulk import decide_item, settle
from arap_service.domain.notices import NoticeKind
from arap_service.domain.task import Event, Grant, Notify, Record, Refused, TaskState, Transition, decide
from arap_service.keys import APPROVAL_TYP, Use
from arap_service.protocol.arap import TaskStatus, format_instant
from arap_service.protocol.canonical import bound_context, prune_subject
from arap_service.records import Part, task_seal, tuple_of
from arap_service.requests.announcing import announce
from arap_service.requests.handles import handle_of
from arap_service.short_tokens import sign_short
from arap_service.store import items, tasks
from arap_service.store.database import WriteSession
from arap_service.store.tables import Approval, Delivery, Task
from arap_service.tracing import current_traceparent

DELIVERIES: Final = "deliveries"
"""Topic that the courier waits for."""
REQUESTS: Final = "requests"
"""Topic that is rung whenever any request changes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a task ends: who did it, by what rule, and what he wrote for the requester."""

    actor: str
    by: str
    wrote: Mapping[str, Any] | None = None
    wishes: Sequence[datetime] = ()  # until when those who approved want it to last
    may_vary: Sequence[str] = ()  # what of the template's scope they leave wide; nothing is where no person approved
    detail: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A request or item in its new state, and the transition whose effects are still to be carried out."""

    part: Part
    transition: Transition


def task_topic(task_id: str) -> str:
    """Topic that is rung whenever a task changes."""
    return f"task:{task_id}"


def transition_of(part: Part, event: Event, *, now: datetime) -> Transition | Refused:
    """What the state machine makes of `event`."""
    own = part.own
    state = TaskState(part.task.id, TaskStatus(own.status), own.version, own.pending_until)
    return decide(state, event, now=now) if part.row is None else decide_item(state, event, now=now)


def end(
    ctx: Context, session: WriteSession, task: Task, event: Event, cause: Cause, *, now: datetime
) -> Task | Refused | None:
    """Apply `event` to a request; what it is then, or why the machine refuses, or None when somebody was faster.

    To a bundle it is applied item by item: whichever can take it do, and the whole follows (ARS-84).
    """
    if task.item_count:
        return _end_items(ctx, session, task, event, cause, now=now)
    moved = move(ctx, session, Part(task), event, cause, now=now)
    if not isinstance(moved, Moved):
        return moved
    carry_out(ctx, session, moved, cause, now=now)
    return moved.part.task


def _end_items(
    ctx: Context, session: WriteSession, task: Task, event: Event, cause: Cause, *, now: datetime
) -> Task | Refused:
    tasks.find_task(session, task.id, for_update=True)
    refused = Refused("terminal", TaskStatus(task.status))
    is_changed = False
    for row in items.items_of(session, [task.id]):
        moved = move(ctx, session, Part(task, row), event, cause, now=now)
        if isinstance(moved, Moved):
            _effects(ctx, session, moved, cause, now=now)
            is_changed = True
        elif isinstance(moved, Refused) and moved.current is TaskStatus.PENDING:
            refused = moved
    if not is_changed:
        return refused
    settle_bundle(ctx, session, task, cause, now=now)
    return task


def move(
    ctx: Context, session: WriteSession, part: Part, event: Event, cause: Cause, *, now: datetime
) -> Moved | Refused | None:
    """The compare-and-set of `end` alone; whoever wins carries the effects out in the same transaction."""
    transition = transition_of(part, event, now=now)
    if isinstance(transition, Refused):
        return transition
    seal = task_seal(part.task, ctx.ring)
    wrote = None if cause.wrote is None else seal.seal(part.column("decision_sealed"), dict(cause.wrote))
    to, task, seen = transition.to.value, part.task, part.own.version
    if part.row is None:
        ended = tasks.end_task(session, task.id, seen=seen, to=to, at=now, by=cause.by, decision=wrote)
        return None if ended is None else Moved(Part(ended), transition)
    row = items.end_item(session, task.id, part.item, seen=seen, to=to, at=now, by=cause.by, decision=wrote)
    return None if row is None else Moved(Part(task, row), transition)


def carry_out(ctx: Context, session: WriteSession, moved: Moved, cause: Cause, *, now: datetime) -> None:
    """Turn the effects of a transition that has been made into rows; an item that has ended may end its bundle."""
    _effects(ctx, session, moved, cause, now=now)
    if moved.part.row is not None:
        settle_bundle(ctx, session, moved.part.task, cause, now=now)


def settle_bundle(ctx: Context, session: WriteSession, task: Task, cause: Cause, *, now: datetime) -> None:
    """Bring a bundle to the status that follows from its items, in the transaction that changed one of them."""
    whole = tasks.find_task(session, task.id, for_update=True)  # items are counted while nobody else changes them
    rows = items.items_of(session, [task.id])
    transition = settle([row.status for row in rows])
    if whole is None or whole.status != TaskStatus.PENDING:
        return
    if transition is None:
        deadline = min(row.pending_until for row in rows if row.status == TaskStatus.PENDING)
        items.advance_bundle(session, task.id, pending_until=deadline)
        session.refresh(whole)
        return
    by = rows[0].ended_by if len({row.ended_by for row in rows}) == 1 else None
    ended = tasks.end_task(session, task.id, seen=whole.version, to=transition.to.value, at=now, by=by or "items")
    if ended is not None:
        _effects(ctx, session, Moved(Part(ended), transition), cause, now=now)


def _effects(ctx: Context, session: WriteSession, moved: Moved, cause: Cause, *, now: datetime) -> None:
    part, task = moved.part, moved.part.task
    detail: dict[str, JsonValue] = {"by": part.own.ended_by, "version": part.own.version, **(cause.detail or {})}
    for effect in moved.transition.effects:
        match effect:
            case Grant():
                approval = grant(ctx, session, part, cause, now=now)
                detail |= {"approval_id": approval.id, "approved_until": format_instant(approval.approved_until)}
                detail |= {} if approval.scope is None else {"may_vary": [*approval.scope["may_vary"]]}
                _alert(ctx, session, part, approval, cause, now=now)
            case Record(kind):
                record(session, part, kind, cause.actor, detail, now=now)
            case Notify(status):
                _notify(ctx, session, task, status, now=now)
                announce(ctx, session, NoticeKind.DECIDED, task, now=now, actor=cause.actor)
            case _:
                assert_never(effect)
    session.after_commit(partial(ctx.metrics.ended, part.own.status, cause.by))
    session.on_commit(task_topic(task.id))
    session.on_commit(REQUESTS)


def _alert(ctx: Context, session: WriteSession, part: Part, approval: Approval, cause: Cause, *, now: datetime) -> None:
    """Tell the owners of what an emergency opens (ARS-119)."""
    rule = part.own.template.get("emergency")
    if rule is not None:
        announce(
            ctx,
            session,
            NoticeKind.EMERGENCY_USED,
            part.task,
            now=now,
            about=approval.id,
            item=part.item,
            groups=rule["owners"],
            actor=cause.actor,
        )


def record(
    session: WriteSession,
    about: Task | Part,
    kind: str,
    actor: str,
    detail: Mapping[str, JsonValue],
    *,
    now: datetime,
    is_first: bool = False,
) -> None:
    """Append to the audit chain of a request; an entry about one item names it, and its evaluation.

    `is_first` is for the entry that comes with the creation of the request.
    """
    part = about if isinstance(about, Part) else Part(about)
    audit.append(
        session,
        part.task.id,
        kind=kind,
        actor=actor,
        detail=detail if part.row is None else {"item": part.item, **detail},
        now=now,
        evaluation_id=part.own.evaluation_id,
        opens_chain=is_first,
    )


def latest_end(part: Part, *, now: datetime) -> datetime:
    """The latest moment that an approval given now may last to: the template's cap, and no longer than was asked."""
    own = part.own
    cap = now + timedelta(seconds=int(own.template["approval_seconds"]))
    return min(moment for moment in (cap, own.requested_until, part.task.expires_at) if moment is not None)


def granted_end(part: Part, wishes: Sequence[datetime], *, now: datetime) -> datetime:
    """When an approval given now ends: when everybody allows (ARS-108), in whole seconds as signed times are."""
    return min((latest_end(part, now=now), *wishes)).replace(microsecond=0)


def grant(ctx: Context, session: WriteSession, part: Part, cause: Cause, *, now: datetime) -> Approval:
    """Write an approval with its signed proof (PDP-69); its end, which has been checked, is to come."""
    at, until = now.replace(microsecond=0), granted_end(part, cause.wishes, now=now)
    approval_id = ctx.new_id("apr")
    scope = _scope(part, cause.may_vary)
    claims = {**_claims(ctx, part, approval_id, at=at, until=until), **({} if scope is None else {WIDENED: scope})}
    approval = Approval(
        id=approval_id,
        task_id=part.task.id,
        item=part.item,
        approved_at=at,
        approved_until=until,
        state=sign_short(ctx.keys, Use.APPROVAL, claims, APPROVAL_TYP),
        scope=scope,
    )
    session.add(approval)
    return approval


def _scope(part: Part, may_vary: Sequence[str]) -> dict[str, Any] | None:
    """How an approval is wider than what was asked: stored and signed alike; None when it is not."""
    within = (part.own.template.get("scope") or {}).get("within")
    return {"may_vary": [*may_vary], **({} if within is None else {"within": within})} if may_vary else None


def _claims(ctx: Context, part: Part, approval_id: str, *, at: datetime, until: datetime) -> dict[str, Any]:
    task, own = part.task, part.own
    about = tuple_of(part, task_seal(task, ctx.ring))
    claims: dict[str, Any] = {
        "iss": ctx.settings.access_request_endpoint,
        "aud": own.binding_iss or ctx.settings.identifier,  # PDP-68: whoever denied is who must verify it
        "iat": int(at.timestamp()),
        "exp": int(until.timestamp()),
        "jti": ctx.new_id("aps"),
        "approval_id": approval_id,
        "task_id": task.id,
        "evaluation_id": own.evaluation_id,
        "subject": prune_subject(about.subject),
        "resource": about.resource,
        "action": about.action,
        "context": bound_context(about.context, own.binding_members),
        "binding_context_members": own.binding_members,
        "binding_hash": own.binding_hash,
        "client_id": task.client_id,
        "agent": task.agent,
        "actor": [{"iss": issuer, "sub": subject} for issuer, subject in task.actors] or None,
        "template": own.template_id,
    }
    return {name: value for name, value in claims.items() if value is not None}


def _notify(ctx: Context, session: WriteSession, task: Task, status: TaskStatus, *, now: datetime) -> None:
    if task.callback_endpoint is None or (task.callback_events and status not in task.callback_events):  # ARS-92
        return
    seal = task_seal(task, ctx.ring)
    body: dict[str, Any] = {"task": handle_of(session, task, ctx.settings, seal=seal)}  # ARS-94: no result
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
            traceparent=current_traceparent(),
            body_sealed=sealed,
        )
    )
    session.on_commit(DELIVERIES)

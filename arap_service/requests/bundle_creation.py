"""Step 16 for several things: one transaction makes the task, its items and everything beside them, or nothing.

The row of the task holds what all share, and in the columns that its items have as well what the first one has; each
item has a template, steps, automatic voices, deadlines and audit entries of its own. What may be created has been
decided before (ARS-36, ARS-47, ARS-80).
"""

from collections.abc import Sequence
from datetime import timedelta

from pydantic import JsonValue

from arap_service.context import Context
from arap_service.domain.notices import NoticeKind
from arap_service.domain.policy import effect_of
from arap_service.domain.workflow import progress
from arap_service.protocol.arap import TaskStatus, format_instant
from arap_service.protocol.bundles import bundle_hash
from arap_service.protocol.canonical import binding_hash, digest
from arap_service.records import Part
from arap_service.requests.announcing import announce
from arap_service.requests.caps import check_open
from arap_service.requests.creation import (
    Order,
    decide_at_once,
    hear,
    pending_end,
    remember,
    searched_words,
    snapshot,
    submission_detail,
    task_of,
    voices_on,
)
from arap_service.requests.endings import REQUESTS, record
from arap_service.requests.intake import Bundle
from arap_service.requests.steps import add_steps
from arap_service.sealed import RowSeal
from arap_service.store import queueing
from arap_service.store.database import WriteSession
from arap_service.store.item_tables import TaskItem
from arap_service.store.rows import insert_row
from arap_service.store.tables import JtiUse, Task


def create_bundle(ctx: Context, session: WriteSession, bundle: Bundle, orders: Sequence[Order]) -> tuple[Task, int]:
    """Write the request of `orders`, one for each item, some perhaps decided at once; the task and its HTTP status."""
    task, seal = _task(ctx, bundle, orders)
    insert_row(session, task)
    parts = [Part(task, _row(task, seal, order, item=item)) for item, order in enumerate(orders, start=1)]
    session.add_all(part.own for part in parts)
    session.flush()
    queueing.add_words(session, task.id, searched_words(task, [part.row for part in parts if part.row is not None]))
    record(
        session,
        Part(task),
        "task_submitted",
        orders[0].caller.principal,
        _detail(task, orders),
        now=orders[0].now,
        is_first=True,
    )
    voices = [voices_on(ctx, session, part, order) for part, order in zip(parts, orders, strict=True)]
    for part, order, heard in zip(parts, orders, voices, strict=True):
        add_steps(session, part, order.template)
        record(session, part, "item_submitted", order.caller.principal, _item_detail(part, order), now=order.now)
        for voice in heard:
            hear(ctx, session, part, voice, now=order.now)
    for part, order, heard in zip(parts, orders, voices, strict=True):
        decide_at_once(ctx, session, part, progress(order.template.steps, (), evaluations=heard), heard, now=order.now)
    is_open = task.status == TaskStatus.PENDING
    if is_open:
        announce(ctx, session, NoticeKind.REQUEST_WAITING, task, now=orders[0].now)
        session.on_commit(REQUESTS)
    status_code = 202 if is_open else 201
    _remember(session, task, orders, status_code)
    if is_open:
        check_open(ctx, session, task.client_id)
    return task, status_code


def _task(ctx: Context, bundle: Bundle, orders: Sequence[Order]) -> tuple[Task, RowSeal]:
    task, seal = task_of(ctx, orders[0])
    about = bundle.items[0].about
    members = sorted({member for order in orders for member in order.proof.bound.members})
    pairs = [(item.about.resource, item.about.action) for item in bundle.items]
    task.item_count = len(orders)
    task.pending_until = min(pending_end(order) for order in orders)
    # Long enough for what is decided last, and the same for all, since there is one handle.
    task.expires_at = max(pending_end(order) + timedelta(seconds=order.template.retention_seconds) for order in orders)
    task.requested_until = None
    task.effect_sealed = None
    if bundle.covering is None:
        task.evaluation_id = None  # each item has its own
    task.binding_hash = bundle_hash(about.subject, pairs, about.context, members)
    task.binding_members = members
    return task, seal


def _row(task: Task, seal: RowSeal, order: Order, *, item: int) -> TaskItem:
    about, bound = order.intake.about, order.proof.bound
    issuer, jti = order.proof.token or (None, None)
    effect = effect_of(order.policy, order.template, order.question)
    row = TaskItem(
        task_id=task.id,
        item=item,
        template_id=order.template.id,
        rule_id=order.rule_id,
        reason=order.reason,
        template=snapshot(order.template),
        resource_type=about.resource["type"],
        resource_id=about.resource["id"],
        action_name=about.action["name"],
        evaluation_id=bound.evaluation_id,
        binding="id" if order.proof.token is None else "token",
        binding_iss=issuer,
        binding_jti=jti,
        binding_hash=binding_hash(*about, bound.members),
        binding_members=list(bound.members),
        pending_until=pending_end(order),
        requested_until=order.wishes.until,
        asked_sealed=b"",
    )
    part = Part(task, row)
    asked = {
        "resource": about.resource,
        "action": about.action,
        "requested_access": dict(order.intake.requested_access),
    }
    row.asked_sealed = seal.seal(part.column("asked_sealed"), asked)
    if effect is not None:
        row.effect_sealed = seal.seal(part.column("effect_sealed"), effect)
    return row


def _detail(task: Task, orders: Sequence[Order]) -> dict[str, JsonValue]:
    """What all items share; what differs is in an entry for each."""
    shared = submission_detail(Part(task), orders[0])
    own = ("resource", "action", "denial", "template", "rule", "pending_until")
    return {**{name: value for name, value in shared.items() if name not in own}, "items": task.item_count}


def _item_detail(part: Part, order: Order) -> dict[str, JsonValue]:
    """What is an item's own; what was asked for is effective, merged with what was asked for all (ARS-81)."""
    own = ("resource", "action", "bound", "binding_hash", "denial", "template", "rule", "pending_until")
    detail = submission_detail(part, order)
    until = order.wishes.until
    return {
        **{name: detail[name] for name in own},
        "requested_until": None if until is None else format_instant(until),
        "requested_access_digest": digest(dict(order.intake.requested_access)),
    }


def _remember(session: WriteSession, task: Task, orders: Sequence[Order], status_code: int) -> None:
    tokens = {order.proof.token: order.proof for order in orders if order.proof.token is not None}
    remember(session, task, orders[0], status_code, token=None)
    for token, proof in tokens.items():
        if token is not None:
            issuer, jti = token
            session.add(JtiUse(iss=issuer, jti=jti, task_id=task.id, keep_until=proof.remember_until))

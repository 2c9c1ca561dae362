"""Step 16 of the submission pipeline: one transaction makes the task, with everything that must exist beside it.

Key, spent token, steps, automatic voices, audit entries and, when evaluators decide at once, the outcome: all or
nothing (ARS-36, ARS-47, ARS-48). What may be created has been decided before.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import JsonValue

from arap_service.context import Context
from arap_service.domain.actors import agent_of
from arap_service.domain.callers import Caller
from arap_service.domain.notices import NoticeKind
from arap_service.domain.policy import Policy, Question, Template, effect_of, hear_evaluators
from arap_service.domain.searching import reference_word, words_of
from arap_service.domain.task import Approve, Deny, Event, Transition
from arap_service.domain.workflow import Completed, Ended, Evaluation, Progress, progress
from arap_service.protocol.arap import TaskStatus
from arap_service.protocol.canonical import TOOL_CALL, Tuple4, binding_hash, digest
from arap_service.records import Part, task_seal
from arap_service.requests.announcing import announce
from arap_service.requests.caps import check_open
from arap_service.requests.endings import REQUESTS, Cause, Moved, carry_out, record, transition_of
from arap_service.requests.intake import Intake
from arap_service.requests.proof import Proof
from arap_service.requests.standing_voices import Asked, standing_voices
from arap_service.requests.steps import add_steps
from arap_service.requests.wishes import Wishes
from arap_service.sealed import RowSeal
from arap_service.store import queueing, submissions
from arap_service.store.database import WriteSession
from arap_service.store.item_tables import TaskItem
from arap_service.store.rows import add_rows, insert_row, new_row
from arap_service.store.tables import IdempotencyKey, JtiUse, Task, Vote

KEY_GRACE: Final = timedelta(hours=24)
"""How much longer than the task its key is kept, so that a late retry learns that the task is gone (ARS-45)."""
AUTOMATIC: Final = "automatic"
"""The step that the voices of evaluators are recorded under; it is in no template."""


@dataclass(frozen=True, slots=True)
class Order:
    """Everything that creation needs, proven and checked."""

    caller: Caller
    intake: Intake
    proof: Proof
    wishes: Wishes
    policy: Policy
    template: Template
    rule_id: str
    reason: str
    key: str | None
    key_owner: str
    now: datetime

    @property
    def question(self) -> Question:
        """What is proven, for rules and expressions."""
        return Question(*self.proof.about, client_id=self.caller.client_id)


def create(ctx: Context, session: WriteSession, order: Order) -> tuple[Task, int]:
    """Write the task of `order`, already decided if its evaluators are unanimous; the task and its HTTP status."""
    task, _ = task_of(ctx, order)
    part = Part(task)
    evaluations = voices_on(ctx, session, part, order)
    outcome = progress(order.template.steps, (), evaluations=evaluations)
    insert_row(session, task)
    add_steps(session, part, order.template)
    queueing.add_words(session, task.id, searched_words(task))
    # ARS-122: subject, resource, action, context, denial, requester and client, the sensitive ones as hashes.
    detail = {**submission_detail(part, order), "evaluators": len(evaluations)}
    record(session, part, "task_submitted", order.caller.principal, detail, now=order.now, is_first=True)
    for voice in evaluations:
        hear(ctx, session, part, voice, now=order.now)
    decide_at_once(ctx, session, part, outcome, evaluations, now=order.now)
    status_code = 202 if task.status == TaskStatus.PENDING else 201
    if status_code == 202:
        announce(ctx, session, NoticeKind.REQUEST_WAITING, task, now=order.now)
        session.on_commit(REQUESTS)
    remember(session, task, order, status_code, token=order.proof.token)
    if status_code == 202:
        check_open(ctx, session, order.caller.client_id)
    return task, status_code


def voices_on(ctx: Context, session: WriteSession, part: Part, order: Order) -> tuple[Evaluation, ...]:
    """What the template's evaluators say to what is ordered, and a standing rule that covers it."""
    heard = hear_evaluators(order.policy, order.template, order.question)
    asked = Asked(order.policy, order.template, order.question, order.intake.about)
    return (*heard, *standing_voices(ctx, session, part, asked, heard, now=order.now))


def recorded(session: WriteSession, order: Order) -> Order:
    """The same order with the grounds of its denial, where that is on record here."""
    found = submissions.grounds_of(session, order.proof.recorded_as or "")
    return order if found is None else replace(order, rule_id=found[0], reason=found[1])


def pending_end(order: Order) -> datetime:
    """How long what is ordered waits for a decision."""
    end = order.now + timedelta(seconds=order.template.pending_seconds)
    return end if order.wishes.until is None else min(end, order.wishes.until)


def task_of(ctx: Context, order: Order) -> tuple[Task, RowSeal]:
    """The row of a single request, not added yet, and what seals its columns."""
    task_id, now, template = ctx.new_id("task"), order.now, order.template
    caller, bound = order.caller, order.proof.bound
    seal = RowSeal.new(ctx.ring, table="task", row_id=task_id)
    pending_until = pending_end(order)
    issuer, jti = order.proof.token or (None, None)
    task = new_row(
        Task,
        id=task_id,
        status=TaskStatus.PENDING.value,
        version=1,
        template_id=template.id,
        policy_version=order.policy.version,
        rule_id=order.rule_id,
        reason=order.reason,
        template=snapshot(template),
        submitter_iss=caller.iss,
        submitter_sub=caller.sub,
        submitter=caller.principal,
        client_id=caller.client_id,
        agent=bound.agent or agent_of(order.intake.about.context),
        actors=[list(link) for link in bound.actor],
        channel=caller.channel,
        evaluation_id=bound.evaluation_id,
        binding="id" if order.proof.token is None else "token",
        binding_iss=issuer,
        binding_jti=jti,
        binding_members=list(bound.members),
        body_digest=order.intake.digest,
        created_at=now,
        pending_until=pending_until,
        requested_until=order.wishes.until,
        expires_at=pending_until + timedelta(seconds=template.retention_seconds),  # ARS-54
        callback_endpoint=order.wishes.callback,
        callback_events=list(order.wishes.events),
        data_key=seal.wrapped,
        **_searched(order),
        **_sealed(order, seal),
    )
    return task, seal


def searched_words(task: Task, rows: Sequence[TaskItem] = ()) -> tuple[str, ...]:
    """By which words a request is found: those of columns that hold nothing secret, and of its own reference."""
    names = (task.subject_id, task.resource_id, task.tool, task.server, task.agent, task.client_id)
    return (reference_word(task.id), *words_of((*names, *(row.resource_id for row in rows))))


def _searched(order: Order) -> dict[str, Any]:
    """The columns that a reviewer can search by, and the hashes that stand for the rest."""
    about, call = order.intake.about, order.intake.call
    return {
        "subject_type": about.subject["type"],
        "subject_id": about.subject["id"],
        "resource_type": about.resource["type"],
        "resource_id": about.resource["id"],
        "action_name": about.action["name"],
        "server": call.server if call else None,
        "tool": call.tool if call else None,
        "binding_hash": binding_hash(*about, order.proof.bound.members),
        "arguments_hash": _text(about.context.get("arguments_hash")),
    }


def _sealed(order: Order, seal: RowSeal) -> dict[str, Any]:
    """The columns that hold what was said."""
    about, state = order.intake.about, order.wishes.state
    # The call is kept with the request; here it would be a second copy of what may be large.
    context = {name: value for name, value in about.context.items() if name != TOOL_CALL}
    effect = effect_of(order.policy, order.template, order.question)
    return {
        "tuple_sealed": seal.seal("tuple_sealed", Tuple4(*about[:3], context)._asdict()),
        "request_sealed": seal.seal("request_sealed", _asked(order.intake)),
        "effect_sealed": None if effect is None else seal.seal("effect_sealed", effect),
        "callback_state_sealed": None if state is None else seal.seal("callback_state_sealed", state),
    }


def snapshot(template: Template) -> dict[str, Any]:
    """What of a template later decisions and pages need, so that a changed rules file changes no open request."""
    return {
        "title": template.title,
        "explanation": template.explanation,
        "caution": template.caution,
        "risk": template.risk,
        "reveal": template.reveal if template.reveal == "whole" else list(template.reveal),
        "reveal_reason": template.reveal_reason,
        "notify": template.notify,
        "mask": list(template.mask),
        "approval_seconds": template.approval_seconds,
        "reason_required": sorted(template.reason_required),
        "step_up": template.step_up,
        "standing_days": template.standing_days,
        "emergency": None
        if template.emergency is None
        else {"owners": sorted(template.emergency.owners), "review_seconds": template.emergency.review_seconds},
        "scope": None if template.scope is None else {**asdict(template.scope), "may_vary": [*template.scope.may_vary]},
        "reasons": {decision: asdict(rule) for decision, rule in template.reasons.items()},
    }


def _asked(intake: Intake) -> dict[str, Any]:
    asked = {name: intake.body[name] for name in ("requested_access", "display", "client") if name in intake.body}
    call = intake.about.context.get(TOOL_CALL)
    return asked if call is None else {**asked, "tool_call": call}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def hear(ctx: Context, session: WriteSession, part: Part, voice: Evaluation, *, now: datetime) -> None:
    """Automatic voices are recorded like human ones."""
    detail: dict[str, JsonValue] = {"evaluator": voice.evaluator_id, "said": voice.decision, "reason": voice.reason}
    record(session, part, "evaluator_heard", "policy", detail, now=now)
    if voice.decision == "hold":
        return
    session.add(
        Vote(
            id=ctx.new_id("vote"),
            task_id=part.task.id,
            item=part.item,
            step_id=AUTOMATIC,
            voter=voice.evaluator_id,
            voter_kind="evaluator",
            decision=voice.decision,
            version_seen=part.own.version,
            at=now,
            channel="policy",
        )
    )


def decide_at_once(
    ctx: Context, session: WriteSession, part: Part, outcome: Progress, voices: Sequence[Evaluation], *, now: datetime
) -> None:
    """End what the evaluators have decided: nobody can have seen it yet, so there is nothing to compare."""
    own, event = part.own, _event(outcome)
    if event is None:
        return
    if isinstance(outcome, Ended):
        said = next(voice.reason for voice in voices if voice.evaluator_id == outcome.source)
        seal = task_seal(part.task, ctx.ring)
        own.decision_sealed = seal.seal(part.column("decision_sealed"), {"reason": said})
    transition, cause = transition_of(part, event, now=now), Cause("policy", "evaluator")
    assert isinstance(transition, Transition)  # noqa: S101  # what is new is pending and before its deadline
    own.status, own.version, own.ended_at, own.ended_by = transition.to.value, own.version + 1, now, cause.by
    session.add(own)
    session.flush()
    carry_out(ctx, session, Moved(part, transition), cause, now=now)


def _event(outcome: Progress) -> Event | None:
    match outcome:
        case Completed():
            return Approve()
        case Ended():
            return Deny()
        case _:
            return None


def submission_detail(part: Part, order: Order) -> dict[str, JsonValue]:
    """What the audit keeps of a submission; what may be sensitive as a hash."""
    task, own = part.task, part.own
    about = order.intake.about
    return {
        "subject": {"type": task.subject_type, "id": task.subject_id},
        "resource": {"type": own.resource_type, "id": own.resource_id},
        "action": own.action_name,
        "bound": [*own.binding_members],
        "context_digest": digest({name: about.context.get(name) for name in own.binding_members}),
        "binding_hash": own.binding_hash,
        "arguments_hash": task.arguments_hash,
        "denial": {
            "evaluation_id": own.evaluation_id,
            "path": own.binding,
            "iss": own.binding_iss,
            "jti": own.binding_jti,
        },
        "requester": task.submitter,
        "client": task.client_id,
        "agent": task.agent,
        "actors": [list(link) for link in task.actors],
        "template": own.template_id,
        "rule": own.rule_id,
        "policy": task.policy_version,
        "pending_until": own.pending_until.isoformat(),
        "body_digest": task.body_digest,
        "unverified": _claimed(order.intake),
        **({"emergency": True} if order.wishes.is_emergency else {}),
    }


def _claimed(intake: Intake) -> JsonValue:
    """What the client says about itself, marked as nobody's proof: which labels, and their hash (ARS-101, ARS-104)."""
    said = intake.body.get("client")
    if not isinstance(said, dict):
        return None
    labels: list[JsonValue] = [name for name in ("id", "name", "source", "actor") if name in said]
    return {"client": labels, "digest": digest(said)}


def remember(
    session: WriteSession, task: Task, order: Order, status_code: int, *, token: tuple[str, str] | None
) -> None:
    """Keep the key, and the use of `token`, as long as they may come again (ARS-36, ARS-45)."""
    if token is not None:
        issuer, jti = token
        used = {"iss": issuer, "jti": jti, "task_id": task.id, "keep_until": order.proof.remember_until}
        add_rows(session, JtiUse, [used])
    if order.key is not None:
        made = {
            "caller": order.key_owner,
            "key": order.key,
            "body_digest": order.intake.digest,
            "task_id": task.id,
            "status_code": status_code,
            "created_at": order.now,
            "keep_until": task.expires_at + KEY_GRACE,
        }
        add_rows(session, IdempotencyKey, [made])

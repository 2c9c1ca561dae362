"""Step 16 of the submission pipeline: one transaction makes the task, with everything that must exist beside it.

Key, spent token, steps, automatic voices, audit entries and, when evaluators decide at once, the outcome: all or
nothing (ARS-36, ARS-47, ARS-48). What may be created has been decided before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import JsonValue

from arap_service.context import Context
from arap_service.domain.actors import agent_of
from arap_service.domain.callers import Caller
from arap_service.domain.policy import Policy, Question, Template, effect_of, hear_evaluators
from arap_service.domain.task import Approve, Deny, Event, Transition, decide
from arap_service.domain.workflow import Completed, Ended, Evaluation, progress
from arap_service.protocol.arap import TaskStatus
from arap_service.protocol.canonical import TOOL_CALL, Tuple4, binding_hash, digest
from arap_service.requests.endings import REQUESTS, Cause, Moved, carry_out, record, state_of
from arap_service.requests.intake import Intake
from arap_service.requests.proof import Proof
from arap_service.requests.wishes import Wishes
from arap_service.sealed import RowSeal
from arap_service.store.database import WriteSession
from arap_service.store.tables import IdempotencyKey, JtiUse, StepState, StepVoice, Task, Vote

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
    evaluations = hear_evaluators(order.policy, order.template, order.question)
    outcome = progress(order.template.steps, (), evaluations=evaluations)
    task, seal = _task(ctx, order)
    session.add(task)
    session.flush()
    _steps(session, task, order.template)
    _audit(session, task, order, evaluations)
    for voice in evaluations:
        _hear(ctx, session, task, voice, now=order.now)
    status_code = 202
    match outcome:
        case Completed():
            _decide_at_once(ctx, session, task, Approve(), Cause("policy", "evaluator"), now=order.now)
            status_code = 201
        case Ended(_, evaluator_id):
            said = next(voice.reason for voice in evaluations if voice.evaluator_id == evaluator_id)
            task.decision_sealed = seal.seal("decision_sealed", {"reason": said})
            _decide_at_once(ctx, session, task, Deny(), Cause("policy", "evaluator"), now=order.now)
            status_code = 201
        case _:
            session.on_commit(REQUESTS)
    _remember(session, task, order, status_code)
    return task, status_code


def _task(ctx: Context, order: Order) -> tuple[Task, RowSeal]:
    task_id, now, template = ctx.new_id("task"), order.now, order.template
    caller, bound = order.caller, order.proof.bound
    seal = RowSeal.new(ctx.ring, table="task", row_id=task_id)
    pending_until = now + timedelta(seconds=template.pending_seconds)
    if order.wishes.until is not None:
        pending_until = min(pending_until, order.wishes.until)
    issuer, jti = order.proof.token or (None, None)
    task = Task(
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
        "mask": list(template.mask),
        "approval_seconds": template.approval_seconds,
        "reason_required": sorted(template.reason_required),
    }


def _asked(intake: Intake) -> dict[str, Any]:
    asked = {name: intake.body[name] for name in ("requested_access", "display", "client") if name in intake.body}
    call = intake.about.context.get(TOOL_CALL)
    return asked if call is None else {**asked, "tool_call": call}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _steps(session: WriteSession, task: Task, template: Template) -> None:
    for position, step in enumerate(template.steps):
        session.add(
            StepState(
                task_id=task.id,
                step_id=step.id,
                position=position,
                title=step.title,
                quorum=step.quorum,
                veto=step.veto,
                repeat=step.repeat,
            )
        )
    session.flush()
    for step in template.steps:
        for kind, names in (("group", step.groups), ("person", step.people), ("resolver", step.resolvers)):
            session.add_all(StepVoice(task_id=task.id, step_id=step.id, kind=kind, name=name) for name in sorted(names))


def _hear(ctx: Context, session: WriteSession, task: Task, voice: Evaluation, *, now: datetime) -> None:
    """Automatic voices are recorded like human ones."""
    detail: dict[str, JsonValue] = {"evaluator": voice.evaluator_id, "said": voice.decision, "reason": voice.reason}
    record(session, task, "evaluator_heard", "policy", detail, now=now)
    if voice.decision == "hold":
        return
    session.add(
        Vote(
            id=ctx.new_id("vote"),
            task_id=task.id,
            step_id=AUTOMATIC,
            voter=voice.evaluator_id,
            voter_kind="evaluator",
            decision=voice.decision,
            version_seen=task.version,
            at=now,
            channel="policy",
        )
    )


def _decide_at_once(
    ctx: Context, session: WriteSession, task: Task, event: Event, cause: Cause, *, now: datetime
) -> None:
    """A task may be born terminal: nobody can have seen it yet, so there is nothing to compare."""
    transition = decide(state_of(task), event, now=now)
    assert isinstance(transition, Transition)  # noqa: S101  # a new task is pending and before its deadline
    task.status, task.version, task.ended_at, task.ended_by = transition.to.value, task.version + 1, now, cause.by
    session.add(task)
    session.flush()
    carry_out(ctx, session, Moved(task, transition), cause, now=now)


def _audit(session: WriteSession, task: Task, order: Order, evaluations: Sequence[Evaluation]) -> None:
    """ARS-122: subject, resource, action, context, denial, requester and client, the sensitive ones as hashes."""
    about = order.intake.about
    detail: dict[str, JsonValue] = {
        "subject": {"type": task.subject_type, "id": task.subject_id},
        "resource": {"type": task.resource_type, "id": task.resource_id},
        "action": task.action_name,
        "bound": [*task.binding_members],
        "context_digest": digest({name: about.context.get(name) for name in task.binding_members}),
        "binding_hash": task.binding_hash,
        "arguments_hash": task.arguments_hash,
        "denial": {
            "evaluation_id": task.evaluation_id,
            "path": task.binding,
            "iss": task.binding_iss,
            "jti": task.binding_jti,
        },
        "requester": task.submitter,
        "client": task.client_id,
        "agent": task.agent,
        "actors": [list(link) for link in task.actors],
        "template": task.template_id,
        "rule": task.rule_id,
        "policy": task.policy_version,
        "evaluators": len(evaluations),
        "pending_until": task.pending_until.isoformat(),
        "body_digest": task.body_digest,
    }
    record(session, task, "task_submitted", order.caller.principal, detail, now=order.now, is_first=True)


def _remember(session: WriteSession, task: Task, order: Order, status_code: int) -> None:
    if order.proof.token is not None:
        issuer, jti = order.proof.token
        session.add(JtiUse(iss=issuer, jti=jti, task_id=task.id, keep_until=order.proof.remember_until))
    if order.key is not None:
        session.add(
            IdempotencyKey(
                caller=order.key_owner,
                key=order.key,
                body_digest=order.intake.digest,
                task_id=task.id,
                status_code=status_code,
                created_at=order.now,
                keep_until=task.expires_at + KEY_GRACE,
            )
        )

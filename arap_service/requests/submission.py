"""Submission of an access request: the sixteen steps of the catalogue, in their order (ARS-10).

Each step lives where its rule lives; this module is the order. A retry under the same key outranks every fault of its
binding, which may be long expired by then, and a failed attempt leaves no trace (ARS-39, ARS-48).
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import (
    ArapError,
    DuplicateRequest,
    Forbidden,
    InvalidDenialBinding,
    NotRequestable,
    TaskExpired,
)
from arap_service.domain.policy import Judgement, Policy, Question, Requestable, Template, judge, may_submit
from arap_service.protocol.arap import TaskStatus
from arap_service.records import task_seal
from arap_service.requests.creation import Order, create
from arap_service.requests.handles import response
from arap_service.requests.intake import Intake, read_key, read_submission, require_binding
from arap_service.requests.proof import Proof, prove
from arap_service.requests.wishes import check_wishes
from arap_service.store import tasks, votes
from arap_service.store.database import StoreUnavailable, WriteSession
from arap_service.store.tables import Task
from arap_service.tracing import spanning

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Submitted:
    """The answer to a submission: the handle with its result, if any, and the HTTP status."""

    task: dict[str, Any]
    status_code: int
    result: dict[str, Any] | None

    @property
    def body(self) -> dict[str, Any]:
        """The response body."""
        return {"task": self.task} if self.result is None else {"task": self.task, "result": self.result}


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who sent what under which key; `key_owner` is the caller in the scope of whom the key counts (ARS-42)."""

    caller: Caller
    intake: Intake
    key: str | None
    key_owner: str


async def submit(ctx: Context, caller: Caller, raw: bytes, *, idempotency_key: str | None) -> Submitted:
    """Turn a requestable denial into a request; a retry returns what the first attempt made.

    Raises:
        ArapError: The class of the first step that fails; nothing was written then.
    """
    with spanning(ctx.tracer, "arap.submit") as span:
        submitted = await _submit(ctx, caller, raw, idempotency_key=idempotency_key)
        span.set_attribute("arap.status", str(submitted.task["status"]))
        span.set_attribute("arap.task_id", str(submitted.task["id"]))
        return submitted


async def _submit(ctx: Context, caller: Caller, raw: bytes, *, idempotency_key: str | None) -> Submitted:
    caller.require(Scope.SUBMIT)  # 1
    intake = read_submission(raw, max_depth=ctx.settings.limits.max_depth)  # 2
    key = read_key(idempotency_key)
    policy = ctx.policy.current()
    question = Question(*intake.about, client_id=caller.client_id)
    if not may_submit(policy, caller.client_id, question):  # 3
        raise Forbidden("This client may not request this access.")
    owner = caller.owner_of("submit")
    attempt = Attempt(caller, intake, key, owner)
    now, proof = ctx.clock(), None
    try:
        require_binding(intake.denial)  # 5
        proof = await prove(ctx, caller, intake, now=now)  # 6 to 11
        judged = judge(policy, Question(*proof.about, client_id=caller.client_id))
        template = _template(policy, judged, proof)
        wishes = await check_wishes(
            ctx, caller, intake, template=template, actor=proof.bound.actor, now=now
        )  # 13 to 15
    except ArapError:
        # What was made before goes before every fault of what follows; looked up here only when there is a fault,
        # since the transaction of step 16 looks as well.
        earlier = await ctx.database.read(lambda session: _earlier(ctx, session, attempt, proof))  # 4, 12
        if earlier is None:
            raise
        return earlier
    order = Order(caller, intake, proof, wishes, policy, template, *_grounds(judged), key, owner, now)
    return await _create(ctx, attempt, order)  # 4, 12 and 16


def _earlier(ctx: Context, session: Session, attempt: Attempt, proof: Proof | None) -> Submitted | None:
    """Steps 4 and 12, as far as the binding is proven: what the same key or binding made before."""
    repeated = _repeated(ctx, session, attempt)
    if repeated is not None or proof is None:
        return repeated
    return _used(ctx, session, attempt, proof)


def _repeated(ctx: Context, session: Session, attempt: Attempt) -> Submitted | None:
    """Step 4: what the same key made before, if it was used."""
    if attempt.key is None:
        return None
    stored = tasks.find_key(session, attempt.key_owner, attempt.key)
    if stored is None:
        return None
    if stored.body_digest != attempt.intake.digest:
        raise DuplicateRequest  # ARS-40
    task = tasks.find_task(session, stored.task_id)
    if task is None or ctx.clock() >= task.expires_at:
        raise TaskExpired
    return _answer(ctx, session, attempt.caller, task, stored.status_code)


def _used(ctx: Context, session: Session, attempt: Attempt, proof: Proof) -> Submitted | None:
    """Step 12: what this binding has made before, if the caller may have it."""
    evaluation_id, caller = proof.bound.evaluation_id, attempt.caller
    open_task = None
    if evaluation_id is not None:
        open_task = tasks.find_open_task(
            session, evaluation_id=evaluation_id, submitter=caller.principal, client_id=caller.client_id
        )
    spent = proof.token is not None and tasks.find_jti(session, *proof.token) is not None
    if not spent and open_task is None:
        return None
    # The same submission may have been committed since step 4; its key and token were written together.
    repeated = _repeated(ctx, session, attempt)
    if repeated is not None:
        return repeated
    if proof.token is None and open_task is not None and open_task.body_digest == attempt.intake.digest:
        return _answer(ctx, session, caller, open_task, 202)  # ARS-37
    raise InvalidDenialBinding  # ARS-35, ARS-38: no hint of the earlier task


def _template(policy: Policy, judged: Judgement, proof: Proof) -> Template:
    """The template that the denial was issued under, or the one that the rules name now."""
    template = policy.templates.get(proof.bound.template or "")
    if template is None and isinstance(judged, Requestable):
        template = judged.template
    if template is None:
        raise NotRequestable
    return template


def _grounds(judged: Judgement) -> tuple[str, str]:
    """Rule and reason for a denial that is not on record here."""
    return (judged.rule_id, judged.reason) if isinstance(judged, Requestable) else ("", "requestable")


async def _create(ctx: Context, attempt: Attempt, order: Order) -> Submitted:
    def work(session: WriteSession) -> tuple[Submitted, Task | None]:
        # Within the transaction, so that no other submission can come in between (ARS-49).
        earlier = _earlier(ctx, session, attempt, order.proof)
        if earlier is not None:
            return earlier, None
        denial = tasks.find_denial(session, order.proof.bound.evaluation_id or "")
        recorded = order if denial is None else replace(order, rule_id=denial.rule_id, reason=denial.reason)
        task, status_code = create(ctx, session, recorded)
        session.flush()
        made = _answer(ctx, session, order.caller, task, status_code)
        ctx.checkpoint("submit.before_commit")
        return made, task

    for _ in range(_ATTEMPTS):
        try:
            submitted, task = await ctx.database.write(work)
        except IntegrityError:
            continue  # lost a race that only the constraints could see; the next look finds the winner
        ctx.checkpoint("submit.after_commit")
        if task is not None:
            ctx.log.info("task_submitted", task_id=task.id, evaluation_id=task.evaluation_id, client_id=task.client_id)
        return submitted
    raise StoreUnavailable("busy", "database: too many submissions of the same denial at once")


def _answer(ctx: Context, session: Session, caller: Caller, task: Task, status_code: int) -> Submitted:
    """The handle of a task, with its result for a caller who may have it."""
    may_have = task.status == TaskStatus.APPROVED and caller.may(Scope.RESULT)
    approval = votes.approval_of(session, task.id) if may_have else None
    body = response(task, ctx.settings, approval=approval, seal=task_seal(task, ctx.ring))
    return Submitted(body["task"], status_code, body.get("result"))

"""Submission of an access request: the sixteen steps of the catalogue, in their order (ARS-10).

Each step lives where its rule lives; this module is the order. A retry under the same key outranks every fault of its
binding, which may be long expired by then, and a failed attempt leaves no trace (ARS-39, ARS-48).
"""

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.emergencies import as_asked
from arap_service.domain.errors import ArapError, Forbidden
from arap_service.domain.policy import Question, judge, may_submit
from arap_service.records import Part
from arap_service.requests.attempts import (
    Attempt,
    Submitted,
    answer,
    commit,
    earlier,
    grounds,
    hold,
    template_of,
)
from arap_service.requests.bundles import submit_bundle
from arap_service.requests.creation import Order, create, recorded
from arap_service.requests.intake import Bundle, Intake, read_key, read_submission, require_binding
from arap_service.requests.proof import Proof, prove
from arap_service.requests.stated import take_over, use
from arap_service.requests.wishes import check_wishes
from arap_service.store.database import WriteSession
from arap_service.store.tables import Task
from arap_service.tracing import spanning


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
    limits = ctx.settings.limits
    intake = read_submission(  # 2
        raw, max_depth=limits.max_depth, max_items=limits.max_items if ctx.settings.bulk else 0
    )
    key = read_key(idempotency_key)
    attempt = Attempt(caller, intake.digest, key, caller.owner_of("submit"))
    if isinstance(intake, Bundle):
        return await submit_bundle(ctx, attempt, intake)
    return await _submit_one(ctx, attempt, intake)


async def _submit_one(ctx: Context, attempt: Attempt, intake: Intake) -> Submitted:
    caller, policy = attempt.caller, ctx.policy.current()
    question = Question(*intake.about, client_id=caller.client_id)
    if not may_submit(policy, caller.client_id, question):  # 3
        raise Forbidden("This client may not request this access.")
    now, proofs = ctx.clock(), list[Proof]()
    try:
        require_binding(intake.denial)  # 5
        proof = await prove(ctx, caller, intake, now=now)  # 6 to 11
        proofs.append(proof)
        judged = judge(policy, Question(*proof.about, client_id=caller.client_id))
        template = template_of(policy, judged, proof)
        intake, stated = await take_over(ctx, caller, intake, proof=proof, template=template, now=now)
        wishes = await check_wishes(
            ctx,
            caller,
            intake,
            policy=policy,
            template=template,
            proof=proof,
            now=now,
            chosen_at=None if stated is None else stated.chosen_at,
        )  # 13 to 15
    except ArapError:
        # What was made before goes before every fault of what follows; looked up here only when there is a fault,
        # since the transaction of step 16 looks as well.
        before = await ctx.database.read(lambda session: earlier(ctx, session, attempt, proofs))  # 4, 12
        if before is None:
            raise
        return before
    key = (attempt.key, attempt.key_owner)
    asked = as_asked(template, is_emergency=wishes.is_emergency)
    order = Order(caller, intake, proof, wishes, policy, asked, *grounds(judged), *key, now)

    def work(session: WriteSession) -> tuple[Submitted, Task | None]:
        # Within the transaction, so that no other submission can come in between (ARS-49).
        hold(session, proofs)
        before = earlier(ctx, session, attempt, proofs)
        if before is not None:
            return before, None
        task, status_code = create(ctx, session, recorded(session, order))
        if stated is not None:
            use(session, Part(task), stated, by=caller.principal, now=now)
        session.flush()
        return answer(ctx, session, caller, task, status_code, is_new=True), task

    return await commit(ctx, work)  # 4, 12 and 16

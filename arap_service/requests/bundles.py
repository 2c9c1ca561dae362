"""Submission of several things in one request: the sixteen steps for every item, and one task for all or none (ARS-80).

Each item goes through the steps as if it had been submitted by itself; what the steps decide is where their rules live.
The callback is looked at once, when the input of every item has passed. Catalogue, ARS-77 to ARS-86.
"""

from collections.abc import Sequence
from dataclasses import replace

from arap_service.context import Context
from arap_service.domain.emergencies import as_asked
from arap_service.domain.errors import ArapError, CatalogValueRejected, Forbidden, InputInvalid
from arap_service.domain.policy import Policy, Question, judge, may_submit
from arap_service.records import Part
from arap_service.requests.attempts import Attempt, Submitted, answer, commit, earlier, grounds, hold, template_of
from arap_service.requests.bundle_creation import create_bundle
from arap_service.requests.creation import Order, recorded
from arap_service.requests.intake import Bundle, Intake, at_item, require_binding
from arap_service.requests.proof import Proof, prove_bundle
from arap_service.requests.stated import Stated, take_over, use
from arap_service.requests.wishes import Wishes, check_wishes
from arap_service.store.database import WriteSession
from arap_service.store.items import items_of
from arap_service.store.tables import Task


async def submit_bundle(ctx: Context, attempt: Attempt, bundle: Bundle) -> Submitted:
    """Turn a well-formed submission of several items into one request.

    Raises:
        ArapError: The class of the first step that fails for any item; nothing was written then.
    """
    caller, policy = attempt.caller, ctx.policy.current()
    if not all(
        may_submit(policy, caller.client_id, Question(*item.about, client_id=caller.client_id)) for item in bundle.items
    ):  # 3
        raise Forbidden("This client may not request this access.")
    proofs: tuple[Proof, ...] = ()
    try:
        for item in bundle.items:
            require_binding(item.denial)  # 5
        proofs = await prove_bundle(ctx, caller, bundle, now=ctx.clock())  # 6 to 11
        orders, forms = await _orders(ctx, attempt, bundle, policy, proofs)  # 13 to 15
    except ArapError:
        before = await ctx.database.read(lambda session: earlier(ctx, session, attempt, proofs))  # 4, 12
        if before is None:
            raise
        return before

    def work(session: WriteSession) -> tuple[Submitted, Task | None]:
        hold(session, proofs)
        before = earlier(ctx, session, attempt, proofs)
        if before is not None:
            return before, None
        task, status_code = create_bundle(ctx, session, bundle, [recorded(session, order) for order in orders])
        session.flush()
        rows = {row.item: row for row in items_of(session, [task.id])}
        for item, stated in forms.items():
            use(session, Part(task, rows[item]), stated, by=caller.principal, now=orders[0].now)
        return answer(ctx, session, caller, task, status_code), task

    return await commit(ctx, work)  # 4, 12 and 16


async def _orders(
    ctx: Context, attempt: Attempt, bundle: Bundle, policy: Policy, proofs: Sequence[Proof]
) -> tuple[list[Order], dict[int, Stated]]:
    """The orders of all items, and what was filled in for which of them, by their positions from 1."""
    caller, now = attempt.caller, ctx.clock()
    orders: list[Order] = []
    forms: dict[int, Stated] = {}
    last = len(bundle.items) - 1
    for index, (item, proof) in enumerate(zip(bundle.items, proofs, strict=True)):
        judged = judge(policy, Question(*proof.about, client_id=caller.client_id))
        template = template_of(policy, judged, proof)
        try:
            filled, stated = await take_over(ctx, caller, item, proof=proof, template=template, now=now, is_item=True)
            wishes = await check_wishes(
                ctx,
                caller,
                filled if index == last else _without_callback(filled),
                policy=policy,
                template=template,
                proof=proof,
                now=now,
                chosen_at=None if stated is None else stated.chosen_at,
            )
        except (InputInvalid, CatalogValueRejected) as fault:
            raise _placed(fault, index) from None
        key = (attempt.key, attempt.key_owner)
        asked = as_asked(template, is_emergency=wishes.is_emergency)
        orders.append(Order(caller, filled, proof, wishes, policy, asked, *grounds(judged), *key, now))
        if stated is not None:
            forms[index + 1] = stated
    return [replace(order, wishes=_shared(order.wishes, orders[-1].wishes)) for order in orders], forms


def _without_callback(item: Intake) -> Intake:
    return replace(item, submission=item.submission.model_copy(update={"callback": None}))


def _shared(wishes: Wishes, last: Wishes) -> Wishes:
    return replace(wishes, callback=last.callback, events=last.events, state=last.state)


def _placed(fault: InputInvalid | CatalogValueRejected, index: int) -> ArapError:
    """The same fault, with pointers into the submission as it was sent."""
    errors = [{**error, "pointer": at_item(index, error["pointer"])} for error in fault.extra.get("errors", ())]
    if isinstance(fault, InputInvalid):
        return InputInvalid(fault.detail, errors=errors)
    return CatalogValueRejected(fault.detail, extra={**fault.extra, "errors": errors} if errors else fault.extra)

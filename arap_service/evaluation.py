"""Use case: answer evaluations, alone and in batches.

What holds without an approval is decided in `standing.py`; requestable denials are made in `denials.py`, evaluations
that present an approval are answered in `reevaluation.py`. A permit or a plain denial touches no database. AuthZEN
Authorization API, "Access Evaluation API", "Access Evaluations API".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio

from arap_service.context import Context
from arap_service.denials import issue_offer, plain_denial
from arap_service.domain.callers import Caller
from arap_service.domain.errors import InvalidRequest, RateLimited
from arap_service.domain.names import MOST_BYTES, too_long
from arap_service.domain.policy import Deny, Permit, Policy, Question, Requestable
from arap_service.protocol.authzen import InvalidShape, tuple_of
from arap_service.protocol.canonical import Tuple4, bindable_members, bound_context, find_unrepresentable
from arap_service.reevaluation import reevaluate
from arap_service.standing import stand
from arap_service.tracing import spanning

MOST_EVALUATIONS: Final = 1000
_ALL: Final = "execute_all"
_STOP_AT: Final[Mapping[str, bool | None]] = {_ALL: None, "deny_on_first_deny": False, "permit_on_first_permit": True}
_PARTS: Final = ("subject", "action", "resource", "context")
_AT_ONCE: Final = 16  # entries of a batch that wait for the decision point upstream together


async def evaluate(
    ctx: Context, caller: Caller, request: Mapping[str, Any], *, deadline: float | None = None
) -> dict[str, Any]:
    """The AuthZEN response to one evaluation request; no answer from upstream is awaited beyond `deadline`.

    Raises:
        InvalidRequest: It has not the shape of one, or holds numbers that nothing can bind (PDP-02, PDP-14) or names
            that are longer than any.
        RateLimited: The caller asks more often than it may (PDP-13).
    """
    ctx.rates.check("evaluation", caller.principal)
    about = _about(request)
    policy = ctx.policy.current()
    with spanning(ctx.tracer, "arap.evaluate", attributes={"arap.policy_version": policy.version}) as span:
        if "approval" in about.context:
            answer = await reevaluate(ctx, caller, policy, about=about, deadline=deadline)
            outcome = "permit" if answer["decision"] else str(answer["context"]["next_action"])
            presented = "approval"
        else:
            answer, outcome = await _first(ctx, caller, policy, about, deadline=deadline)
            presented = "nothing"
        ctx.metrics.evaluated(outcome, presented=presented)
        if span.is_recording():
            span.set_attribute("arap.presented", presented)
            span.set_attribute("arap.outcome", outcome)
            span.set_attribute("arap.evaluation_id", str(answer["context"]["evaluation_id"]))
        return answer


async def _first(
    ctx: Context, caller: Caller, policy: Policy, about: Tuple4, *, deadline: float | None
) -> tuple[dict[str, Any], str]:
    """The answer to a question without an approval, and what it is called in the figures."""
    standing = await stand(ctx, policy, Question(*about, caller.client_id), deadline=deadline)
    judgement = standing.judgement
    match judgement:
        case Permit():
            context = {**standing.shown, "evaluation_id": ctx.keys.mint_evaluation_id("permit")}
            return {"decision": True, "context": context}, "permit"
        case Deny(reason=reason):
            return plain_denial(ctx, reason, **standing.shown), "deny"
        case Requestable(reason=reason):
            offer = await issue_offer(ctx, caller, policy, about=about, requestable=judgement, reason=reason)
            if offer is None:
                return plain_denial(ctx, reason), "withheld"
            return {"decision": False, "context": offer.context}, "request"


async def evaluations(ctx: Context, caller: Caller, request: Mapping[str, Any]) -> dict[str, Any]:
    """The AuthZEN response to a batch; without entries it is a single evaluation (PDP-18).

    Raises:
        InvalidRequest: The payload as a whole is not one; a faulty entry is a denial in its place (PDP-19, PDP-21).
        RateLimited: The caller asks more often than it may; each entry counts.
    """
    entries = request.get("evaluations", [])
    stop_at = _STOP_AT.get(_semantic(request), ...)
    if stop_at is ...:
        raise InvalidRequest("The evaluations semantic is not known.")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidRequest("The evaluations must be an array of objects.")
    if len(entries) > MOST_EVALUATIONS:
        raise InvalidRequest(f"A batch holds at most {MOST_EVALUATIONS} evaluations.")
    if not entries:
        return await evaluate(ctx, caller, request)
    defaults = {name: request[name] for name in _PARTS if name in request}
    asked = [{**defaults, **entry} for entry in entries]  # PDP-16: whole members, no deep merge
    deadline = None if ctx.upstream is None else ctx.upstream.batch_deadline()
    if deadline is not None and stop_at is None:
        return {"evaluations": await _together(ctx, caller, asked, deadline=deadline)}
    results: list[dict[str, Any]] = []
    for entry in asked:
        results.append(await _entry(ctx, caller, entry, deadline=deadline))
        if results[-1]["decision"] is stop_at:
            break
    return {"evaluations": results}


async def _together(
    ctx: Context, caller: Caller, asked: Sequence[Mapping[str, Any]], *, deadline: float
) -> list[dict[str, Any]]:
    """The answers in the order of the entries, several of which wait for upstream at the same time."""
    answers: dict[int, dict[str, Any]] = {}
    refused: list[RateLimited] = []
    some = anyio.CapacityLimiter(_AT_ONCE)

    async def one(index: int) -> None:
        async with some:
            if refused:
                return
            try:
                answers[index] = await _entry(ctx, caller, asked[index], deadline=deadline)
            except RateLimited as error:
                refused.append(error)

    async with anyio.create_task_group() as group:
        for index in range(len(asked)):
            group.start_soon(one, index)
    if refused:
        raise refused[0]
    return [answers[index] for index in range(len(asked))]


async def _entry(ctx: Context, caller: Caller, request: Mapping[str, Any], *, deadline: float | None) -> dict[str, Any]:
    try:
        return await evaluate(ctx, caller, request, deadline=deadline)
    except InvalidRequest as error:
        return {"decision": False, "context": {"error": {"status": error.status, "message": str(error)}}}


def _semantic(request: Mapping[str, Any]) -> str:
    options = request.get("options", {})
    semantic = options.get("evaluations_semantic", _ALL) if isinstance(options, dict) else None
    return semantic if isinstance(semantic, str) else ""


def refuse_inexact(about: Tuple4) -> None:
    """Insist on numbers that can be bound, wherever a binding would hold them (PDP-14).

    Raises:
        InvalidRequest: There is another one.
    """
    bound = bound_context(about.context, bindable_members(about.context))
    if find_unrepresentable([about.subject, about.resource, about.action, bound]) is not None:
        raise InvalidRequest("A number is larger than can be carried exactly.")


def _about(request: Mapping[str, Any]) -> Tuple4:
    try:
        about = tuple_of(request)
    except InvalidShape as error:
        raise InvalidRequest(f"The member {error.pointer} is missing or of the wrong type.") from None
    refuse_inexact(about)
    pointer = too_long(about)
    if pointer is not None:
        raise InvalidRequest(f"The member {pointer} may have {MOST_BYTES} bytes.")
    return about

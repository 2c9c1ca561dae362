"""Use case: answer evaluations, alone and in batches.

What the rules say is decided in `domain/policy.py`; requestable denials are made in `denials.py`, evaluations that
present an approval are answered in `reevaluation.py`. A permit or a plain denial touches no database. AuthZEN
Authorization API, "Access Evaluation API", "Access Evaluations API".
"""

from collections.abc import Mapping
from typing import Any, Final

from arap_service.context import Context
from arap_service.denials import issue_offer, plain_denial
from arap_service.domain.callers import Caller
from arap_service.domain.errors import InvalidRequest
from arap_service.domain.names import MOST_BYTES, too_long
from arap_service.domain.policy import Deny, Permit, Policy, Question, Requestable, judge
from arap_service.protocol.authzen import InvalidShape, tuple_of
from arap_service.protocol.canonical import Tuple4, bindable_members, bound_context, find_unrepresentable
from arap_service.reevaluation import reevaluate
from arap_service.tracing import spanning

MOST_EVALUATIONS: Final = 1000
_ALL: Final = "execute_all"
_STOP_AT: Final[Mapping[str, bool | None]] = {_ALL: None, "deny_on_first_deny": False, "permit_on_first_permit": True}
_PARTS: Final = ("subject", "action", "resource", "context")


async def evaluate(ctx: Context, caller: Caller, request: Mapping[str, Any]) -> dict[str, Any]:
    """The AuthZEN response to one evaluation request.

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
            answer = await reevaluate(ctx, caller, policy, about=about)
            outcome = "permit" if answer["decision"] else str(answer["context"]["next_action"])
            presented = "approval"
        else:
            answer, outcome = await _first(ctx, caller, policy, about)
            presented = "nothing"
        ctx.metrics.evaluated(outcome, presented=presented)
        if span.is_recording():
            span.set_attribute("arap.presented", presented)
            span.set_attribute("arap.outcome", outcome)
            span.set_attribute("arap.evaluation_id", str(answer["context"]["evaluation_id"]))
        return answer


async def _first(ctx: Context, caller: Caller, policy: Policy, about: Tuple4) -> tuple[dict[str, Any], str]:
    """The answer to a question without an approval, and what it is called in the figures."""
    judgement = judge(policy, Question(*about, caller.client_id))
    match judgement:
        case Permit():
            return {"decision": True, "context": {"evaluation_id": ctx.keys.mint_evaluation_id("permit")}}, "permit"
        case Deny(reason=reason):
            return plain_denial(ctx, reason), "deny"
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
    results: list[dict[str, Any]] = []
    for entry in entries:
        results.append(await _entry(ctx, caller, {**defaults, **entry}))  # PDP-16: whole members, no deep merge
        if results[-1]["decision"] is stop_at:
            break
    return {"evaluations": results}


async def _entry(ctx: Context, caller: Caller, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return await evaluate(ctx, caller, request)
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

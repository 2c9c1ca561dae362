"""What a template asks of a decision, and what a decision may carry, as the request's page and the API show it."""

from collections.abc import Mapping
from typing import Any

from arap_service.domain.callers import Caller, Scope
from arap_service.domain.reasons import ReasonRule
from arap_service.records import Part
from arap_service.requests.counting import left_wide
from arap_service.requests.proposals import call_of
from arap_service.requests.voters import Board, Decider, barred_from_likes
from arap_service.store.tables import Approval
from arap_service.views import ScopeView

NONE: Mapping[str, Any] = {
    "reason_required": frozenset(),
    "reasons": {},
    "scope": None,
    "may_propose": False,
    "is_emergency": False,
    "standing_days": 0,
    "step_up": None,
}
"""The same of a bundle as a whole, which nobody decides."""


def terms_of(
    part: Part, board: Board, caller: Caller, decider: Decider, *, asked: Mapping[str, Any], approval: Approval | None
) -> dict[str, Any]:
    """Members of the view of a request or item, by the template as it stood at submission."""
    template = part.own.template
    can_propose = part.own.status == "pending" and bool(template.get("reveal_reason"))
    return {
        "reason_required": frozenset(template["reason_required"]),
        "reasons": {decision: ReasonRule(**rule) for decision, rule in template.get("reasons", {}).items()},
        "scope": _scope(template, board, approval),
        "may_propose": can_propose and call_of(part, asked) is not None,
        "is_emergency": template.get("emergency") is not None,
        "standing_days": _standing_days(part, board, caller, decider, approval),
        "step_up": template.get("step_up"),
    }


def _scope(template: Mapping[str, Any], board: Board, approval: Approval | None) -> ScopeView | None:
    widened = template.get("scope")
    if widened is None:
        return None
    granted = None if approval is None else tuple((approval.scope or {}).get("may_vary", ()))
    return ScopeView(words=widened["words"], may_vary=left_wide(template, board.votes) if granted is None else granted)


def _standing_days(part: Part, board: Board, caller: Caller, decider: Decider, approval: Approval | None) -> int:
    """How long a rule may last that the caller could propose from this request; 0 where he cannot."""
    own = part.own
    is_open = approval is not None and approval.status != "revoked" and not own.template.get("emergency")
    is_his = caller.may(Scope.APPROVAL_RESOLVE) and barred_from_likes(board, decider) is None
    return int(own.template.get("standing_days", 0)) if is_open and is_his else 0

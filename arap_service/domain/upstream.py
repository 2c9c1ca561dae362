"""What the rules make of the answer of another decision point that stands before them.

Without an approval the other's answer stands, and the rules say which of its denials may be requested. What they deny
in so many words is denied whatever the other says, and whatever was approved (PDP-70). No answer is a denial. Asking is
`upstream.py`; what an approval is worth is `reevaluation.py`. AuthZEN Authorization API, "Access Evaluation API".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from arap_service.domain.policy import NO_MATCH, Convertible, Deny, Judgement, Permit
from arap_service.domain.reevaluation import Reason

UPSTREAM: Final = "upstream"
"""Stands for a rule where the other decision point has decided."""
UNAVAILABLE: Final = "upstream_unavailable"
RETRY_SECONDS: Final = 5
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_REASON: Final = re.compile(r"[a-z][a-z0-9_.:-]{0,63}")
# Members that mean something of ours in a decision context, and what is for the administrator of the other (PDP-44).
_NOT_PASSED_ON: Final = frozenset(
    {
        "access_request",
        "approval",
        "evaluated_at",
        "evaluation_id",
        "next_action",
        "reason",
        "reason_admin",
        "retry_after",
    }
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The other permits; `context` is its decision context."""

    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """The other denies; `reason` is None where it gives none."""

    reason: str | None
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Silent:
    """The other gave no usable answer in time; `code` says why, for the log."""

    code: str


Answer = Allowed | Refused | Silent


def read_answer(document: object) -> Answer:
    """The answer that a decision response holds; whatever is not exactly one is no answer."""
    if not isinstance(document, dict):
        return Silent("not_an_object")
    decision, context = document.get("decision"), document.get("context", {})
    if not isinstance(decision, bool):
        return Silent("no_decision")
    if not isinstance(context, dict):
        return Silent("context")
    if decision:
        return Allowed(context)
    reason = context.get("reason")
    return Refused(reason if isinstance(reason, str) and reason else None, context)


def is_mandatory(ours: Judgement) -> bool:
    """Whether the rules alone decide: what they deny in so many words, or could not judge."""
    return isinstance(ours, Deny) and ours.mandatory


def combine(convertible: Convertible, ours: Judgement, theirs: Answer) -> Judgement:
    """What holds when the rules say `ours` and the other decision point says `theirs`."""
    if is_mandatory(ours):
        return ours  # PDP-70
    match theirs:
        case Allowed():
            return Permit(UPSTREAM)
        case Refused(reason=reason):
            if convertible.admits(reason) and not isinstance(ours, Permit) and ours.rule_id is not None:
                return ours
            return Deny(None, _shown_reason(reason))
        case Silent():
            return Deny(None, UNAVAILABLE)


def passed_on(theirs: Answer | None, standing: Judgement) -> Mapping[str, Any]:
    """The members of the other's decision context that go to the caller with the decision.

    All of a permit, since its obligations bind; the words for the user of a plain denial; none of a requestable one
    (X-34).
    """
    if isinstance(theirs, Allowed) and isinstance(standing, Permit):
        return {name: value for name, value in theirs.context.items() if name not in _NOT_PASSED_ON}
    if isinstance(theirs, Refused) and isinstance(standing, Deny) and "reason_user" in theirs.context:
        return {"reason_user": theirs.context["reason_user"]}
    return _NOTHING


def is_code(reason: str | None) -> bool:
    """Whether a reason is a code such as `over_limit`, and nothing that was written for a reader."""
    return reason is not None and _REASON.fullmatch(reason) is not None


def _shown_reason(reason: str | None) -> str:
    # A reason of the profile would have an enforcement point wait or ask again, where the other meant nothing like it.
    if reason is None or reason in set(Reason) or not is_code(reason):
        return NO_MATCH
    return reason

"""The scenarios that `arap simulate` plays: what is armed, what has to be done, what is judged, when it is over.

Data. How a scenario is played is in `driving.py`, what the checks mean in `judging.py`. See docs/simulator.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from arap_service.domain.behaviours import Endpoint
from arap_service.protocol.arap import TERMINAL, TaskStatus
from arap_service.simulator.evidence import Evidence

ONE_CALL: Final = "Make one call that needs approval."
AND_CANCEL: Final = "Make one call that needs approval, and cancel it."
ALWAYS: Final = ("key", "echo", "once", "permit-first")
_RAN: Final = ("unchanged", "runs", "reported")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One rehearsal.

    `arms` are behaviours as the control API takes them; what names no endpoint is addressed to the template of the
    call. With `repeats` a call that fails is made again, as a caller has to who got no answer.
    """

    name: str
    says: str
    arms: tuple[Mapping[str, Any], ...]
    checks: tuple[str, ...]
    is_over: Callable[[Evidence], bool]
    asks: str = ONE_CALL
    repeats: bool = False


def _ran(evidence: Evidence) -> bool:
    return bool(evidence.reports) or (bool(evidence.permits) and bool(evidence.ran))


def _told(*statuses: TaskStatus) -> Callable[[Evidence], bool]:
    def is_over(evidence: Evidence) -> bool:
        answers = [*evidence.polls, *evidence.submissions]
        return any(each.facts.get("task_status") in statuses and each.fault is None for each in answers)

    return is_over


def _refused(evidence: Evidence) -> bool:
    return any(each.facts.get("next_action") == "none" for each in evidence.presentations)


def _late_callback(evidence: Evidence) -> bool:
    return any(each.fault in {"callback-late", "callback-out-of-order"} for each in evidence.of("callback"))


def _no_decision(evidence: Evidence) -> bool:
    return len([each for each in evidence.of(Endpoint.EVALUATION) if each.fault is not None]) >= 1


def _withdrawn(evidence: Evidence) -> bool:
    return bool(evidence.of(Endpoint.CANCEL))


_ENDED: Final = _told(*TERMINAL - {TaskStatus.APPROVED})
_APPROVE: Final = {"behaviour": "approve", "after": 0.5}
_AT_ONCE: Final = {"behaviour": "approve"}
_DENY: Final = {"behaviour": "deny"}
_TABLE: Final = (
    Scenario(
        "approved", "The request is approved after a while.",
        ({"behaviour": "approve", "after": 1},), (*ALWAYS, *_RAN, "stop"), _ran,
    ),
    Scenario(
        "denied", "The request is denied after a while.",
        ({"behaviour": "deny", "after": 1},), (*ALWAYS, "never", "stop"), _ENDED,
    ),
    Scenario(
        "expired", "Nobody decides in time.",
        ({"behaviour": "expire", "after": 0.5},), (*ALWAYS, "never", "stop"), _ENDED,
    ),
    Scenario(
        "failed", "The request cannot be carried out.",
        ({"behaviour": "fail", "after": 0.5},), (*ALWAYS, "never", "stop"), _ENDED,
    ),
    Scenario(
        "withdrawn", "The request is withdrawn at the service.",
        ({"behaviour": "cancel", "after": 0.5},), (*ALWAYS, "never", "stop"), _ENDED,
    ),
    Scenario(
        "cancelled", "The caller cancels while the request is open.",
        (), (*ALWAYS, "never", "withdraws", "dead"), _withdrawn, AND_CANCEL,
    ),
    Scenario(
        "not-provisioned", "The approval takes a while to have effect: twice the answer is retry.",
        (_APPROVE, {"behaviour": "reevaluation-retry", "times": 2, "retry_after": 1}),
        (*ALWAYS, *_RAN, "retry"), _ran,
    ),
    Scenario(
        "asked-again", "The approval does not suffice: the answer is request, once.",
        (_APPROVE, {"behaviour": "reevaluation-request", "times": 1}),
        (*ALWAYS, *_RAN, "anew", "fresh", "own-key", "dropped"), _ran,
    ),
    Scenario(
        "overruled", "The request is approved, the decision point still says no.",
        (_APPROVE, {"behaviour": "reevaluation-deny", "times": 100}),
        (*ALWAYS, "unchanged", "never", "give-up"), _refused,
    ),
    Scenario(
        "revoked", "The approval is taken back before it is used; what is asked for then is denied.",
        ({**_APPROVE, "times": 1}, _DENY, {"behaviour": "revoke-before-reevaluation", "times": 1}),
        (*ALWAYS, "unchanged", "never", "dropped"), lambda evidence: _refused(evidence) or _ENDED(evidence),
    ),
    Scenario(
        "lost-answer", "The service commits the submission and the answer is lost.",
        ({"behaviour": "lost-answer", "endpoint": "submission"}, _AT_ONCE),
        (*ALWAYS, *_RAN, "repeat"), _ran, repeats=True,
    ),
    Scenario(
        "busy", "The service has too much to do when the submission comes.",
        ({"behaviour": "rate-limited", "endpoint": "submission", "retry_after": 1}, _AT_ONCE),
        (*ALWAYS, *_RAN, "repeat"), _ran, repeats=True,
    ),
    Scenario(
        "broken-status", "The status cannot be had: an error, a cut connection, no JSON.",
        (
            {"behaviour": "server-error", "endpoint": "status"},
            {"behaviour": "cut", "endpoint": "status"},
            {"behaviour": "garbage", "endpoint": "status"},
            {"behaviour": "approve", "after": 1},
            {"behaviour": "callback-lost"},
        ),
        (*ALWAYS, *_RAN, "keeps-asking"), _ran,
    ),
    Scenario(
        "busy-status", "The status endpoint asks for patience.",
        (
            {"behaviour": "rate-limited", "endpoint": "status", "retry_after": 2, "times": 1},
            _AT_ONCE,
            {"behaviour": "callback-lost"},
        ),
        (*ALWAYS, *_RAN, "patience"), _ran,
    ),
    Scenario(
        "odd-status", "The status is a word that the profile does not know; then the request is denied.",
        (
            {"behaviour": "wrong-type", "endpoint": "status", "times": 1},
            {"behaviour": "deny", "after": 0.5},
            {"behaviour": "callback-lost"},
        ),
        (*ALWAYS, "never", "not-granted", "keeps-asking"), _ENDED,
    ),
    Scenario(
        "no-decision", 'The decision point answers with the decision "true", a string.',
        ({"behaviour": "wrong-type", "endpoint": "evaluation", "times": 20},), ("no-permit", "no-offer"), _no_decision,
    ),
    Scenario(
        "no-answer", "The decision point cuts every connection.",
        ({"behaviour": "cut", "endpoint": "evaluation", "times": 20},), ("no-permit", "no-offer"), _no_decision,
    ),
    Scenario(
        "forged-callbacks", "Callbacks that prove nothing claim an approval; then the request is denied.",
        (
            {"behaviour": "callback-forged"},
            {"behaviour": "callback-wrong-key"},
            {"behaviour": "callback-stale"},
            {"behaviour": "deny", "after": 1},
        ),
        (*ALWAYS, "never", "unbelieved"), _ENDED,
    ),
    Scenario(
        "misleading-callback", "A callback that is well signed names another status endpoint, too early.",
        ({"behaviour": "callback-misleading"}, {"behaviour": "deny", "after": 1}),
        (*ALWAYS, "never", "own-source"), _ENDED,
    ),
    Scenario(
        "callback-twice", "The callback comes twice.",
        (_APPROVE, {"behaviour": "callback-twice"}), (*ALWAYS, *_RAN), _ran,
    ),
    Scenario(
        "callback-lost", "The callback never comes.",
        (_APPROVE, {"behaviour": "callback-lost"}), (*ALWAYS, *_RAN, "patience", "polling"), _ran,
    ),
    Scenario(
        "callback-late", "The callback comes when everything is over.",
        (_AT_ONCE, {"behaviour": "callback-late", "after": 4}),
        (*ALWAYS, *_RAN, "polling", "late"), lambda evidence: _ran(evidence) and _late_callback(evidence),
    ),
    Scenario(
        "callback-out-of-order", "The first request's callback comes after that of the one that replaced it.",
        (
            _APPROVE,
            {"behaviour": "reevaluation-request", "times": 1},
            {"behaviour": "callback-out-of-order", "times": 1},
        ),
        (*ALWAYS, *_RAN, "anew", "fresh", "own-key"), lambda evidence: _ran(evidence) and _late_callback(evidence),
    ),
)  # fmt: skip
SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType({scenario.name: scenario for scenario in _TABLE})
"""Every scenario by its name, in the order of the documentation."""

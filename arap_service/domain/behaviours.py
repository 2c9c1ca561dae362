"""What the simulator can be told to do: every behaviour by name, with what a correct enforcement point does about it.

A table and the reading of one entry, nothing else: who arms a behaviour and how it is carried out is in `simulator/`.
The table stands here because a template's `script` in the rules file names behaviours, too. Documentation and the
listing of the control API are made from it. Implementers' guide: docs/simulator.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final


class Group(StrEnum):
    """What a behaviour is about, which decides what it can be addressed to."""

    OUTCOME = "outcome"
    REEVALUATION = "re-evaluation"
    CALLBACK = "callback"
    ENDPOINT = "endpoint"
    CLOCK = "clock"


class Endpoint(StrEnum):
    """The endpoints that an enforcement point calls, under the names that behaviours and observations use."""

    TOKEN = "token"  # noqa: S105 - the name of an endpoint
    METADATA = "metadata"
    KEYS = "keys"
    EVALUATION = "evaluation"
    SUBMISSION = "submission"
    STATUS = "status"
    CANCEL = "cancel"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that goes with a behaviour: its bounds, its default, and what it means."""

    least: float
    most: float
    default: float | None
    means: str


PARAMETERS: Final[Mapping[str, Parameter]] = MappingProxyType(
    {
        "after": Parameter(0, 604_800, 0, "seconds to wait first, by the service's clock"),
        "times": Parameter(1, 10_000, None, "how often, before things are as usual again"),
        "retry_after": Parameter(1, 3_600, 1, "whole seconds that the enforcement point is asked to wait"),
        "status": Parameter(500, 599, 503, "the HTTP status of the answer"),
        "seconds": Parameter(-31_536_000, 31_536_000, 3_600, "how far the clock is moved; below zero: back"),
    }
)
_WHOLE: Final = frozenset({"times", "retry_after", "status"})


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One row of the table; `times` is how often it happens when nothing is said, None for every time."""

    name: str
    group: Group
    does: str
    client: str
    rules: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    times: int | None = None


_TIMED: Final = ("after", "times")
_TABLE: Final = (
    Behaviour(
        "approve", Group.OUTCOME, "Approves the request.",
        "Asks the decision point again, presenting the approval unchanged; runs the call once if that is a permit.",
        ("PEP-40", "PEP-98", "PEP-66"), _TIMED,
    ),
    Behaviour(
        "deny", Group.OUTCOME, "Denies the request.",
        "Stops polling, runs nothing, and tells its caller that the call was denied.",
        ("PEP-45", "PEP-90"), _TIMED,
    ),
    Behaviour(
        "expire", Group.OUTCOME, "Lets the time to decide run out.",
        "Stops polling, runs nothing, also if an approval should be claimed later.",
        ("PEP-90", "PEP-118"), _TIMED,
    ),
    Behaviour(
        "fail", Group.OUTCOME, "Ends the request as failed.",
        "Takes it as not approved: runs nothing.",
        ("PEP-42", "PEP-88"), _TIMED,
    ),
    Behaviour(
        "cancel", Group.OUTCOME, "Withdraws the request, as a reviewer or the requester could.",
        "Takes it as not approved: runs nothing.",
        ("PEP-90", "PEP-118"), _TIMED,
    ),
    Behaviour(
        "reevaluation-retry", Group.REEVALUATION,
        "Answers a re-evaluation that would be a permit with next_action retry; after that many times, permits.",
        "Waits at least retry_after seconds, asks again with the same approval, and runs the call once permitted.",
        ("PEP-48", "PEP-100"), ("times", "retry_after"), 2,
    ),
    Behaviour(
        "reevaluation-request", Group.REEVALUATION,
        "Answers a re-evaluation that would be a permit with next_action request and a new offer; then permits.",
        "Submits anew under a new key, with the new binding; drops the old approval; gives up at its own bound.",
        ("PEP-61", "PEP-101", "PEP-102"), ("times",), 1,
    ),
    Behaviour(
        "reevaluation-deny", Group.REEVALUATION,
        "Answers a re-evaluation that would be a permit with next_action none.",
        "Runs nothing although the request was approved, and does not ask again.",
        ("PEP-98", "PEP-103"), ("times",), 1,
    ),
    Behaviour(
        "revoke-before-reevaluation", Group.REEVALUATION,
        "Really revokes the approval when the enforcement point presents it for the first time.",
        "Runs nothing on that approval; what it may do next is what the answer says.",
        ("PEP-92", "PEP-98", "PEP-103"), ("times",), 1,
    ),
    Behaviour(
        "callback-twice", Group.CALLBACK, "Delivers the callback twice, under the same webhook-id.",
        "Accepts both, acts once.",
        ("PEP-66", "PEP-93"), ("times",),
    ),
    Behaviour(
        "callback-late", Group.CALLBACK, "Delivers the callback only so many seconds later.",
        "Has learned the outcome by polling before that, and does nothing when the callback comes.",
        ("PEP-92", "PEP-96"), _TIMED,
    ),
    Behaviour(
        "callback-lost", Group.CALLBACK, "Never delivers the callback.",
        "Learns the outcome by polling.",
        ("PEP-96",), ("times",),
    ),
    Behaviour(
        "callback-out-of-order", Group.CALLBACK, "Delivers the callback after the next one for the same endpoint.",
        "Does nothing about the older one: the request that it names has been replaced or is done.",
        ("PEP-92",), ("times",), 1,
    ),
    Behaviour(
        "callback-forged", Group.CALLBACK,
        "While the request is open, claims its approval under a signature that is none.",
        "Answers 401 or the like, and neither runs nor presents anything.",
        ("PEP-93",), ("times",),
    ),
    Behaviour(
        "callback-wrong-key", Group.CALLBACK, "The same, well signed, but with another key.",
        "Answers 401 or the like, and neither runs nor presents anything.",
        ("PEP-93",), ("times",),
    ),
    Behaviour(
        "callback-stale", Group.CALLBACK, "The same, signed with the right key, but an hour ago.",
        "Answers 401 or the like, and neither runs nor presents anything.",
        ("PEP-93",), ("times",),
    ),
    Behaviour(
        "callback-misleading", Group.CALLBACK,
        "While the request is open, claims its approval and another status_endpoint, signed with the right key.",
        "Takes it as a hint only: asks the status endpoint that it was given at the start, and nothing else.",
        ("PEP-94",), ("times",),
    ),
    Behaviour(
        "slow", Group.ENDPOINT, "Does its work, then answers only so many seconds later.",
        "Waits or gives up; after giving up on a submission, repeats it under the same key.",
        ("PEP-57",), _TIMED, 1,
    ),
    Behaviour(
        "rate-limited", Group.ENDPOINT, "Answers 429 with Retry-After, and does nothing.",
        "Comes back no earlier than asked; a submission under the same key.",
        ("PEP-45", "PEP-57"), ("times", "retry_after"), 1,
    ),
    Behaviour(
        "server-error", Group.ENDPOINT, "Answers 5xx, and does nothing.",
        "Takes it as no answer: never as a permit, never as a denial that ends an open request.",
        ("PEP-13", "PEP-57"), ("times", "status"), 1,
    ),
    Behaviour(
        "cut", Group.ENDPOINT, "Cuts the connection without having done anything.",
        "Takes it as no answer: never as a permit, never as a denial that ends an open request.",
        ("PEP-13", "PEP-57"), ("times",), 1,
    ),
    Behaviour(
        "lost-answer", Group.ENDPOINT, "Does its work, commits it, and cuts the connection instead of answering.",
        "Repeats the submission under the same key with the same body, and gets the task of the first.",
        ("PEP-57",), ("times",), 1,
    ),
    Behaviour(
        "garbage", Group.ENDPOINT, "Does its work and answers 200 with a body that is no JSON.",
        "Takes it as no answer.",
        ("PEP-13",), ("times",), 1,
    ),
    Behaviour(
        "wrong-type", Group.ENDPOINT,
        'Answers with the decision "true", a string; for a status, with the word granted.',
        "Takes neither for a permit or an approval.",
        ("PEP-13", "PEP-42"), ("times",), 1,
    ),
    Behaviour(
        "clock-moved", Group.CLOCK, "Moves the service's clock, at once and for good.",
        "Judges deadlines by its own clock, and gets a new token when its old one has run out.",
        ("PEP-41", "PEP-79"), ("seconds",),
    ),
)  # fmt: skip
BEHAVIOURS: Final[Mapping[str, Behaviour]] = MappingProxyType({behaviour.name: behaviour for behaviour in _TABLE})
"""Every behaviour by its name, in the order of the documentation."""
SCRIPTED: Final = frozenset({Group.OUTCOME, Group.REEVALUATION, Group.CALLBACK})
"""The groups that a template's script can hold."""


class BehaviourInvalid(ValueError):
    """What was asked for is not in the table; the text says what is wrong with `member`."""

    def __init__(self, member: str, text: str) -> None:
        super().__init__(text)
        self.member = member


@dataclass(frozen=True, slots=True)
class Act:
    """A behaviour with its numbers: what to do, after how many seconds, how often."""

    behaviour: Behaviour
    after: float = 0
    times: int | None = None
    retry_after: int = 1
    status: int = 503
    seconds: float = 0

    @property
    def name(self) -> str:
        """The name of the behaviour."""
        return self.behaviour.name

    def said(self) -> dict[str, Any]:
        """The act as it would be written down."""
        numbers = {name: getattr(self, name) for name in self.behaviour.parameters}
        return {"behaviour": self.name, **{name: value for name, value in numbers.items() if value is not None}}


def read_act(entry: Mapping[str, Any]) -> Act:
    """The act that `entry` describes: `behaviour` and the numbers that go with it.

    Raises:
        BehaviourInvalid: There is no such behaviour, or a number is unknown to it, no number or out of bounds.
    """
    name = entry.get("behaviour")
    behaviour = BEHAVIOURS.get(name) if isinstance(name, str) else None
    if behaviour is None:
        raise BehaviourInvalid("behaviour", "there is no behaviour of this name")
    numbers = {
        parameter: behaviour.times if parameter == "times" else PARAMETERS[parameter].default
        for parameter in behaviour.parameters
    }
    for member, value in entry.items():
        if member == "behaviour":
            continue
        if member not in behaviour.parameters:
            raise BehaviourInvalid(member, f"the behaviour {behaviour.name} has no such number")
        numbers[member] = _number(member, value)
    values: dict[str, Any] = dict(numbers)
    return Act(behaviour, **values)


def _number(member: str, value: Any) -> float:
    bounds = PARAMETERS[member]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not bounds.least <= value <= bounds.most or (member in _WHOLE and value != int(value)):
        kind = "a whole number" if member in _WHOLE else "a number"
        raise BehaviourInvalid(member, f"{kind} from {bounds.least:g} to {bounds.most:g} is wanted")
    return int(value) if member in _WHOLE else value

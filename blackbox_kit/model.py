"""What a check is, what its outcome can be, and how a check says so."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = dict[str, Any]


class Level(StrEnum):
    """How binding the sentence is."""

    MUST = "MUST"
    SHOULD = "SHOULD"


class Verdict(StrEnum):
    """What became of a check; `ERROR` says that it could not be run to its end, and nothing about the rule."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    SKIPPED = "skipped"
    ERROR = "error"


class NotKept(Exception):
    """The rule is not kept; the text says what was seen."""


class NotRun(Exception):
    """The check could not be brought to the point where the rule shows; the text says what stood in its way."""


class NotApplicable(Exception):
    """The rule does not concern what is tested, or the way to it; the text says why."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A normative sentence and where it stands."""

    sentence: str
    source: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to find out; each suite adds what its checks need."""

    id: str
    group: str
    level: Level
    run: Callable[[Any], Awaitable[None]]

    @property
    def needs(self) -> tuple[str, ...]:
        """What must be there for it, in words."""
        return ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was sent and what came, secrets removed."""

    sent: Json
    came: Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one check."""

    check: Check
    verdict: Verdict
    note: str = ""
    seconds: float = 0.0
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run: against what, and every outcome in the order of the catalogue."""

    target: str
    transport: str
    outcomes: tuple[Outcome, ...]
    rules: Mapping[str, Rule] = field(default_factory=dict)

    def count(self, verdict: Verdict, *, level: Level | None = None) -> int:
        """How many outcomes have this verdict, of one level or of both."""
        return sum(one.verdict is verdict and (level is None or one.check.level is level) for one in self.outcomes)


@dataclass(frozen=True, slots=True)
class Suite:
    """How a suite is called, begins its ids, and tells of an exchange in a word or two."""

    name: str
    title: str
    prefix: str
    asked: Callable[[Json], str]
    came: Callable[[Any], str]

    def short(self, check_id: str) -> str:
        """The id as people type it."""
        return check_id.removeprefix(self.prefix)

"""What a scenario has to go by: the observations of one call, and how often its tool ran. Pure.

What the evidence means for a rule is judged in `judging.py`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from arap_service.domain.behaviours import Endpoint
from arap_service.simulator.observing import Observation

EXECUTED: Final = frozenset({"approved-executed", "execution-error"})
"""The dispositions of a report that say that the tool ran."""


class Finding(StrEnum):
    """What the evidence says about a rule."""

    KEPT = "kept"
    BROKEN = "broken"
    UNSEEN = "not seen"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A finding about one rule, and what it rests on."""

    rule: str
    asks: str
    finding: Finding
    saw: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was seen of one call; `executions` is how often the tool ran, None where nobody could tell."""

    seen: tuple[Observation, ...]
    executions: int | None = None

    def of(self, what: str) -> list[Observation]:
        """The exchanges of one kind, oldest first."""
        return [each for each in self.seen if each.what == what]

    @property
    def submissions(self) -> list[Observation]:
        """The submissions."""
        return self.of(Endpoint.SUBMISSION)

    @property
    def polls(self) -> list[Observation]:
        """The status requests."""
        return self.of(Endpoint.STATUS)

    @property
    def presentations(self) -> list[Observation]:
        """The evaluations that presented an approval."""
        return [each for each in self.of(Endpoint.EVALUATION) if "presented" in each.facts]

    @property
    def permits(self) -> list[Observation]:
        """The presentations that were answered with a permit."""
        return [each for each in self.presentations if each.facts.get("decision") is True and each.fault is None]

    @property
    def reports(self) -> list[Observation]:
        """The execution reports."""
        return self.of(Endpoint.REPORT)

    @property
    def ran(self) -> int | None:
        """How often the tool ran at least, by its traces or else by the reports."""
        if self.executions is not None:
            return self.executions
        said = {each.task for each in self.reports if each.facts.get("disposition") in EXECUTED}
        return len(said) if self.reports else None

    def after(self, moment: Observation) -> list[Observation]:
        """What was seen after `moment`."""
        return [each for each in self.seen if each.seq > moment.seq]

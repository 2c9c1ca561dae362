"""How far a request's workflow has come: quorum, veto and the voices of evaluators.

Decides whether a request is still waiting, completed or ended. Votes have been admitted before (`reviewers.py`);
nobody is asked anything here. Steps run side by side unless one waits for others (`after`): it opens when all of them
have their quorum, and what was said in it before counts for nothing. All must reach their quorum. Access Request and
Approval Profile, "Evaluators and Workflow Design".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Voice = Literal["approve", "deny", "hold"]


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's (or resolver's) decision in one step."""

    step_id: str
    person_id: str
    decision: Literal["approve", "deny"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an automated evaluator said; `hold` hands the request to the steps whatever other evaluators favour."""

    evaluator_id: str
    decision: Voice
    reason: str


class WorkflowStep(Protocol):
    """What this module needs to know of a step (`policy.Step`)."""

    @property
    def id(self) -> str:
        """The step's name within its template."""
        ...

    @property
    def quorum(self) -> int:
        """How many distinct approvals complete the step."""
        ...

    @property
    def veto(self) -> int:
        """How many distinct denials end the request."""
        ...

    @property
    def after(self) -> frozenset[str]:
        """The steps that must be complete before this one opens."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """These steps are open and have not reached their quorum yet; `later` are those that are not even open."""

    step_ids: tuple[str, ...]
    later: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completed:
    """The request is approved; `automatic` when evaluators alone decided it."""

    automatic: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The request is denied, by a `veto` in a step or by an `evaluator`; `source` is the id of either."""

    reason: Literal["veto", "evaluator"]
    source: str


Progress = Waiting | Completed | Ended


def progress(
    steps: Sequence[WorkflowStep], votes: Iterable[Vote], *, evaluations: Iterable[Evaluation] = ()
) -> Progress:
    """Where a request stands after these votes and evaluations; a denial outranks every approval."""
    voices = tuple(evaluations)
    cast = frozenset(votes)
    denied_by = next((voice.evaluator_id for voice in voices if voice.decision == "deny"), None)
    if denied_by is not None:
        return Ended("evaluator", denied_by)
    completed = _completed(steps, cast)
    opened = [step for step in steps if step.after <= completed]
    vetoed = next((step.id for step in opened if len(_deniers(step, cast)) >= step.veto), None)
    if vetoed is not None:
        return Ended("veto", vetoed)
    if voices and all(voice.decision == "approve" for voice in voices):
        return Completed(automatic=True)
    waiting = tuple(step.id for step in opened if step.id not in completed)
    later = tuple(step.id for step in steps if not step.after <= completed)
    # A workflow without steps can never complete by itself: nobody would have approved (ARS-114).
    return Waiting(waiting, later) if waiting or later or not steps else Completed(automatic=False)


def _completed(steps: Sequence[WorkflowStep], cast: frozenset[Vote]) -> frozenset[str]:
    """The steps that have opened and reached their quorum, found by going round until no further one has."""
    completed: frozenset[str] = frozenset()
    while True:
        found = frozenset(
            step.id for step in steps if step.after <= completed and len(_approvers(step, cast)) >= step.quorum
        )
        if found == completed:
            return completed
        completed = found


def _deniers(step: WorkflowStep, votes: frozenset[Vote]) -> frozenset[str]:
    return frozenset(vote.person_id for vote in votes if vote.step_id == step.id and vote.decision == "deny")


def _approvers(step: WorkflowStep, votes: frozenset[Vote]) -> frozenset[str]:
    approved = frozenset(vote.person_id for vote in votes if vote.step_id == step.id and vote.decision == "approve")
    return approved - _deniers(step, votes)

"""Who the caller is as a decider, which requests he may see, and in which step he may speak.

Gathers the facts from the store and asks `domain/reviewers.py`; the rules themselves are there (ARS-115 to ARS-117).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlmodel import Session

from arap_service.domain.appointing import ANYBODY, MANAGER, directory_bond
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.policy import Step
from arap_service.domain.reviewers import (
    NOT_ASSIGNED,
    NOT_OPEN,
    Eligible,
    Ineligible,
    Person,
    RequestFacts,
    is_assigned,
    may_decide,
)
from arap_service.records import Part
from arap_service.requests.grounds import Grounds
from arap_service.store import items, people, reports, votes
from arap_service.store.item_tables import TaskItem
from arap_service.store.tables import StepState, StepVoice, Task, Vote

OfTask = TypeVar("OfTask", StepState, StepVoice, Vote, TaskItem)


@dataclass(frozen=True, slots=True)
class Decider:
    """The caller as somebody who decides: `voter` is what his votes are recorded under."""

    person: Person
    voter: str
    kind: str  # person or resolver
    grounds: Grounds | None = None

    @property
    def voices(self) -> Mapping[str, Sequence[str]]:
        """By what steps certainly name him."""
        if self.kind == "resolver":
            return {"resolver": (self.voter,)}
        person = self.person
        return {"person": (person.id,), "group": tuple(person.groups), "relation": tuple(person.bonds)}

    @property
    def chances(self) -> Mapping[str, Sequence[str]]:
        """By what steps may name him, some of which ask an expression first."""
        return self.voices if self.kind == "resolver" else {**self.voices, "anybody": (ANYBODY,)}

    @property
    def actor(self) -> str:
        """How the audit names him."""
        return f"{self.kind}:{self.voter}"


@dataclass(frozen=True, slots=True)
class Board:
    """The workflow of one request as stored: steps in order, who may speak in them, what was said."""

    task: Task
    steps: tuple[StepState, ...]
    voices: tuple[StepVoice, ...]
    votes: tuple[Vote, ...]
    rows: tuple[TaskItem, ...] = ()

    def of(self, item: int) -> "Board":
        """The part of it that is about one item; 0 for a single request."""
        return Board(
            self.task,
            tuple(step for step in self.steps if step.item == item),
            tuple(voice for voice in self.voices if voice.item == item),
            tuple(vote for vote in self.votes if vote.item == item),
            tuple(row for row in self.rows if row.item == item),
        )

    def names(self, state: StepState, decider: Decider) -> bool:
        """Whether the expression of a step, if it has one, names the decider on his grounds."""
        if state.who is None or decider.grounds is None:
            return False
        row = next((row for row in self.rows if row.item == state.item), None)
        return decider.grounds.names(state.who, Part(self.task, row), decider.person)

    def counted_in(self, voter: str) -> frozenset[str]:
        """The steps in which `voter` has been counted."""
        return frozenset(vote.step_id for vote in self.votes if vote.voter == voter)

    def step(self, state: StepState) -> Step:
        """A stored step as the rules see it."""
        names: dict[str, set[str]] = {kind: set() for kind in ("group", "person", "resolver", "relation", "anybody")}
        for voice in self.voices:
            if voice.step_id == state.step_id:
                names[voice.kind].add(voice.name)
        return Step(
            id=state.step_id,
            title=state.title,
            groups=frozenset(names["group"]),
            people=frozenset(names["person"]),
            resolvers=frozenset(names["resolver"]),
            quorum=state.quorum,
            veto=state.veto,
            repeat=state.repeat,
            after=frozenset(state.after),
            who=state.who,
            bonds=frozenset(names["relation"]),
        )


def boards_of(session: Session, tasks: Sequence[Task]) -> dict[str, Board]:
    """The workflows of `tasks` as stored, by task id."""
    ids = [task.id for task in tasks]
    steps, voices = votes.steps_of(session, ids), votes.voices_of(session, ids)
    # An expression may read the resource of an item.
    rows = items.items_of(session, {step.task_id for step in steps if step.item and step.who is not None})
    steps_of, voices_of, rows_of = _by_task(steps), _by_task(voices), _by_task(rows)
    cast_of = _by_task(votes.votes_of(session, ids))
    return {
        task.id: Board(task, steps_of[task.id], voices_of[task.id], cast_of[task.id], rows_of[task.id])
        for task in tasks
    }


def _by_task(rows: Sequence[OfTask]) -> defaultdict[str, tuple[OfTask, ...]]:
    found: dict[str, list[OfTask]] = {}
    for row in rows:
        found.setdefault(row.task_id, []).append(row)
    return defaultdict(tuple, {task_id: tuple(listed) for task_id, listed in found.items()})


def board_of(session: Session, task: Task) -> Board:
    """The workflow of `task` as stored."""
    return boards_of(session, [task])[task.id]


def decider_of(session: Session, caller: Caller, grounds: Grounds | None = None) -> Decider:
    """The caller as a person with everything that is known about him, or as a resolver client.

    Without `grounds` nobody is named by a relation or an expression.
    """
    person_id = caller.person_id
    if person_id is None:
        known = people.person_of_identity(session, caller.iss, caller.sub)
        person_id = None if known is None else known.id
    stored = None if person_id is None else people.find_person(session, person_id)
    # Whoever acts for the caller decides too: an agent must not approve its own call in a person's name (GOV-12).
    own = {caller.principal, *(f"{issuer}|{subject}" for issuer, subject in caller.act)}
    own |= {caller.agent} if caller.agent is not None else set()
    if stored is None:
        person = Person(
            id=caller.client_id,
            active=True,
            identities=frozenset(own),
            client_id=caller.client_id,
        )
        return Decider(person, caller.client_id, "resolver", grounds)
    known = frozenset(f"{identity.iss}|{identity.sub}" for identity in people.identities_of(session, stored.id))
    own |= known
    # ARS-116: an enforcement point names its subject by whatever name it knows him by.
    own |= people.logins_of(session, stored.id) | ({stored.email} if stored.email else set())
    if caller.channel == "api":
        own.add(caller.client_id)  # the gated client must not carry a person's answer to its own request (GOV-10)
    person = Person(
        id=stored.id,
        active=stored.active,
        identities=frozenset(own),
        groups=people.groups_of(session, stored.id),
        bonds=frozenset() if grounds is None else _bonds(session, stored.id, known, grounds),
    )
    return Decider(person, stored.id, "person", grounds)


def _bonds(session: Session, person_id: str, identities: frozenset[str], grounds: Grounds) -> frozenset[str]:
    names = reports.names_of_reports(session, person_id)
    return grounds.bonds_of(identities | {person_id}) | {directory_bond(MANAGER, name) for name in names}


def facts_of(task: Task) -> RequestFacts:
    """The identities of a request that nobody who decides it may bear."""
    chain = {subject if issuer is None else f"{issuer}|{subject}" for issuer, subject in task.actors}
    return RequestFacts(
        subject_ids=frozenset({task.subject_id}),
        submitter=task.submitter,
        agents=frozenset(chain | ({task.agent} if task.agent else set())),
        client=task.client_id,
    )


def eligibility(task: Task, board: Board, decider: Decider) -> Eligible | Ineligible:
    """The first open step in which the decider may speak now, or the rule that speaks most against it."""
    worst = Ineligible(NOT_ASSIGNED)
    is_later = False
    counted = board.counted_in(decider.voter)
    for state in board.steps:
        if state.status != "waiting":
            continue
        step = board.step(state)
        is_named = not is_assigned(decider.person, step) and board.names(state, decider)
        found = may_decide(facts_of(task), decider.person, step=step, counted_in=counted, is_named=is_named)
        if isinstance(found, Eligible):
            if state.opened_at is not None:
                return found
            is_later = True
        elif worst.reason == NOT_ASSIGNED:
            worst = found
    return Ineligible(NOT_OPEN) if is_later and worst.reason == NOT_ASSIGNED else worst


def is_named(board: Board, decider: Decider) -> bool:
    """Whether any step of the request names the decider."""
    voices = decider.voices
    if any(voice.name in voices.get(voice.kind, ()) for voice in board.voices):
        return True
    return any(board.names(state, decider) for state in board.steps)


def may_see(caller: Caller, board: Board, decider: Decider) -> bool:
    """Whether the caller may know of a request at all: by his right to read, or because a step names him (ARS-63)."""
    return caller.may(Scope.APPROVAL_READ) or (caller.may(Scope.APPROVAL_RESOLVE) and is_named(board, decider))

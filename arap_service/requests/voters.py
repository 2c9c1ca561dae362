"""Who the caller is as a decider, which requests he may see, and in which step he may speak.

Gathers the facts from the store and asks `domain/reviewers.py`; the rules themselves are there (ARS-115 to ARS-117).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlmodel import Session

from arap_service.domain.appointing import ANYBODY, MANAGER, directory_bond
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.policy import Step
from arap_service.domain.reviewers import (
    NOT_ASSIGNED,
    NOT_OPEN,
    OPEN_TO_DEPUTIES,
    Eligible,
    Ineligible,
    Person,
    RequestFacts,
    is_assigned,
    may_decide,
    may_decide_for,
    voices_of,
)
from arap_service.records import Part
from arap_service.requests.grounds import Grounds
from arap_service.store import delegations, items, people, reports, votes
from arap_service.store.item_tables import TaskItem
from arap_service.store.people_tables import Person as StoredPerson
from arap_service.store.tables import StepState, StepVoice, Task, Vote

OfTask = TypeVar("OfTask", StepState, StepVoice, Vote, TaskItem)


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of somebody who is away, which the decider takes for requests of `templates`, or of all."""

    person: Person
    delegation: str
    templates: frozenset[str]

    def is_for(self, template_id: str) -> bool:
        """Whether it may be taken for requests of this template."""
        return not self.templates or template_id in self.templates


@dataclass(frozen=True, slots=True)
class Decider:
    """The caller as somebody who decides: `voter` is what his votes are recorded under."""

    person: Person
    voter: str
    kind: str  # person or resolver
    grounds: Grounds | None = None
    seats: tuple[Seat, ...] = ()

    @property
    def voices(self) -> Mapping[str, Sequence[str]]:
        """By what steps certainly name him, or whose place he takes for everything."""
        if self.kind == "resolver":
            return {"resolver": (self.voter,)}
        return _joined([self.person, *(seat.person for seat in self.seats if not seat.templates)])

    @property
    def chances(self) -> Mapping[str, Sequence[str]]:
        """By what steps may name him, some of which have to be looked at first."""
        if self.kind == "resolver":
            return self.voices
        return {**_joined([self.person, *(seat.person for seat in self.seats)]), "anybody": (ANYBODY,)}

    @property
    def actor(self) -> str:
        """How the audit names him."""
        return f"{self.kind}:{self.voter}"


def _joined(persons: Sequence[Person]) -> dict[str, Sequence[str]]:
    found: dict[str, set[str]] = {}
    for person in persons:
        for kind, names in voices_of(person).items():
            found.setdefault(kind, set()).update(names)
    return {kind: tuple(sorted(names)) for kind, names in found.items()}


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

    def part(self, item: int) -> Part:
        """The request, or one item of it."""
        return Part(self.task, next((row for row in self.rows if row.item == item), None))

    def names(self, state: StepState, person: Person, grounds: Grounds | None) -> bool:
        """Whether the expression of a step, if it has one, names the person."""
        return state.who is not None and grounds is not None and grounds.names(state.who, self.part(state.item), person)

    def counted_in(self, voter: str) -> frozenset[str]:
        """The steps in which `voter` has been counted, himself or by whoever took his place."""
        return frozenset(vote.step_id for vote in self.votes if voter in {vote.voter, vote.in_place_of})

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
    rows = items.items_of(session, {step.task_id for step in steps if step.item})
    states, named, items_of = _by_task(steps), _by_task(voices), _by_task(rows)
    cast = _by_task(votes.votes_of(session, ids))
    return {task.id: Board(task, states[task.id], named[task.id], cast[task.id], items_of[task.id]) for task in tasks}


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

    Without `grounds` nobody is named by a relation or an expression, or takes anybody's place.
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
    if caller.channel == "api":
        own.add(caller.client_id)  # the gated client must not carry a person's answer to its own request (GOV-10)
    person = _person_of(session, stored, grounds, also=own)
    seats = () if grounds is None else _seats_of(session, stored, grounds)
    return Decider(person, stored.id, "person", grounds, seats)


def _person_of(
    session: Session, stored: StoredPerson, grounds: Grounds | None, *, also: Collection[str] = ()
) -> Person:
    named = frozenset(f"{identity.iss}|{identity.sub}" for identity in people.identities_of(session, stored.id))
    # ARS-116: an enforcement point names its subject by whatever name it knows him by.
    calls = people.logins_of(session, stored.id) | ({stored.email} if stored.email else set())
    bonds: frozenset[str] = frozenset()
    if grounds is not None:
        reporting = reports.names_of_reports(session, stored.id)
        bonds = grounds.bonds_of(named | {stored.id}) | {directory_bond(MANAGER, name) for name in reporting}
    return Person(
        id=stored.id,
        active=stored.active,
        identities=named | calls | frozenset(also),
        groups=people.groups_of(session, stored.id),
        bonds=bonds,
    )


def _seats_of(session: Session, deputy: StoredPerson, grounds: Grounds) -> tuple[Seat, ...]:
    """The seats of those who have let him decide in their place for now; theirs alone, not what they stand in for."""
    seats = []
    for delegation in delegations.in_force_for(session, deputy.id, now=grounds.now):
        absent = people.find_person(session, delegation.person_id)
        if absent is None:
            continue
        person = _person_of(session, absent, grounds)
        if delegation.groups:
            person = replace(person, groups=person.groups & frozenset(delegation.groups), is_by_groups_only=True)
        seats.append(Seat(person, delegation.id, frozenset(delegation.templates)))
    return tuple(seats)


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
    """The first open step in which the decider may speak now, or the rule that speaks most against it.

    He speaks for himself where he may, and otherwise in the place of somebody who is away.
    """
    facts, counted = facts_of(task), board.counted_in(decider.voter)

    def himself(state: StepState, step: Step) -> Eligible | Ineligible:
        is_named = not is_assigned(decider.person, step) and board.names(state, decider.person, decider.grounds)
        return may_decide(facts, decider.person, step=step, counted_in=counted, is_named=is_named)

    own = _first(board, himself)
    if isinstance(own, Eligible) or own.reason not in OPEN_TO_DEPUTIES:
        return own
    refused = [own]
    for seat in decider.seats:

        def in_place(state: StepState, step: Step, seat: Seat = seat) -> Eligible | Ineligible:
            if not seat.is_for(board.part(state.item).own.template_id):
                return Ineligible(NOT_ASSIGNED)
            is_named = not is_assigned(seat.person, step) and board.names(state, seat.person, decider.grounds)
            return may_decide_for(
                facts,
                decider.person,
                seat.person,
                step=step,
                counted_in=counted,
                absent_counted_in=board.counted_in(seat.person.id),
                is_named=is_named,
            )

        found = _first(board, in_place)
        if isinstance(found, Eligible):
            return replace(found, in_place_of=seat.person.id, delegation=seat.delegation)
        refused.append(found)
    return next((each for each in refused if each.reason != NOT_ASSIGNED), own)


def _first(board: Board, judge: Callable[[StepState, Step], Eligible | Ineligible]) -> Eligible | Ineligible:
    worst = Ineligible(NOT_ASSIGNED)
    is_later = False
    for state in board.steps:
        if state.status != "waiting":
            continue
        found = judge(state, board.step(state))
        if isinstance(found, Eligible):
            if state.opened_at is not None:
                return found
            is_later = True
        elif worst.reason == NOT_ASSIGNED:
            worst = found
    return Ineligible(NOT_OPEN) if is_later and worst.reason == NOT_ASSIGNED else worst


def is_named(board: Board, decider: Decider) -> bool:
    """Whether any step of the request names the decider, or somebody whose place he takes."""
    if decider.kind == "resolver":
        return any(voice.kind == "resolver" and voice.name == decider.voter for voice in board.voices)
    own = Seat(decider.person, "", frozenset())
    return any(_is_named(board, seat, decider.grounds) for seat in (own, *decider.seats))


def _is_named(board: Board, seat: Seat, grounds: Grounds | None) -> bool:
    voices = voices_of(seat.person)
    return any(
        voice.name in voices.get(voice.kind, ()) and seat.is_for(board.part(voice.item).own.template_id)
        for voice in board.voices
    ) or any(
        board.names(state, seat.person, grounds) and seat.is_for(board.part(state.item).own.template_id)
        for state in board.steps
    )


def barred(facts: RequestFacts, person: Person) -> str | None:
    """By which rule nobody like him decides what these facts are about, whatever names him; None when none does."""
    own = frozenset({person.id})
    found = may_decide(facts, person, step=Step("any", "Any", people=own, resolvers=own))
    return found.reason if isinstance(found, Ineligible) else None


def barred_from_likes(board: Board, decider: Decider) -> str | None:
    """By which rule the decider may not propose what becomes of later requests like this one; None when he may.

    A step has to name him, or somebody whose place he takes and who is not excluded himself.
    """
    facts = facts_of(board.task)
    if code := barred(facts, decider.person):
        return code
    seats = tuple(seat for seat in decider.seats if barred(facts, seat.person) is None)
    return None if is_named(board, replace(decider, seats=seats)) else NOT_ASSIGNED


def is_served(session: Session, mark: str, facts: RequestFacts) -> bool:
    """Whether he whom the audit names so (`person:…`, `resolver:…`) has a part in what these facts are about.

    He is judged as he is known now. Somebody unknown may have any part, and somebody who has left still has his.
    """
    kind, _, name = mark.partition(":")
    if kind == "resolver":
        return barred(facts, Person(name, active=True, identities=frozenset(), client_id=name)) is not None
    stored = people.find_person(session, name)
    return stored is None or barred(facts, replace(_person_of(session, stored, None), active=True)) is not None


def may_see(caller: Caller, board: Board, decider: Decider) -> bool:
    """Whether the caller may know of a request at all: by his right to read, or because a step names him (ARS-63)."""
    return caller.may(Scope.APPROVAL_READ) or (caller.may(Scope.APPROVAL_RESOLVE) and is_named(board, decider))

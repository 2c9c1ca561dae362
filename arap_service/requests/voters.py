"""Who the caller is as a decider, which requests he may see, and in which step he may speak.

Gathers the facts from the store and asks `domain/reviewers.py`; the rules themselves are there (ARS-115 to ARS-117).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from arap_service.domain.callers import Caller, Scope
from arap_service.domain.policy import Step
from arap_service.domain.reviewers import NOT_ASSIGNED, NOT_OPEN, Eligible, Ineligible, Person, RequestFacts, may_decide
from arap_service.store import people, votes
from arap_service.store.tables import StepState, StepVoice, Task, Vote


@dataclass(frozen=True, slots=True)
class Decider:
    """The caller as somebody who decides: `voter` is what his votes are recorded under."""

    person: Person
    voter: str
    kind: str  # person or resolver

    @property
    def voices(self) -> Mapping[str, Sequence[str]]:
        """By what steps may name him."""
        if self.kind == "resolver":
            return {"resolver": (self.voter,)}
        return {"person": (self.person.id,), "group": tuple(self.person.groups)}

    @property
    def actor(self) -> str:
        """How the audit names him."""
        return f"{self.kind}:{self.voter}"


@dataclass(frozen=True, slots=True)
class Board:
    """The workflow of one request as stored: steps in order, who may speak in them, what was said."""

    steps: tuple[StepState, ...]
    voices: tuple[StepVoice, ...]
    votes: tuple[Vote, ...]

    def of(self, item: int) -> "Board":
        """The part of it that is about one item; 0 for a single request."""
        return Board(
            tuple(step for step in self.steps if step.item == item),
            tuple(voice for voice in self.voices if voice.item == item),
            tuple(vote for vote in self.votes if vote.item == item),
        )

    def counted_in(self, voter: str) -> frozenset[str]:
        """The steps in which `voter` has been counted."""
        return frozenset(vote.step_id for vote in self.votes if vote.voter == voter)

    def step(self, state: StepState) -> Step:
        """A stored step as the rules see it."""
        names: dict[str, set[str]] = {"group": set(), "person": set(), "resolver": set()}
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
        )


def boards_of(session: Session, tasks: Sequence[Task]) -> dict[str, Board]:
    """The workflows of `tasks` as stored, by task id."""
    ids = [task.id for task in tasks]
    steps, voices = votes.steps_of(session, ids), votes.voices_of(session, ids)
    cast = votes.votes_of(session, ids)
    return {
        task_id: Board(
            tuple(step for step in steps if step.task_id == task_id),
            tuple(voice for voice in voices if voice.task_id == task_id),
            tuple(vote for vote in cast if vote.task_id == task_id),
        )
        for task_id in ids
    }


def board_of(session: Session, task: Task) -> Board:
    """The workflow of `task` as stored."""
    return boards_of(session, [task])[task.id]


def decider_of(session: Session, caller: Caller) -> Decider:
    """The caller as a person with everything that is known about him, or as a resolver client."""
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
        return Decider(person, caller.client_id, "resolver")
    own |= {f"{identity.iss}|{identity.sub}" for identity in people.identities_of(session, stored.id)}
    # ARS-116: an enforcement point names its subject by whatever name it knows him by.
    own |= people.logins_of(session, stored.id) | ({stored.email} if stored.email else set())
    if caller.channel == "api":
        own.add(caller.client_id)  # the gated client must not carry a person's answer to its own request (GOV-10)
    person = Person(
        id=stored.id,
        active=stored.active,
        identities=frozenset(own),
        groups=people.groups_of(session, stored.id),
    )
    return Decider(person, stored.id, "person")


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
        found = may_decide(facts_of(task), decider.person, step=board.step(state), counted_in=counted)
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
    return any(voice.name in voices.get(voice.kind, ()) for voice in board.voices)


def may_see(caller: Caller, board: Board, decider: Decider) -> bool:
    """Whether the caller may know of a request at all: by his right to read, or because a step names him (ARS-63)."""
    return caller.may(Scope.APPROVAL_READ) or (caller.may(Scope.APPROVAL_RESOLVE) and is_named(board, decider))

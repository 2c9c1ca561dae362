"""Who is told of an announcement, judged at the moment of telling.

Of what waits for a decision only those hear who may decide at this moment, by the function that judges deciders: never
the requester as a reviewer, never somebody who has voted, nobody once it is decided. Of what became of a request only
a person hears who is certainly the one who asked or in whose name it was asked. Design.md section 7, "Notifications".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.notices import TO_DECIDERS, TO_REQUESTERS, NoticeKind
from arap_service.records import Part
from arap_service.requests.details import why_not
from arap_service.requests.grounds import Grounds, grounds_of
from arap_service.requests.voters import Board, board_of, decider_of
from arap_service.store import delegations, items, notices, operation, people, tasks
from arap_service.store.notice_tables import Announcement
from arap_service.store.people_tables import Person
from arap_service.store.tables import Task

_PLAIN: Final = frozenset({"person", "group", "resolver"})


@dataclass(frozen=True, slots=True)
class Recipient:
    """Somebody who is told, with the groups that he is in."""

    person: Person
    groups: frozenset[str]


def recipients(ctx: Context, session: Session, told: Announcement) -> Sequence[Recipient]:
    """Whom this concerns at this moment."""
    kind = NoticeKind(told.kind)
    task = None if told.task_id is None else tasks.find_task(session, told.task_id)
    if told.task_id is not None and task is None:
        return ()
    if kind in TO_DECIDERS:
        found = () if task is None else _deciders(ctx, session, told, task)
    elif kind in TO_REQUESTERS:
        found = () if task is None else _requesters(session, task)
    else:
        ids = operation.eligible_people(session, groups=told.groups, people=told.people)
        found = tuple(person for person in notices.active_people(session) if person.id in ids)
    own = (told.actor or "").removeprefix("person:")
    return [Recipient(each, people.groups_of(session, each.id)) for each in found if each.id != own]


def _deciders(ctx: Context, session: Session, told: Announcement, task: Task) -> tuple[Person, ...]:
    board, grounds = board_of(session, task), grounds_of(ctx)
    now = grounds.now
    if told.step_id is not None:
        board = replace(board, steps=tuple(step for step in board.steps if step.step_id == told.step_id))
    parts = [Part(task)]
    if task.item_count:
        parts = [Part(task, row) for row in items.items_of(session, [task.id])]
    parts = [part for part in parts if told.item in {0, part.item}]
    if not any(part.own.status == "pending" and now < part.own.pending_until for part in parts):
        return ()
    able = [each for each in _candidates(session, board, grounds) if _may_decide(session, each, parts, board, grounds)]
    chosen = [each for each in able if _is_chosen(session, each, told)]
    # Whoever was meant may be gone by now; then it is for the others.
    return tuple(chosen or able)


def _candidates(session: Session, board: Board, grounds: Grounds) -> Sequence[Person]:
    everybody = notices.active_people(session)
    if any(voice.kind not in _PLAIN for voice in board.voices):
        return everybody
    groups = {voice.name for voice in board.voices if voice.kind == "group"}
    named = {voice.name for voice in board.voices if voice.kind == "person"}
    ids = operation.eligible_people(session, groups=groups, people=named)
    ids |= delegations.deputies_of(session, ids, now=grounds.now)
    return [person for person in everybody if person.id in ids]


def _may_decide(session: Session, person: Person, parts: Sequence[Part], board: Board, grounds: Grounds) -> bool:
    caller = Caller(
        iss="urn:x-arap:notices",
        sub=person.id,
        client_id="desk",
        scopes=frozenset({Scope.APPROVAL_RESOLVE}),
        channel="desk",
        person_id=person.id,
    )
    decider, now = decider_of(session, caller, grounds), grounds.now
    return any(why_not(caller, part, board.of(part.item), decider, now=now) is None for part in parts)


def _is_chosen(session: Session, person: Person, told: Announcement) -> bool:
    if not told.people and not told.groups:
        return True
    return person.id in told.people or not people.groups_of(session, person.id).isdisjoint(told.groups)


def _requesters(session: Session, task: Task) -> tuple[Person, ...]:
    ids = set()
    submitter = people.person_of_identity(session, task.submitter_iss, task.submitter_sub)
    if submitter is not None:
        ids.add(submitter.id)
    called = people.people_called(session, task.subject_id)
    if len(called) == 1:  # a name that several bear could tell a stranger
        ids |= called
    found = (people.find_person(session, person_id) for person_id in sorted(ids))
    return tuple(person for person in found if person is not None and person.active)

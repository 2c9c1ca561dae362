"""Which requests may concern somebody, as a condition that the database can test along the list.

Groups, names and relations are tested there. Whom an expression names is found out here, in one batch for all requests
that wait and were not looked at before, and remembered as long as the rules and what is known of the person stay the
same. It only narrows: whether somebody may decide is judged for each request, and again at the moment of deciding.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, or_
from sqlmodel import Session, col

from arap_service.domain.reviewers import Person
from arap_service.protocol.arap import TaskStatus
from arap_service.records import Part
from arap_service.requests.grounds import Grounds
from arap_service.requests.voters import Decider, Seat
from arap_service.store import items, queueing, tasks
from arap_service.store.tables import Task
from arap_service.views import QueueFilter

_BATCH: Final = 500
Waiting = tuple[str, int, str, str]


def concerning(session: Session, decider: Decider, wanted: QueueFilter, *, now: datetime) -> ColumnElement[bool]:
    """What the database can tell of whether a request concerns the decider; with `mine`, whether he may decide it."""
    if not wanted.mine and wanted.status != TaskStatus.PENDING:
        few = queueing.few_voiced(session, decider.chances)
        return queueing.is_voiced(decider.chances) if few is None else col(Task.id).in_(few)
    plain = {kind: names for kind, names in decider.chances.items() if kind != "anybody"}
    named = _named(session, decider, in_open_steps=wanted.mine, now=now)
    if len(named) > queueing.MOST:  # so many that they are met along the list
        plain = dict(decider.chances)
    voter = decider.voter if wanted.mine else None
    found = queueing.is_voiced(plain, in_open_steps=wanted.mine, unless_voted=voter)
    found = or_(found, col(Task.id).in_(named)) if "anybody" not in plain and named else found
    # Whoever bears exactly the name of who asks is excluded, for himself and in anybody's place.
    own = {decider.person.id, *decider.person.identities}
    return and_(found, queueing.is_not_of(own)) if wanted.mine else found


def _named(session: Session, decider: Decider, *, in_open_steps: bool, now: datetime) -> Sequence[str]:
    """The waiting requests with a step whose expression names the decider, or whose place he takes."""
    grounds = decider.grounds
    if decider.kind != "person" or grounds is None:
        return ()
    seats = (Seat(decider.person, "", frozenset()), *decider.seats)
    waiting = queueing.waiting_expressions(session, now=now, in_open_steps=in_open_steps)
    unknown: dict[str, None] = {}
    known: dict[Waiting, list[bool | None]] = {}
    for each in waiting:
        task_id, item, who, template = each
        known[each] = [
            _remembered(grounds, who, (task_id, item), seat.person) if seat.is_for(template) or item else False
            for seat in seats
        ]
        if None in known[each]:
            unknown[task_id] = None
    parts = _parts(session, list(unknown))
    named: dict[str, None] = {}
    for (task_id, item, who, _), answers in known.items():
        part = parts.get((task_id, item))
        for seat, answer in zip(seats, answers, strict=True):
            if answer or (answer is None and part is not None and grounds.names(who, part, seat.person)):
                named[task_id] = None
                break
    return tuple(named)


def _remembered(grounds: Grounds, who: str, place: tuple[str, int], person: Person) -> bool | None:
    """What `grounds.names` found out before, without a look at the request; None where it has to be asked."""
    if person.is_by_groups_only or grounds.policy.appointing is None:
        return False
    key = (*place, person.id, person.groups, person.identities)
    return grounds.policy.appointing.remembers(who, key=key)


def _parts(session: Session, ids: Sequence[str]) -> dict[tuple[str, int], Part]:
    found: dict[tuple[str, int], Part] = {}
    for start in range(0, len(ids), _BATCH):
        listed = tasks.these(session, ids[start : start + _BATCH])
        rows = items.items_of(session, [task.id for task in listed if task.item_count])
        by_id = {task.id: task for task in listed}
        found |= {(task.id, 0): Part(task) for task in listed}
        found |= {(row.task_id, row.item): Part(by_id[row.task_id], row) for row in rows}
    return found

"""Every statement about what stands beside a request: the last one like it, and who is in the groups of its steps."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, literal_column, or_
from sqlmodel import Session, col, select

from arap_service.store.people import counts
from arap_service.store.people_tables import Account, Identity, Membership, Person
from arap_service.store.tables import Task

# Written out: a partial index fits only what a statement says in so many words.
_APPROVED: Final[ColumnElement[str]] = literal_column("'approved'")


def last_approved(
    session: Session, task: Task, *, resource: tuple[str, str], action: str, before: datetime
) -> Task | None:
    """The newest approved single request of the same subject for the same thing that had ended by `before`."""
    return session.exec(
        select(Task)
        .where(
            Task.subject_id == task.subject_id,
            Task.resource_id == resource[1],
            Task.action_name == action,
            Task.status == _APPROVED,
            col(Task.ended_at) <= before,
            Task.subject_type == task.subject_type,
            Task.resource_type == resource[0],
            col(Task.server).is_not_distinct_from(task.server),
            Task.item_count == 0,
            Task.id != task.id,
        )
        .order_by(col(Task.ended_at).desc())
        .limit(1)
    ).first()


def members_of(
    session: Session, *, groups: Collection[str], people: Collection[str]
) -> Mapping[tuple[str, str], Sequence[str]]:
    """The active people behind each group and name, by kind of voice and name."""
    found: dict[tuple[str, str], list[str]] = {}
    rows = session.exec(
        select(Person.id, Membership.group_name)
        .join(Membership, and_(col(Membership.person_id) == col(Person.id), counts(session)), isouter=True)
        .where(
            col(Person.active).is_(True),
            or_(col(Person.id).in_(tuple(people)), col(Membership.group_name).in_(tuple(groups))),
        )
        .distinct()
    )
    for person_id, group in rows:
        if group in groups:
            found.setdefault(("group", group), []).append(person_id)
        if person_id in people:
            found.setdefault(("person", person_id), [person_id])
    return found


def marks_of(session: Session, person_ids: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Every name by which an enforcement point may mean these people, by person."""
    ids = tuple(person_ids)
    found: dict[str, set[str]] = {person_id: set() for person_id in ids}
    for person_id, email in session.exec(select(Person.id, Person.email).where(col(Person.id).in_(ids))):
        found[person_id] |= {email} if email else set()
    for person_id, login in session.exec(
        select(Account.person_id, Account.login).where(col(Account.person_id).in_(ids))
    ):
        found[person_id].add(login)
    for identity in session.exec(select(Identity).where(col(Identity.person_id).in_(ids))):
        found[identity.person_id].add(f"{identity.iss}|{identity.sub}")
    return {person_id: frozenset(marks) for person_id, marks in found.items()}

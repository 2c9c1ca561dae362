"""Every statement about people: who somebody is, wherever he appears, and what groups he is in."""

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, or_
from sqlmodel import Session, col, select

from arap_service.store.database import GROUP_SOURCES
from arap_service.store.directory import LOCAL
from arap_service.store.people_tables import Account, Identity, Manager, Membership, Person


def find_person(session: Session, person_id: str) -> Person | None:
    """The person with this id, active or not."""
    return session.get(Person, person_id)


def everybody(session: Session) -> Sequence[Person]:
    """All people, active or not, by id."""
    return session.exec(select(Person).order_by(col(Person.id))).all()


def person_of_identity(session: Session, iss: str, sub: str, *, for_update: bool = False) -> Person | None:
    """The person who appears as this principal; `for_update` holds him until the transaction ends."""
    found = (
        select(Person)
        .join(Identity, col(Identity.person_id) == col(Person.id))
        .where(Identity.iss == iss, Identity.sub == sub)
    )
    return session.exec(found.with_for_update(of=Person) if for_update else found).first()


def people_called(session: Session, name: str) -> frozenset[str]:
    """The ids of all whom an enforcement point may mean by `name`: an identity, in full or bare, account or address."""
    found = session.exec(
        select(Person.id)
        .join(Identity, col(Identity.person_id) == col(Person.id), isouter=True)
        .join(Account, col(Account.person_id) == col(Person.id), isouter=True)
        .where(
            or_(
                col(Person.id) == name,
                col(Person.email) == name,
                col(Account.login) == name,
                col(Identity.sub) == name,
                col(Identity.iss) + "|" + col(Identity.sub) == name,
            )
        )
    )
    return frozenset(found)


def identities_of(session: Session, person_id: str) -> Sequence[Identity]:
    """Every principal that the person appears as."""
    return session.exec(select(Identity).where(Identity.person_id == person_id)).all()


def logins_of(session: Session, person_id: str) -> frozenset[str]:
    """The names of the person's local accounts."""
    return frozenset(session.exec(select(Account.login).where(Account.person_id == person_id)))


def groups_of(session: Session, person_id: str) -> frozenset[str]:
    """The groups that the person is in now."""
    return frozenset(
        session.exec(select(Membership.group_name).where(Membership.person_id == person_id, counts(session)))
    )


def counts(session: Session) -> ColumnElement[bool]:
    """The condition that a membership rests on somebody whose word counts as things are configured now."""
    return col(Membership.source).in_((LOCAL, *sorted(session.info.get(GROUP_SOURCES, ()))))


def groups_said(session: Session, person_id: str, *, by: str) -> frozenset[str]:
    """The groups that the person is in as one source says."""
    found = select(Membership.group_name).where(Membership.person_id == person_id, Membership.source == by)
    return frozenset(session.exec(found))


def names_of(session: Session, person_ids: Collection[str]) -> dict[str, str]:
    """The names of these people; who is no longer known is left out."""
    found = session.exec(select(Person.id, Person.name).where(col(Person.id).in_(tuple(person_ids))))
    return dict(found.all())


def manager_of(session: Session, person_id: str) -> str | None:
    """The id of who the person reports to."""
    found = session.get(Manager, person_id)
    return None if found is None else found.manager_id

"""Every statement about who there is and who belongs where, for those who look that up."""

from collections.abc import Collection, Sequence

from sqlalchemy import func, or_
from sqlmodel import Session, col, select

from arap_service.store.people import counts
from arap_service.store.people_tables import Account, Identity, Membership, Person


def people_page(
    session: Session, *, q: str | None, group: str | None, after: tuple[str, str] | None, limit: int
) -> Sequence[Person]:
    """At most `limit` people by name, after a place in that order; `q` is part of a name, an id or an address."""
    name, key = col(Person.name), col(Person.id)
    found = select(Person)
    if q:
        parts = (name, key, col(Person.email))
        found = found.where(or_(*(part.icontains(q, autoescape=True) for part in parts)))
    if group is not None:
        inside = select(Membership.person_id).where(Membership.group_name == group, counts(session))
        found = found.where(key.in_(inside))
    if after is not None:
        found = found.where(or_(name > after[0], (name == after[0]) & (key > after[1])))
    return session.exec(found.order_by(name, key).limit(limit)).all()


def memberships_of(session: Session, people: Collection[str]) -> Sequence[Membership]:
    """The groups of these people, with who says so."""
    found = select(Membership).where(col(Membership.person_id).in_(tuple(people)), counts(session))
    return session.exec(found.order_by(col(Membership.group_name), col(Membership.source))).all()


def identities_of_all(session: Session, people: Collection[str]) -> Sequence[Identity]:
    """The principals that these people appear as."""
    found = select(Identity).where(col(Identity.person_id).in_(tuple(people)))
    return session.exec(found.order_by(col(Identity.iss), col(Identity.sub))).all()


def accounts_of_all(session: Session, people: Collection[str]) -> Sequence[Account]:
    """The local accounts of these people."""
    found = select(Account).where(col(Account.person_id).in_(tuple(people)))
    return session.exec(found.order_by(col(Account.login))).all()


def group_sizes(session: Session) -> Sequence[tuple[str, int]]:
    """Every group with the number of active people in it, by name."""
    counted = (
        select(col(Membership.group_name), func.count(func.distinct(col(Membership.person_id))))
        .join(Person, col(Person.id) == col(Membership.person_id))
        .where(col(Person.active).is_(True), counts(session))
        .group_by(col(Membership.group_name))
        .order_by(col(Membership.group_name))
    )
    return [(name, count) for name, count in session.exec(counted)]

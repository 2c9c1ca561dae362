"""Every statement that changes who people are: what an administrator brings in from a file or the command line."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from sqlmodel import col, delete

from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account, Identity, Manager, Membership, Person, WebSession
from arap_service.store.rows import inserting

LOCAL: Final = "local"
"""The source of groups that an administrator brings in; any other is an issuer, as it was configured then."""


def put_person(
    session: WriteSession, person_id: str, *, name: str, email: str | None, active: bool, now: datetime
) -> None:
    """Add the person or bring what is known of him up to date; an inactive one loses his sessions."""
    person = session.get(Person, person_id) or Person(id=person_id, name=name, created_at=now)
    person.name, person.email, person.active = name, email, active
    session.add(person)
    session.flush()
    if not active:
        session.execute(delete(WebSession).where(col(WebSession.person_id) == person_id))


def put_groups(session: WriteSession, person_id: str, groups: Collection[str], *, source: str = LOCAL) -> None:
    """Make `groups` those that the person is in as `source` says; what others say of him stays."""
    session.execute(delete(Membership).where(col(Membership.person_id) == person_id, col(Membership.source) == source))
    session.add_all(
        Membership(person_id=person_id, group_name=group, source=source) for group in sorted(frozenset(groups))
    )


def owner_of_identity(session: WriteSession, iss: str, sub: str) -> str | None:
    """The id of the person who has this identity."""
    identity = session.get(Identity, (iss, sub))
    return None if identity is None else identity.person_id


def add_identity(session: WriteSession, person_id: str, *, iss: str, sub: str) -> None:
    """Say that this principal is the person."""
    session.add(Identity(iss=iss, sub=sub, person_id=person_id))


def add_person_once(session: WriteSession, person_id: str, *, name: str, email: str | None, now: datetime) -> bool:
    """Add an active person unless there is one of that id, be it since this very moment; whether this did it."""
    row = {"id": person_id, "name": name, "email": email, "active": True, "created_at": now}
    made = inserting(session, Person).values(**row).on_conflict_do_nothing(index_elements=["id"])
    return session.execute(made.returning(col(Person.id))).first() is not None


def drop_groups_but(session: WriteSession, person_id: str, *, sources: Collection[str]) -> None:
    """Forget what anybody but `sources` and the administrators has said of the person's groups."""
    kept = (LOCAL, *sorted(sources))
    session.execute(
        delete(Membership).where(col(Membership.person_id) == person_id, col(Membership.source).not_in(kept))
    )


def remove_identity(session: WriteSession, *, iss: str, sub: str) -> None:
    """Say that this principal is nobody any more, and end the browser sessions that it logged in."""
    session.execute(delete(Identity).where(col(Identity.iss) == iss, col(Identity.sub) == sub))
    session.execute(delete(WebSession).where(col(WebSession.iss) == iss, col(WebSession.sub) == sub))


def put_manager(session: WriteSession, person_id: str, manager_id: str | None) -> None:
    """Say who the person reports to, or that he reports to nobody."""
    session.execute(delete(Manager).where(col(Manager.person_id) == person_id))
    if manager_id is not None:
        session.add(Manager(person_id=person_id, manager_id=manager_id))


def find_account(session: WriteSession, login: str) -> Account | None:
    """The local account with this name."""
    return session.get(Account, login)


def put_account(
    session: WriteSession,
    login: str,
    *,
    person_id: str,
    password_hash: str,
    first_until: datetime | None,
    now: datetime,
) -> None:
    """Add the account or give it another password, which ends its person's sessions.

    With `first_until` its owner has to replace the password, by then.
    """
    account = session.get(Account, login) or Account(
        login=login, person_id=person_id, password_hash=password_hash, created_at=now, changed_at=now
    )
    account.password_hash, account.changed_at, account.active = password_hash, now, True
    account.first_until = first_until
    session.add(account)
    session.execute(delete(WebSession).where(col(WebSession.person_id) == person_id))

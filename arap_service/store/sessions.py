"""Every statement about local accounts and the browser sessions of the desk."""

from datetime import datetime

from sqlalchemy import delete, or_, update
from sqlmodel import Session, col, select

from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account, Person, WebSession


def account_by_login(session: Session, login: str) -> Account | None:
    """The account of that name, active or not."""
    return session.get(Account, login)


def active_person(session: Session, person_id: str) -> Person | None:
    """The person, unless there is none or it has been deactivated."""
    person = session.get(Person, person_id)
    return person if person is not None and person.active else None


def replace_password_hash(session: WriteSession, login: str, *, old: str, new: str) -> None:
    """Store the same password under stronger parameters, unless it was changed in the meantime."""
    session.execute(
        update(Account).where(col(Account.login) == login, col(Account.password_hash) == old).values(password_hash=new)
    )


def web_session(session: Session, digest: str) -> tuple[WebSession, Person] | None:
    """The browser session under that digest with its active person; the caller judges whether it is fresh."""
    row = session.exec(
        select(WebSession, Person)
        .join(Person, col(Person.id) == col(WebSession.person_id))
        .where(col(WebSession.digest) == digest, col(Person.active))
    ).first()
    return None if row is None else (row[0], row[1])


def touch_web_session(session: WriteSession, digest: str, *, at: datetime) -> None:
    """Remember that the session was used; time never runs backwards."""
    session.execute(
        update(WebSession).where(col(WebSession.digest) == digest, col(WebSession.seen_at) < at).values(seen_at=at)
    )


def remove_web_session(session: WriteSession, digest: str) -> None:
    """End one session."""
    session.execute(delete(WebSession).where(col(WebSession.digest) == digest))


def remove_stale_web_sessions(session: WriteSession, *, now: datetime, idle_since: datetime) -> None:
    """Drop every session that has run out or has not been used since `idle_since`."""
    session.execute(
        delete(WebSession).where(or_(col(WebSession.expires_at) <= now, col(WebSession.seen_at) <= idle_since))
    )

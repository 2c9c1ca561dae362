"""Every statement about local accounts, the browser sessions of the desk, and the ways in and out of them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, or_, update
from sqlmodel import Session, col, select

from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account, LoginAttempt, Person, SpentLogout, WebSession
from arap_service.store.rows import inserting


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


def change_password_hash(session: WriteSession, login: str, *, old: str, new: str, now: datetime) -> bool:
    """Give an open account a password of its owner's own for the one behind `old`; whether that still counted."""
    changed = (
        update(Account)
        .where(col(Account.login) == login, col(Account.password_hash) == old, col(Account.active))
        .values(password_hash=new, changed_at=now, first_until=None)
    )
    return session.execute(changed.returning(col(Account.login))).first() is not None


def hold_account(session: WriteSession, login: str, *, password_hash: str) -> bool:
    """Whether the account is open and has this password; nobody gives it another one until the transaction ends."""
    found = select(Account.login).where(
        col(Account.login) == login, col(Account.password_hash) == password_hash, col(Account.active)
    )
    return session.exec(found.with_for_update(read=True)).first() is not None


def web_session(session: Session, digest: str) -> tuple[WebSession, Person] | None:
    """The browser session under that digest with its active person; the caller judges whether it is fresh."""
    row = session.exec(
        select(WebSession, Person)
        .join(Person, col(Person.id) == col(WebSession.person_id))
        .where(col(WebSession.digest) == digest, col(Person.active))
    ).first()
    return None if row is None else (row[0], row[1])


def web_sessions_of(session: Session, person_id: str) -> Sequence[WebSession]:
    """All browser sessions of a person, the last used first."""
    found = select(WebSession).where(WebSession.person_id == person_id)
    return session.exec(found.order_by(col(WebSession.seen_at).desc(), col(WebSession.digest))).all()


def touch_web_session(session: WriteSession, digest: str, *, at: datetime) -> None:
    """Remember that the session was used; time never runs backwards."""
    session.execute(
        update(WebSession).where(col(WebSession.digest) == digest, col(WebSession.seen_at) < at).values(seen_at=at)
    )


def keep_typed(session: WriteSession, digest: str, sealed: bytes | None) -> None:
    """Keep what was typed into a form of this session, in the place of what was kept before."""
    session.execute(update(WebSession).where(col(WebSession.digest) == digest).values(typed_sealed=sealed))


def remove_web_session(session: WriteSession, digest: str) -> None:
    """End one session."""
    session.execute(delete(WebSession).where(col(WebSession.digest) == digest))


def remove_web_sessions_of(session: WriteSession, person_id: str, *, but: str | None = None) -> int:
    """End all sessions of a person, or all but one; how many there were."""
    found = delete(WebSession).where(col(WebSession.person_id) == person_id)
    ended = found if but is None else found.where(col(WebSession.digest) != but)
    return len(session.execute(ended.returning(col(WebSession.digest))).all())


def remove_web_sessions_of_provider(
    session: WriteSession, *, iss: str, sub: str | None, sid: str | None
) -> Sequence[str]:
    """End what the provider says has ended: its session `sid`, or all of `sub`; whose sessions that were."""
    ended = delete(WebSession).where(col(WebSession.iss) == iss, col(WebSession.method) == "provider")
    if sid is not None:
        ended = ended.where(col(WebSession.provider_sid) == sid)
    if sub is not None:
        ended = ended.where(col(WebSession.provider_sub) == sub)
    return session.execute(ended.returning(col(WebSession.person_id))).scalars().all()


def remove_stale_web_sessions(session: WriteSession, *, now: datetime, idle_since: datetime) -> None:
    """Drop every session that has run out or has not been used since `idle_since`."""
    session.execute(
        delete(WebSession).where(or_(col(WebSession.expires_at) <= now, col(WebSession.seen_at) <= idle_since))
    )


def begin_attempt(session: WriteSession, attempt: LoginAttempt, *, now: datetime) -> None:
    """Remember that somebody was sent to the provider, and forget those who never came back."""
    session.execute(delete(LoginAttempt).where(col(LoginAttempt.expires_at) <= now))
    session.add(attempt)


def take_attempt(session: WriteSession, state_digest: str, *, browser_digests: Sequence[str]) -> LoginAttempt | None:
    """The attempt that this browser made under that state; it is gone with this, so it counts once."""
    columns = (
        col(LoginAttempt.state_digest),
        col(LoginAttempt.browser_digest),
        col(LoginAttempt.target),
        col(LoginAttempt.person_id),
        col(LoginAttempt.started_at),
        col(LoginAttempt.expires_at),
    )
    row = session.execute(
        delete(LoginAttempt)
        .where(
            col(LoginAttempt.state_digest) == state_digest, col(LoginAttempt.browser_digest).in_(tuple(browser_digests))
        )
        .returning(*columns)
    ).first()
    return None if row is None else LoginAttempt(**row._mapping)  # noqa: SLF001 - its public name in SQLAlchemy


def spend_logout(session: WriteSession, digest: str, *, until: datetime, now: datetime) -> bool:
    """Whether this word of the provider is new; from now on it is not."""
    session.execute(delete(SpentLogout).where(col(SpentLogout.expires_at) <= now))
    made = inserting(session, SpentLogout).values(digest=digest, expires_at=until).on_conflict_do_nothing()
    return session.execute(made.returning(col(SpentLogout.digest))).first() is not None

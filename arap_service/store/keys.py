"""Every statement about signing keys."""

from collections.abc import Sequence

from sqlalchemy import text
from sqlmodel import Session, col, select

from arap_service.store.database import WriteSession
from arap_service.store.tables import SigningKey


def lock_signing_keys(session: WriteSession) -> None:
    """Keep other instances from adding keys until this unit of work ends; on SQLite it already is the only writer."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("LOCK TABLE signing_key IN SHARE ROW EXCLUSIVE MODE"))


def stored_signing_keys(session: Session) -> Sequence[SigningKey]:
    """All signing keys, the oldest first."""
    return session.exec(select(SigningKey).order_by(col(SigningKey.active_from), col(SigningKey.kid))).all()

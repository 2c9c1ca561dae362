"""Decisions under an idempotency key: the same decision sent twice counts once and is answered twice.

The key is written in the transaction that counts the vote, so a lost answer can always be asked for again. Keys belong
to the caller; one that was used for another decision is refused. See design.md section 6.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlmodel import Session

from arap_service.domain.callers import Caller
from arap_service.domain.errors import DuplicateRequest
from arap_service.protocol.canonical import digest
from arap_service.requests.intake import read_key
from arap_service.store import tasks
from arap_service.store.database import WriteSession
from arap_service.store.tables import IdempotencyKey

_KEEP: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Once:
    """One decision that a caller wants to count once: under which key, and what it says."""

    owner: str
    key: str
    fingerprint: str

    def is_done(self, session: Session) -> bool:
        """Whether it has been counted before.

        Raises:
            DuplicateRequest: The key was used for another one.
        """
        stored = tasks.find_key(session, self.owner, self.key)
        if stored is not None and stored.body_digest != self.fingerprint:
            raise DuplicateRequest
        return stored is not None

    def remember(self, session: WriteSession, task_id: str, *, now: datetime) -> None:
        """Note in this transaction that it has been counted."""
        session.add(
            IdempotencyKey(
                caller=self.owner,
                key=self.key,
                body_digest=self.fingerprint,
                task_id=task_id,
                status_code=200,
                created_at=now,
                keep_until=now + _KEEP,
            )
        )


def once(caller: Caller, header: str | None, said: dict[str, Any]) -> Once | None:
    """What the Idempotency-Key in `header` makes of a decision that says `said`; None without a header.

    Raises:
        InvalidRequest: The header is no key.
    """
    key = read_key(header)
    return None if key is None else Once(caller.owner_of("decide"), key, digest(said))

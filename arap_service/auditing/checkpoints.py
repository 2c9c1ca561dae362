"""Signs checkpoints: what the log holds up to a place, as the root of a Merkle tree, in a JWS of its own type.

Every chain's head has a place, so a checkpoint covers all heads: whoever afterwards changes an entry, cuts off a tail
or removes a whole chain contradicts it. One instance signs for all, by a lease; should two do so at once, the second
one's number is taken. Keys are those that sign denials. See design.md section 5, RFC 6962 section 2.1, RFC 7515.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from arap_service.auditing.places import leaf, place_entries
from arap_service.context import Context
from arap_service.domain.merkle import Tree
from arap_service.keys import CHECKPOINT_TYP, Clock, Keys, Use
from arap_service.store import log
from arap_service.store.database import Database, WriteSession
from arap_service.store.log_tables import AuditCheckpoint

CHECKPOINTS: Final = "checkpoints"
"""Topic that is rung when a checkpoint was signed."""
LEASE: Final = "audit-checkpoints"
LEASE_FOR: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notary:
    """What signing a checkpoint takes; `issuer` is the identifier of the service."""

    database: Database
    keys: Keys
    issuer: str
    clock: Clock

    async def sign(self) -> AuditCheckpoint | None:
        """Place what has no place and sign over the whole log; the newest checkpoint, None for an empty log.

        Raises:
            StoreUnavailable: The database is locked or cannot be reached; the next call goes on from there.
        """
        await place_entries(self.database)
        while True:
            last, size = await self.database.read(_standing)
            if last is not None and last.size >= size:
                return last
            if size == 0:
                return None
            tree = await self._grown(last, size)
            made = self._signed(tree, number=1 if last is None else last.number + 1)
            try:
                return await self.database.write(_adding(made))
            except IntegrityError:
                continue  # another instance signed meanwhile

    async def _grown(self, last: AuditCheckpoint | None, size: int) -> Tree:
        tree = Tree() if last is None else Tree(last.size, tuple(map(bytes.fromhex, last.peaks.split())))
        while tree.size < size:
            after = tree.size
            found = await self.database.read(partial(log.leaves, after=after, until=size, limit=log.BATCH))
            expected = range(after + 1, min(after + log.BATCH, size) + 1)
            missing = set(expected) - {place.position for place in found}
            if missing:
                raise LogBroken(min(missing))
            tree = tree.grown(leaf(place) for place in found)
        return tree

    def _signed(self, tree: Tree, *, number: int) -> AuditCheckpoint:
        now = self.clock().replace(microsecond=0)
        claims = {
            "iss": self.issuer,
            "iat": int(now.timestamp()),
            "number": number,
            "size": tree.size,
            "root": tree.root.hex(),
        }
        return AuditCheckpoint(
            number=number,
            at=now,
            size=tree.size,
            root=tree.root.hex(),
            peaks=" ".join(peak.hex() for peak in tree.peaks),
            signature=self.keys.sign(Use.BINDING, claims, CHECKPOINT_TYP),
        )


def notary_of(ctx: Context) -> Notary:
    """Who signs for the service on `ctx`."""
    return Notary(database=ctx.database, keys=ctx.keys, issuer=ctx.settings.identifier, clock=ctx.clock)


class LogBroken(Exception):
    """A place of the log is missing, so nothing may be signed over it; `arap audit verify` tells more."""

    def __init__(self, position: int) -> None:
        super().__init__(f"audit: place {position} of the log is missing; run `arap audit verify`")
        self.position = position


class Checkpointer:
    """Signs for all instances while it holds the lease."""

    def __init__(self, notary: Notary, *, owner: str) -> None:
        self._notary = notary
        self._owner = owner

    async def round(self) -> AuditCheckpoint | None:
        """Sign if this instance holds the lease now; the newest checkpoint, None if another one holds it."""
        now = self._notary.clock()

        def work(session: WriteSession) -> bool:
            return log.take_lease(session, LEASE, owner=self._owner, now=now, until=now + LEASE_FOR)

        return await self._notary.sign() if await self._notary.database.write(work) else None


def _standing(session: Session) -> tuple[AuditCheckpoint | None, int]:
    return log.last_checkpoint(session), log.last_position(session)


def _adding(made: AuditCheckpoint) -> Callable[[WriteSession], AuditCheckpoint]:
    def work(session: WriteSession) -> AuditCheckpoint:
        session.add(made)
        session.flush()
        session.on_commit(CHECKPOINTS)
        return made

    return work

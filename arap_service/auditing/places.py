"""Gives every audit entry its place in the one log over all chains.

Appending to a chain waits for nobody else, so an entry has no place at first. Whoever needs the order (a checkpoint,
a stream of events, an export) gives places to what has none yet, one at a time. Entries of one chain keep their order;
those of different chains are put by their time, as far as they are placed together.
"""

from collections.abc import Sequence
from datetime import datetime

from arap_service.protocol.canonical import canonical
from arap_service.store import log
from arap_service.store.database import Database, WriteSession
from arap_service.store.log_tables import AuditPlace
from arap_service.store.tables import AuditEntry


async def place_entries(database: Database) -> int:
    """Give places to all entries that have none; how many got one here.

    Raises:
        StoreUnavailable: The database is locked or cannot be reached.
    """
    count = 0
    while await database.read(log.has_open_heads):
        placed = await database.write(place_some)
        count += placed
        if not placed:
            break  # all that is left is being appended to
    return count


def place_some(session: WriteSession) -> int:
    """Give places to at most `log.BATCH` entries; how many got one."""
    log.hold_log(session)
    heads = log.open_heads(session, limit=log.BATCH)
    entries = log.unplaced(session, heads, limit=log.BATCH)
    position = log.last_position(session)
    for number, entry in enumerate(_in_order(entries), start=position + 1):
        session.add(AuditPlace(position=number, chain=entry.chain, seq=entry.seq, hash=entry.hash))
    placed = {entry.chain: entry.seq for entry in entries}
    for head in heads:
        head.placed = placed.get(head.chain, head.placed)
    return len(entries)


def leaf(place: AuditPlace) -> bytes:
    """The data of a place's leaf in the Merkle tree."""
    return canonical({"chain": place.chain, "hash": place.hash, "seq": place.seq})


def _in_order(entries: Sequence[AuditEntry]) -> list[AuditEntry]:
    """By time, but never before an earlier entry of the same chain, whatever the clock did."""
    latest: dict[str, datetime] = {}
    timed: list[tuple[datetime, str, int, AuditEntry]] = []
    for entry in entries:
        at = latest[entry.chain] = max(entry.at, latest.get(entry.chain, entry.at))
        timed.append((at, entry.chain, entry.seq, entry))
    return [entry for *_, entry in sorted(timed, key=lambda each: each[:3])]

"""Verifies the log in the database: everything that `verification` asks of a log, and what no place shows.

That is: entries that have no place yet, heads that say more or something else than their chains, chains without a head,
and entries that no head knows of. One snapshot is read, so that a service may go on appending meanwhile.
"""

from collections.abc import Callable, Iterator

from sqlmodel import Session

from arap_service.auditing.verification import Report, Signed, Verifier
from arap_service.keys import CHECKPOINT_TYP, TokenInvalid, TrustedIssuers, verify
from arap_service.store import log
from arap_service.store.log_tables import AuditCheckpoint
from arap_service.store.tables import AuditHead

Progress = Callable[[int], None]
_STRAYS = 20


def read_with(issuers: TrustedIssuers) -> Callable[[str], dict[str, object] | None]:
    """How the signatures of checkpoints are read when these issuers are trusted."""

    def read(signature: str) -> dict[str, object] | None:
        try:
            return dict(verify(signature, typ=CHECKPOINT_TYP, issuers=issuers))
        except TokenInvalid:
            return None

    return read


def verify_stored(session: Session, verifier: Verifier, *, progress: Progress = lambda _: None) -> Report:
    """Everything that is wrong with the stored log; `progress` hears how many places were done since it last did."""
    _places(session, verifier, progress)
    with_heads = set()
    for head in _heads(session):
        with_heads.add(head.chain)
        length = verifier.length_of(head.chain)
        if head.seq > length:
            for entry in log.entries_of_chain(session, head.chain, after=length, limit=head.seq - length):
                verifier.tail(entry)
        verifier.head(head.chain, seq=head.seq, hash_=head.hash)
    headless = set(verifier.chains) - with_heads
    for chain in sorted(headless):
        verifier.fault(f"chain {chain}: its head is missing")
    for chain, seq in log.stray_entries(session, limit=_STRAYS):
        if chain not in headless:
            verifier.fault(f"chain {chain}: entry {seq} is none that the chain's head knows of")
    return verifier.report()


def signed(row: AuditCheckpoint) -> Signed:
    """A stored checkpoint as it is verified."""
    return Signed(number=row.number, at=row.at, size=row.size, root=row.root, signature=row.signature)


def _places(session: Session, verifier: Verifier, progress: Progress) -> None:
    checkpoints = log.checkpoints(session)
    pending = next(checkpoints, None)
    position, until = 0, log.last_position(session)
    while found := log.placed_entries(session, after=position, until=until, limit=log.BATCH):
        for place, entry in found:
            verifier.placed(place, entry)
            while pending is not None and pending.size <= verifier.size:
                verifier.checkpoint(signed(pending))
                pending = next(checkpoints, None)
        position = found[-1][0].position
        progress(len(found))
    while pending is not None:
        verifier.checkpoint(signed(pending))
        pending = next(checkpoints, None)


def _heads(session: Session) -> Iterator[AuditHead]:
    after = ""
    while found := log.heads(session, after=after, limit=log.BATCH):
        yield from found
        after = found[-1].chain

"""The audit log: append-only chains of hashes, one for each request and one each for logins, configuration and keys.

Whoever changes, removes or inserts an entry breaks its chain; whoever cuts off a tail leaves a head that says so.
Entries hold ids, codes and hashes; what people and tools said stays out, because a chain outlives the request.
Their order among each other and checkpoints over all heads are made in `auditing`. See design.md section 5.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import JsonValue
from sqlalchemy import and_, func, or_, update
from sqlmodel import Session, col, select

from arap_service.protocol.arap import format_instant
from arap_service.protocol.canonical import canonical
from arap_service.store.database import WriteSession
from arap_service.store.rows import add_rows, inserting
from arap_service.store.tables import AuditEntry, AuditHead

GENESIS: Final = "0" * 64
_SUBMITTED: Final = frozenset({"task_submitted", "item_submitted"})
_LINKED: Final = ("chain", "seq", "at", "kind", "actor", "evaluation_id", "detail", "previous")


@dataclass(frozen=True, slots=True)
class Verified:
    """Every link holds; `length` entries were checked and the last one has `head` as its hash."""

    length: int
    head: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The chain is broken: `seq` is the number of the first entry that is altered, missing or foreign."""

    seq: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry stands among those of several chains: by time, then chain, then number."""

    at: datetime
    chain: str
    seq: int


def append(
    session: WriteSession,
    chain: str,
    *,
    kind: str,
    actor: str,
    detail: Mapping[str, JsonValue],
    now: datetime,
    evaluation_id: str | None = None,
    opens_chain: bool = False,
) -> None:
    """Add one entry to `chain` within the caller's transaction; concurrent appends to one chain wait for each other.

    `detail` holds no token, argument, justification or key; its numbers are plain integers. `opens_chain` spares the
    look for earlier entries where the chain's name has just been made.
    """
    session.flush()
    seq, previous = (1, GENESIS) if opens_chain else _next_place(session, chain)
    entry = {
        "chain": chain,
        "seq": seq,
        "at": now.replace(microsecond=0),
        "kind": kind,
        "actor": actor,
        "evaluation_id": evaluation_id,
        "detail": canonical(dict(detail)).decode(),
        "previous": previous,
    }
    entry["hash"] = _hash(entry)
    add_rows(session, AuditEntry, [entry])
    if opens_chain:
        add_rows(session, AuditHead, [{"chain": chain, "seq": seq, "hash": entry["hash"]}])
    else:
        session.execute(update(AuditHead).where(col(AuditHead.chain) == chain).values(hash=entry["hash"]))


def link(entry: AuditEntry) -> str:
    """The hash that `entry` must have: SHA-256 in hex over the canonical form of all its other columns."""
    return _hash({name: getattr(entry, name) for name in _LINKED})


def verify(entries: Iterable[AuditEntry], *, head: AuditHead | None = None) -> Verified | Broken:
    """Whether `entries`, a whole chain in order, are what was appended; with `head` also that no tail is missing."""
    previous, seq = GENESIS, 0
    for entry in entries:
        seq += 1
        if entry.seq != seq or entry.previous != previous or entry.hash != link(entry):
            return Broken(seq)
        previous = entry.hash
    if head is not None and (head.seq, head.hash) != (seq, previous):
        return Broken(seq + 1)
    return Verified(seq, previous)


def verify_chain(session: Session, chain: str) -> Verified | Broken:
    """Whether the stored `chain` is whole."""
    head = session.get(AuditHead, chain)
    if head is None:
        return Broken(1)
    return verify(entries_of(session, chain), head=head)


def entries_of(session: Session, chain: str) -> list[AuditEntry]:
    """All entries of `chain`, oldest first."""
    return list(session.exec(select(AuditEntry).where(AuditEntry.chain == chain).order_by(col(AuditEntry.seq))))


def last_entry(session: Session, chain: str, *, kind: str) -> AuditEntry | None:
    """The newest entry of `chain` that is of this kind."""
    found = select(AuditEntry).where(AuditEntry.chain == chain, AuditEntry.kind == kind)
    return session.exec(found.order_by(col(AuditEntry.seq).desc()).limit(1)).first()


def chains_of_evaluation(session: Session, evaluation_id: str, *, own: str) -> dict[str, frozenset[str]]:
    """The chains that mention `evaluation_id`, by the decision point that has given an evaluation that id.

    Several may have given the same. What names no other is of `own`, which is this service's.
    """
    found = select(AuditEntry).where(AuditEntry.evaluation_id == evaluation_id)
    issuers: dict[str, set[str]] = {}
    for entry in session.exec(found).all():
        said = issuers.setdefault(entry.chain, set())
        if entry.kind in _SUBMITTED:
            said.add(json.loads(entry.detail).get("denial", {}).get("iss") or own)
    chains: dict[str, set[str]] = {}
    for chain, said in issuers.items():
        for issuer in said or {own}:
            chains.setdefault(issuer, set()).add(chain)
    return {issuer: frozenset(names) for issuer, names in sorted(chains.items())}


def entries_of_evaluation(
    session: Session,
    evaluation_id: str,
    *,
    chains: Collection[str] | None = None,
    after: Place | None = None,
    limit: int | None = None,
) -> list[AuditEntry]:
    """All of every chain that mentions `evaluation_id`, oldest first: denial, request, votes, approval, execution.

    With `chains` only what is in one of these, with `after` what follows that place, with `limit` no more than that.
    """
    mentioned = select(AuditEntry.chain).where(AuditEntry.evaluation_id == evaluation_id).distinct()
    at, chain, seq = col(AuditEntry.at), col(AuditEntry.chain), col(AuditEntry.seq)
    found = select(AuditEntry).where(chain.in_(mentioned if chains is None else sorted(chains)))
    if after is not None:
        later = or_(chain > after.chain, and_(chain == after.chain, seq > after.seq))
        found = found.where(or_(at > after.at, and_(at == after.at, later)))
    return list(session.exec(found.order_by(at, chain, seq).limit(limit)))


def chains(session: Session) -> list[str]:
    """The names of all chains that have entries, or should have."""
    heads = select(AuditHead.chain).union(select(AuditEntry.chain))
    return [name for (name,) in session.execute(heads.order_by("chain"))]


def count(session: Session) -> int:
    """How many entries there are in all chains."""
    return int(session.execute(select(func.count()).select_from(AuditEntry)).scalar_one())


def as_json(entry: AuditEntry) -> dict[str, JsonValue]:
    """An entry as a JSON object."""
    return {
        "chain": entry.chain,
        "seq": entry.seq,
        "at": format_instant(entry.at),
        "kind": entry.kind,
        "actor": entry.actor,
        "evaluation_id": entry.evaluation_id,
        "detail": json.loads(entry.detail),
        "previous": entry.previous,
        "hash": entry.hash,
    }


def _hash(columns: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical({**columns, "at": format_instant(columns["at"])})).hexdigest()


def _next_place(session: WriteSession, chain: str) -> tuple[int, str]:
    """The number and the previous hash of the next entry; holds the chain's head until the transaction ends."""
    statement = inserting(session, AuditHead).values(chain=chain, seq=1, hash=GENESIS)
    placed = session.execute(
        statement.on_conflict_do_update(index_elements=["chain"], set_={"seq": col(AuditHead.seq) + 1}).returning(
            col(AuditHead.seq), col(AuditHead.hash)
        )
    ).one()
    return placed[0], placed[1]

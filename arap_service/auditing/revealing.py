"""Opens what was sealed about an entry of the log, for an export that was asked to reveal it.

Only what is still kept can be opened: retention removes rows together with their keys. Revealing is recorded in a chain
of its own before anything is opened.
"""

from typing import Any, Final

from sqlmodel import Session

from arap_service import audit
from arap_service.auditing.export import Line, Reveal
from arap_service.keys import Clock
from arap_service.protocol.sealing import KeyRing, SealBroken
from arap_service.records import recorded_denial, task_seal
from arap_service.store import tasks, votes
from arap_service.store.database import Database
from arap_service.store.tables import AuditEntry, Task

CHAIN: Final = "audit"


def record_revealing(database: Database, *, actor: str, clock: Clock) -> None:
    """Put on record that sealed columns are about to be opened.

    Raises:
        StoreUnavailable: It cannot be written, so nothing may be opened.
    """
    database.write_now(
        lambda session: audit.append(session, CHAIN, kind="sealed_revealed", actor=actor, detail={}, now=clock())
    )


def revealing(ring: KeyRing) -> Reveal:
    """What opens, for the entry of a denial or a submission, everything that is sealed about it."""

    def reveal(session: Session, entry: AuditEntry) -> Line | None:
        match entry.kind:
            case "task_submitted":
                task = tasks.find_task(session, entry.chain)
                return {"task": entry.chain, **({"kept": False} if task is None else _of_task(session, task, ring))}
            case "denied_requestable":
                denial = tasks.find_denial(session, entry.chain)
                if denial is None:
                    return {"denial": entry.chain, "kept": False}
                try:
                    return {"denial": entry.chain, "kept": True, "about": recorded_denial(denial, ring).about._asdict()}
                except SealBroken:
                    return {"denial": entry.chain, "kept": True, "broken": True}
        return None

    return reveal


def _of_task(session: Session, task: Task, ring: KeyRing) -> dict[str, Any]:
    try:
        seal = task_seal(task, ring)
        sealed = {
            "about": ("tuple_sealed", task.tuple_sealed),
            "request": ("request_sealed", task.request_sealed),
            "decision": ("decision_sealed", task.decision_sealed),
        }
        opened = {name: seal.open(column, value) for name, (column, value) in sealed.items() if value is not None}
        reasons = {
            vote.id: seal.open_at(f"vote:{vote.id}:reason_sealed", vote.reason_sealed)
            for vote in votes.votes_of(session, [task.id])
            if vote.reason_sealed is not None
        }
    except SealBroken:
        return {"kept": True, "broken": True}
    return {"kept": True, **opened, "reasons": reasons}

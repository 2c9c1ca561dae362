"""The local backend's requests in the database: each function is one unit of work, and decides nothing.

What is asked and why it was decided is sealed under a key of the request; the rest is what the commands list.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, insert, select, update

from arap_service.protocol.sealing import DataKey, KeyRing, SealBroken, new_data_key
from mcp_gate.local.tables import RequestStatus, local_request
from mcp_gate.mapping import CallBinding, Principal
from mcp_gate.records import Vault, opened
from mcp_gate.tables import submission, task

_TABLE: Final = local_request
_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When a new request ends, and until when it is remembered."""

    now: datetime
    expires_at: datetime
    keep_until: datetime


@dataclass(frozen=True, slots=True)
class LocalRequest:
    """A request; `asker` is None when the gate no longer knows the task that it was made for."""

    id: str
    status: RequestStatus
    call_digest: str
    question: dict[str, Any]
    created_at: datetime
    expires_at: datetime
    asker: Principal | None
    decided_by: str | None
    reason: str | None
    approved_until: datetime | None
    disposition: str | None

    def status_at(self, now: datetime) -> RequestStatus:
        """Its status, the passing of time included."""
        is_over = self.status is RequestStatus.PENDING and now >= self.expires_at
        return RequestStatus.EXPIRED if is_over else self.status


def insert_request(
    connection: Connection, ring: KeyRing, body: bytes, *, key: str, request_id: str, call_digest: str, times: Deadlines
) -> str | None:
    """The id of the request under `key`, this one or an earlier one; None when that was about other bytes."""
    forget_requests(connection, now=times.now)
    body_digest = hashlib.sha256(body).hexdigest()
    found = connection.execute(select(_TABLE.c.id, _TABLE.c.body_digest).where(_TABLE.c.key == key)).first()
    if found is not None:
        return str(found.id) if found.body_digest == body_digest else None
    wrapped = new_data_key(ring, aad=_place(request_id, "data_key"))
    sealed = DataKey(ring, wrapped, _place(request_id, "data_key")).seal(body, aad=_place(request_id, "body"))
    connection.execute(
        insert(_TABLE).values(
            id=request_id,
            key=key,
            body_digest=body_digest,
            call_digest=call_digest,
            data_key=wrapped,
            body=sealed,
            status=RequestStatus.PENDING,
            created_at=times.now,
            expires_at=times.expires_at,
            keep_until=times.keep_until,
        )
    )
    return request_id


def forget_requests(connection: Connection, *, now: datetime) -> None:
    """Deletes what is past its retention, and with it the only key to what was asked (PEP-131)."""
    connection.execute(delete(_TABLE).where(_TABLE.c.keep_until < now))


def find_request(
    connection: Connection, ring: KeyRing, request_id: str, *, for_update: bool = False
) -> LocalRequest | None:
    """One request; `for_update` keeps others from deciding it until the unit of work ends."""
    wanted = _with_asker().where(_TABLE.c.id == request_id)
    if for_update:
        wanted = wanted.with_for_update(of=_TABLE)
    row = connection.execute(wanted).first()
    return None if row is None else _read(ring, row)


def pending_requests(connection: Connection, ring: KeyRing, *, now: datetime) -> list[LocalRequest]:
    """What waits for a decision, the oldest first, at most 500."""
    waiting = (_TABLE.c.status == RequestStatus.PENDING) & (_TABLE.c.expires_at > now)
    rows = connection.execute(_with_asker().where(waiting).order_by(_TABLE.c.created_at, _TABLE.c.id).limit(_SHOWN))
    return [_read(ring, row) for row in rows]


def store_decision(
    connection: Connection,
    ring: KeyRing,
    found: LocalRequest,
    *,
    status: RequestStatus,
    approver: str,
    reason: str | None,
    now: datetime,
    approved_until: datetime | None,
) -> bool:
    """Whether the request was still pending, so that this decision is the one that counts."""
    sealed = None
    if reason is not None:
        wrapped = connection.execute(select(_TABLE.c.data_key).where(_TABLE.c.id == found.id)).scalar_one()
        key = DataKey(ring, wrapped, _place(found.id, "data_key"))
        sealed = key.seal(reason.encode(), aad=_place(found.id, "reason"))
    decided = {"decided_at": now, "decided_by": approver, "reason": sealed, "approved_until": approved_until}
    changed = connection.execute(
        update(_TABLE)
        .where(_TABLE.c.id == found.id, _TABLE.c.status == RequestStatus.PENDING, _TABLE.c.expires_at > now)
        .values(status=status, **decided)
    )
    return changed.rowcount == 1


def cancel_request(connection: Connection, request_id: str) -> None:
    """Ends a request that is pending or approved; an approval of it can no longer be used."""
    live = _TABLE.c.status.in_([RequestStatus.PENDING, RequestStatus.APPROVED])
    connection.execute(update(_TABLE).where(_TABLE.c.id == request_id, live).values(status=RequestStatus.CANCELLED))


def store_disposition(connection: Connection, request_id: str, disposition: str) -> None:
    """Keeps what the gate reports to have become of the call."""
    connection.execute(update(_TABLE).where(_TABLE.c.id == request_id).values(disposition=disposition))


def _with_asker() -> Any:
    asker = (task.c.id.label("task_id"), task.c.data_key.label("task_key"), task.c.binding)
    made_for = _TABLE.outerjoin(submission, submission.c.key == _TABLE.c.key).outerjoin(
        task, task.c.id == submission.c.task_id
    )
    return select(_TABLE, *asker).select_from(made_for)


def _read(ring: KeyRing, row: Row[Any]) -> LocalRequest:
    key = DataKey(ring, row.data_key, _place(row.id, "data_key"))
    reason = None if row.reason is None else key.open(row.reason, aad=_place(row.id, "reason")).decode()
    return LocalRequest(
        id=row.id,
        status=RequestStatus(row.status),
        call_digest=row.call_digest,
        question=json.loads(key.open(row.body, aad=_place(row.id, "body")))["question"],
        created_at=row.created_at,
        expires_at=row.expires_at,
        asker=_asker(ring, row),
        decided_by=row.decided_by,
        reason=reason,
        approved_until=row.approved_until,
        disposition=row.disposition,
    )


def _asker(ring: KeyRing, row: Row[Any]) -> Principal | None:
    # What is sealed with the call says for certain who asked, and who acts for him (PEP-131).
    if row.task_id is None:
        return None
    try:
        vault = Vault(ring, row.task_id, row.task_key)
    except SealBroken:
        return None
    binding = opened(vault, "gate_task.binding", row.binding)
    return None if binding is None else CallBinding.from_json(json.loads(binding)).principal


def _place(request_id: str, column: str) -> str:
    return f"gate_local_request:{request_id}:{column}"

"""The table of the local backend's requests, each found by the key that the gate submits it under."""

from enum import StrEnum
from typing import Final

from sqlalchemy import CheckConstraint, Column, Index, LargeBinary, String, Table, Text

from mcp_gate.tables import Instant, metadata


class RequestStatus(StrEnum):
    """What became of a request."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


_STATUSES: Final = ", ".join(f"'{status}'" for status in RequestStatus)

local_request: Final = Table(
    "gate_local_request",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("key", String(64), nullable=False),
    Column("body_digest", String(64), nullable=False),
    Column("call_digest", String(64), nullable=False),
    Column("data_key", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("status", String(16), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("keep_until", Instant, nullable=False),
    Column("decided_at", Instant),
    Column("decided_by", Text),
    Column("reason", LargeBinary),
    Column("approved_until", Instant),
    Column("disposition", Text),
    CheckConstraint(f"status IN ({_STATUSES})", name="status"),
    CheckConstraint(
        "status NOT IN ('approved', 'denied') OR (decided_by IS NOT NULL AND decided_at IS NOT NULL)", name="decided"
    ),
    CheckConstraint("status <> 'approved' OR approved_until IS NOT NULL", name="approved"),
    Index("ux_gate_local_request_key", "key", unique=True),
    Index("ix_gate_local_request_status", "status", "created_at"),
    Index("ix_gate_local_request_keep_until", "keep_until"),
)

"""The tables of the one log over all audit chains: the place of every entry in it, and signed checkpoints over it.

Places are given after the fact, by whoever needs them next, so that no write waits for a global row. What may be in a
chain is a matter of `tables.py`; here nothing is decided. See design.md section 5.
"""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, Index
from sqlmodel import Field

from arap_service.store.tables import Row


class AuditPlace(Row, table=True):
    """Where an audit entry stands in the log: places have no gaps, and never change."""

    __table_args__ = (
        Index("uq_audit_place_entry", "chain", "seq", unique=True),
        CheckConstraint("position >= 1", name="position"),
    )

    position: int = Field(primary_key=True, sa_type=BigInteger, sa_column_kwargs={"autoincrement": False})
    chain: str
    seq: int
    hash: str  # as the entry had it then


class AuditCheckpoint(Row, table=True):
    """A signed statement of what the first `size` places of the log hold."""

    __table_args__ = (CheckConstraint("number >= 1 AND size >= 1", name="counts"),)

    number: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    at: datetime
    size: int = Field(sa_type=BigInteger)
    root: str
    peaks: str  # of the tree, each in hex, parted by spaces: from here the next one goes on
    signature: str  # compact JWS


class Lease(Row, table=True):
    """Work that one instance does for all, until it stops saying so."""

    name: str = Field(primary_key=True)
    owner: str
    until: datetime


class Follower(Row, table=True):
    """How far somebody who reads the log for a purpose of his own has come."""

    name: str = Field(primary_key=True)
    position: int = Field(sa_type=BigInteger)


class SilencedEndpoint(Row, table=True):
    """A callback endpoint that has answered 410: nothing is sent there until an operator enables it again."""

    client_id: str = Field(primary_key=True)
    endpoint: str = Field(primary_key=True)
    at: datetime

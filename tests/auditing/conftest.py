"""A log of several chains on each engine, and who signs checkpoints over it."""

import asyncio
from collections.abc import Iterator

import pytest

from arap_service import audit
from arap_service.auditing.checkpoints import Notary
from arap_service.auditing.export import static_issuers
from arap_service.auditing.stored import read_with
from arap_service.auditing.verification import Verifier
from arap_service.keys import Keys
from arap_service.protocol.sealing import KeyRing
from arap_service.store import migrate
from arap_service.store.database import Database, WriteSession
from tests.clock import FakeClock
from tests.databases import Databases, Kind

ISSUER = "https://approvals.example"
RING = KeyRing({"k1": b"r" * 32}, current="k1")


@pytest.fixture
def database(engine_kind: Kind, databases: Databases) -> Iterator[Database]:
    """A fresh database with the tables of the service."""
    url = databases.copy_of(engine_kind, "service", migrate.upgrade)
    opened = Database.open(url)
    yield opened
    opened.close()
    databases.drop(url)


@pytest.fixture
def notary(database: Database, clock: FakeClock) -> Notary:
    """Signs with fresh keys; making them begins the chain `keys`, with three entries."""
    keys = asyncio.run(Keys.load_or_create(database, RING, clock=clock))
    return Notary(database=database, keys=keys, issuer=ISSUER, clock=clock)


def append(database: Database, clock: FakeClock, chain: str, *kinds: str) -> None:
    """Add entries of these kinds to a chain, each in a transaction of its own, a second apart."""
    for kind in kinds:

        def work(session: WriteSession, kind: str = kind) -> None:
            audit.append(session, chain, kind=kind, actor="åda", detail={"n": 1, "why": None}, now=clock.advance(1))

        database.write_now(work)


def verifier(notary: Notary) -> Verifier:
    """Trusts the keys of `notary` and nobody else's."""
    return Verifier(read_with(static_issuers(ISSUER, notary.keys.log_jwks())))

"""Local desks on each engine."""

from collections.abc import AsyncIterator

import pytest

from mcp_gate.database import Database
from tests.clock import FakeClock
from tests.gate.local.desk import LocalDesk


@pytest.fixture
async def desk(gate_url: str, clock: FakeClock) -> AsyncIterator[LocalDesk]:
    """A desk on each engine in turn."""
    database = Database.open(gate_url)
    yield LocalDesk(database, clock)
    await database.aclose()

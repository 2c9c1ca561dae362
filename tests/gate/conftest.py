"""Databases with the gate's tables, and whole gates on them."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from mcp_gate import migrate
from tests.clock import FakeClock
from tests.databases import Databases, Kind
from tests.gate.foreign_backend import ForeignBackend
from tests.gate.kit import Kit


@pytest.fixture
def gate_url(engine_kind: Kind, databases: Databases) -> Iterator[str]:
    """A migrated database of this test alone, on each engine in turn."""
    url = databases.copy_of(engine_kind, "gate", migrate.upgrade)
    yield url
    databases.drop(url)


@pytest.fixture
def sqlite_url(databases: Databases) -> Iterator[str]:
    """The same on SQLite only, for what doesn't depend on the engine."""
    url = databases.copy_of("sqlite", "gate", migrate.upgrade)
    yield url
    databases.drop(url)


@pytest.fixture
def backend(clock: FakeClock) -> ForeignBackend:
    """Somebody else's backend."""
    return ForeignBackend(clock)


@pytest.fixture
async def kit(gate_url: str, clock: FakeClock, backend: ForeignBackend) -> AsyncIterator[Kit]:
    """A gate on each engine in turn."""
    made = Kit(gate_url, clock, backend)
    yield made
    await made.aclose()


@pytest.fixture
async def make_kit(sqlite_url: str, clock: FakeClock, backend: ForeignBackend) -> AsyncIterator[Callable[..., Kit]]:
    """Makes gates with particular settings, on SQLite."""
    made: list[Kit] = []

    def make(**settings: Any) -> Kit:
        plain: dict[str, Any] = {"url": sqlite_url, "clock": clock, "backend": backend}
        kit = Kit(**(plain | settings))
        made.append(kit)
        return kit

    yield make
    for kit in made:
        await kit.aclose()

"""A world on each engine, with people in it."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from arap_service.store import migrate
from arap_service.store.database import Database
from tests.clock import START, FakeClock
from tests.databases import Databases, Kind
from tests.requests.terms import open_terms
from tests.requests.workflows import OpenWorkflow, open_workflow
from tests.requests.world import World, open_world, seed


def prepare(url: str) -> None:
    """Tables and people."""
    migrate.upgrade(url)
    database = Database.open(url)
    database.write_now(lambda session: seed(session, START))
    database.close()


@pytest.fixture
def world_url(engine_kind: Kind, databases: Databases) -> Iterator[str]:
    """URL of a fresh database with tables and people."""
    url = databases.copy_of(engine_kind, "world", prepare)
    yield url
    databases.drop(url)


@pytest.fixture
async def world(world_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[World]:
    """A service with people, rules and a gate."""
    async with open_world(tmp_path, world_url, clock) as opened:
        yield opened


@pytest.fixture
def workflow(world_url: str, tmp_path: Path, clock: FakeClock) -> OpenWorkflow:
    """Opens a world with the rules that it is given."""
    return partial(open_workflow, tmp_path, world_url, clock)


@pytest.fixture
async def terms(world_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[World]:
    """A world whose templates say what a decision carries."""
    async with open_terms(tmp_path, world_url, clock) as opened:
        yield opened


@pytest.fixture
async def alerting(world_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[World]:
    """The same world, where people can be told of something."""
    channels = {"desk": {"url": "json://127.0.0.1:9/"}}
    async with open_terms(tmp_path, world_url, clock, notifications={"channels": channels}) as opened:
        yield opened


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the keys of the shared databases are."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
async def shared_world(
    engine_kind: Kind, databases: Databases, shared_folder: Path, clock: FakeClock, shared_urls: dict[Kind, str]
) -> AsyncIterator[World]:
    """A world on a database that other tests have used before; for tests that look at their own requests only."""
    if engine_kind not in shared_urls:
        shared_urls[engine_kind] = databases.copy_of(engine_kind, "world", prepare)
    async with open_world(shared_folder, shared_urls[engine_kind], clock) as opened:
        yield opened


@pytest.fixture(scope="session")
def shared_urls(databases: Databases) -> Iterator[dict[Kind, str]]:
    """The shared database of each engine, made when it is first wanted."""
    urls: dict[Kind, str] = {}
    yield urls
    for url in urls.values():
        databases.drop(url)

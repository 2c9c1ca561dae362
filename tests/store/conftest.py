"""A migrated database of each engine, for one test alone."""

from collections.abc import Iterator

import pytest

from arap_service.store import migrate
from arap_service.store.database import Database
from tests.databases import Databases, Kind


@pytest.fixture
def database_url(engine_kind: Kind, databases: Databases) -> Iterator[str]:
    """URL of a fresh database with the tables of the service."""
    url = databases.copy_of(engine_kind, "service", migrate.upgrade)
    yield url
    databases.drop(url)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database with the tables of the service."""
    opened = Database.open(database_url)
    yield opened
    opened.close()

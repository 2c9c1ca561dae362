"""A migrated database of the service on SQLite only, for what does not depend on the engine."""

from collections.abc import Iterator

import pytest

from arap_service.store.migrate import upgrade
from tests.databases import Databases


@pytest.fixture
def sqlite_service_url(databases: Databases) -> Iterator[str]:
    """URL of a database of this test alone."""
    url = databases.copy_of("sqlite", "service", upgrade)
    yield url
    databases.drop(url)

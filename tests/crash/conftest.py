"""A story on each engine: fresh databases, fresh ports, nothing running yet."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import legs
from tests.crash.world import Story, invent
from tests.databases import Databases, Kind

NewStory = Callable[[Kind], Story]


@pytest.fixture
def new_story(databases: Databases, tmp_path: Path) -> Iterator[NewStory]:
    """Makes the story of this test on the engine that it names."""
    made: list[str] = []

    def make(kind: Kind) -> Story:
        if kind == "postgres":
            legs.need(legs.POSTGRES)
        migrate = importlib.import_module("arap_service.store.migrate")
        service = databases.copy_of(kind, "service", migrate.upgrade)
        gate = databases.empty(kind)
        made.extend((service, gate))
        return invent(tmp_path, service_database=service, gate_database=gate)

    yield make
    for url in made:
        databases.drop(url)

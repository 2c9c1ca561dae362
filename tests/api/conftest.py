"""Both sides of a service, over HTTP in this process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clock import FakeClock
from tests.peers import POLICY, Peers, peers
from tests.service import service_context, settings_for


@pytest.fixture
async def both(service_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Peers]:
    """An enforcement point and a resolver of one service, on each engine in turn."""
    settings = settings_for(tmp_path, database=service_url, policy=POLICY)
    async with service_context(settings, clock=clock) as context:
        opened = peers(context)
        yield opened
        await opened.aclose()

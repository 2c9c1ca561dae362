"""No order of what people, gates and time do to requests leads to a state that must not be; on both engines.

A short run; `python -m tests.deep fuzzing` takes twenty times as many steps.
Catalogue ARS-49, ARS-55, ARS-114, ARS-123.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.clock import FakeClock
from tests.databases import Databases, Kind
from tests.models.requests_machine import RequestsMachine
from tests.requests.conftest import prepare
from tests.requests.world import open_world

STEPS = 30
RATES = {
    "requestable_denials_per_minute": 10**6,
    "submissions_per_minute": 10**6,
    "polls_per_minute": 10**6,
    "open_requests_per_client": 10**6,
}


@pytest.fixture
def world_url(engine_kind: Kind, databases: Databases) -> Iterator[str]:
    url = databases.copy_of(engine_kind, "world", prepare)
    yield url
    databases.drop(url)


@pytest.mark.hypothesis
@pytest.mark.timeout(1800)
@pytest.mark.requirement("ARS-55")
def test_no_order_of_events_breaks_a_promise(world_url: str, tmp_path: Path, clock: FakeClock) -> None:
    profile = settings.get_profile(settings.get_current_profile_name())
    few = settings(
        max_examples=profile.max_examples // 25,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=[*HealthCheck],
    )
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        world = runner.run(stack.enter_async_context(open_world(tmp_path, world_url, clock, limits=RATES)))
        try:
            machine = type("Machine", (RequestsMachine,), {"world": world, "run": staticmethod(runner.run)})
            run_state_machine_as_test(machine, settings=few)
        finally:
            runner.run(stack.aclose())

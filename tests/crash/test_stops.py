"""Being told to stop is no death: status 0, nothing left, whether by a signal or by the end of a supervisor."""

import signal
from pathlib import Path

import pytest

from tests.crash.conftest import NewStory
from tests.crash.processes import Server, is_held, locked, until
from tests.crash.world import GATE_DATABASE, SERVICE_DATABASE, begun


@pytest.mark.crash
@pytest.mark.anyio
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
async def test_a_signal_stops_service_and_gate_with_status_0(new_story: NewStory, number: signal.Signals) -> None:
    """While a supervisor still holds their stdin, too."""
    async with begun(new_story("sqlite")) as story:
        await story.begin()
        for server in (story.gate, story.service):
            assert server.process is not None
            server.process.send_signal(number)
            await _ended_well(server)


@pytest.mark.crash
@pytest.mark.anyio
async def test_the_end_of_the_supervisor_stops_service_and_gate_with_status_0(new_story: NewStory) -> None:
    """However it ended: what the operating system does to its pipes is all that is needed."""
    async with begun(new_story("sqlite")) as story:
        await story.begin()
        for server in (story.service, story.gate):
            assert server.process is not None
            assert server.process.stdin is not None
            server.process.stdin.close()
            await _ended_well(server)


async def _ended_well(server: Server) -> None:
    process = server.process
    assert process is not None
    await until(lambda: process.poll() is not None, f"{server.name} has stopped")
    assert process.returncode == 0, server.tail()
    assert "Traceback" not in server.tail()
    assert not is_held(server.port)


@pytest.mark.crash
@pytest.mark.anyio
async def test_a_gate_whose_work_has_ended_does_not_go_on_listening(new_story: NewStory) -> None:
    """Else a supervisor would never start it again, while every call is answered with an error."""
    story = new_story("sqlite")
    _spoil(story.gate.environment[GATE_DATABASE])
    story.gate.launch()
    process = story.gate.process
    assert process is not None
    try:
        await until(lambda: process.poll() is not None, "the gate has ended")
        assert process.returncode == 2
        assert story.gate.tail().splitlines()[-1].startswith("mcp-gate: the gateway stopped")
    finally:
        story.gate.kill()


def _spoil(url: str) -> None:
    """Put a file where the gate wants a folder for the marks of its workers."""
    Path(url.removeprefix("sqlite:///") + "-workers").touch()


@pytest.mark.crash
@pytest.mark.anyio
async def test_a_database_that_is_away_does_not_keep_service_and_gate_from_stopping(new_story: NewStory) -> None:
    """What is under way is in the database or was never promised, so nobody waits for it without end."""
    async with begun(new_story("sqlite")) as story:
        await story.begin()
        for server, database in ((story.gate, GATE_DATABASE), (story.service, SERVICE_DATABASE)):
            assert server.process is not None
            with locked(server.environment[database]):
                server.process.send_signal(signal.SIGTERM)
                await _ended_well(server)

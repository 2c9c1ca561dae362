"""The long-lived session to the server behind the gateway, against real servers (notes on SDK 2.3, gateway form)."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from mcp import types
from mcp.shared.exceptions import MCPError

from mcp_gate.origin import NotReceived
from mcp_gate.settings_tools import Upstream as UpstreamSettings
from mcp_gate.upstream import Upstream, UpstreamMissing, without_server_info

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def running(
    settings: UpstreamSettings, *, sleep: Callable[[float], object] | None = None
) -> AsyncIterator[Upstream]:
    upstream = Upstream(settings, name="gate") if sleep is None else Upstream(settings, name="gate", sleep=sleep)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            await group.start(upstream.run)
            yield upstream
            group.cancel_scope.cancel()


def stdio(effects: Path) -> UpstreamSettings:
    environment = {"EFFECTS": str(effects), "PYTHONPATH": os.getcwd()}  # noqa: PTH109 - where the tests were started
    return UpstreamSettings(command=sys.executable, args=("-m", "tests.gate.upstream_server"), env=environment)


def calling(tool: str, **arguments: object) -> types.CallToolRequest:
    return types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(arguments)))


async def test_results_come_back_whole_and_without_the_upstreams_identity(tmp_path: Path) -> None:
    async with running(stdio(tmp_path / "effects")) as upstream:
        result = await upstream.call(calling("read", account="a1"))
    assert result["structuredContent"] == {"account": "a1", "cents": 1200}
    assert "_meta" not in result


async def test_tools_are_listed_with_their_schemas_when_the_connection_opens(tmp_path: Path) -> None:
    async with running(stdio(tmp_path / "effects")) as upstream:
        wire = upstream.tools["wire"]
    assert wire.title == "Wire transfer"
    assert wire.annotations is not None
    assert wire.annotations.destructive_hint is True
    assert set(wire.input_schema["properties"]) == {"to", "amount"}


async def test_an_error_that_the_upstream_sent_keeps_its_code_and_data(tmp_path: Path) -> None:
    """Even when it uses the code that the SDK itself uses for a closed connection."""
    async with running(stdio(tmp_path / "effects")) as upstream:
        with pytest.raises(MCPError) as caught:
            await upstream.call(calling("refuse", code=-32000))
    assert not isinstance(caught.value, NotReceived)
    assert (caught.value.code, caught.value.data) == (-32000, {"why": "test"})


async def test_a_call_whose_server_dies_was_not_answered_and_the_next_one_reaches_a_new_server(
    tmp_path: Path,
) -> None:
    reopened = anyio.Event()

    async def at_once(_: float) -> None:
        reopened.set()
        await anyio.lowlevel.checkpoint()

    effects = tmp_path / "effects"
    async with running(stdio(effects), sleep=at_once) as upstream:
        with pytest.raises(NotReceived):
            await upstream.call(calling("die"))
        await reopened.wait()
        while upstream.opened < 2:
            await anyio.lowlevel.checkpoint()
        await upstream.call(calling("wire", to="x", amount=1))
    assert effects.read_text() == "x 1\n"


async def test_a_call_that_takes_too_long_was_not_answered(tmp_path: Path) -> None:
    async with running(stdio(tmp_path / "effects")) as upstream:
        with pytest.raises(NotReceived):
            await upstream.call(calling("read", account="a1"), seconds=0.0001)


async def test_a_call_before_the_connection_stands_was_not_answered(tmp_path: Path) -> None:
    with pytest.raises(NotReceived) as caught:
        await Upstream(stdio(tmp_path / "effects"), name="gate").call(calling("read", account="a1"))
    assert caught.value.reason == "not_connected"


async def test_a_command_that_does_not_exist_is_named_at_the_start() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with running(UpstreamSettings(command="/nonexistent/server")):
            pass
    assert caught.group_contains(UpstreamMissing, match="/nonexistent/server")


def test_only_the_identity_is_taken_out_of_the_meta() -> None:
    stamped = {"content": [], "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "u"}, "kept": 1}}
    assert without_server_info(stamped) == {"content": [], "_meta": {"kept": 1}}

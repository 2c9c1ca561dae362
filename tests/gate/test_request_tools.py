"""The two tools for clients without tasks, over both transports and eras (SEP-2848, "Client maturity"; PEP-05, 06)."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, TextContent

from mcp_gate import request_tools
from mcp_gate.errors import InvalidParams
from tests.gate.gateways import http_gateway
from tests.gate.test_guarding import ByAction
from tests.gate.world import DISPOSITION, ENVELOPE, World, connected, tasks_client

pytestmark = pytest.mark.anyio
PAIR = {"request_access", "get_request_status"}
CALL: dict[str, Any] = {"tool": "wire", "arguments": {"to": "acct-991", "amount": 7}}
Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, changes={"request_tools": True})


@pytest.fixture(params=["stdio-like", "http"])
def connect(request: pytest.FixtureRequest, world: World) -> Connect:
    """A client of the gate: of one in the server's own process, or of a gateway over HTTP."""

    @asynccontextmanager
    async def through(*extensions: Any, **options: Any) -> AsyncIterator[Client]:
        if request.param == "http":
            async with http_gateway(world) as gateway, gateway.client(*extensions, **options) as client:
                yield client
                return
        async with connected(world.server(), *extensions, **options) as client:
            yield client

    return through


def text_of(result: CallToolResult) -> str:
    return " ".join(block.text for block in result.content if isinstance(block, TextContent))


async def status(client: Client, task_id: str) -> CallToolResult:
    return await client.call_tool("get_request_status", {"task_id": task_id})


async def ended(client: Client, task_id: str) -> CallToolResult:
    while True:
        told = await status(client, task_id)
        if (told.structured_content or {}).get("status") != "working":
            return told


@pytest.mark.requirement("PEP-06")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_without_tasks_gets_its_call_approved_and_its_result(
    world: World, connect: Connect, mode: str
) -> None:
    async with connect(mode=mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= PAIR | {"wire"}
        refused = await client.call_tool("wire", CALL["arguments"])
        assert world.service.sent_to("/requests") == []  # PEP-05: an ordinary call submits nothing, even so
        requested = await client.call_tool("request_access", CALL)
        again = await client.call_tool("request_access", CALL)
        assert requested.structured_content is not None
        task_id = requested.structured_content["taskId"]
        waiting = await status(client, task_id)
        assert world.effects == []
        world.service.approve()
        done = await ended(client, task_id)
    assert refused.is_error
    assert "request_access" in text_of(refused)
    assert not requested.is_error
    assert "did not run" in text_of(requested)
    assert (again.structured_content or {})["taskId"] == task_id
    assert (waiting.structured_content or {})["status"] == "working"
    assert world.effects == ["acct-991 7"]
    assert done.structured_content == {"result": "Transfer of 7 to acct-991 completed."}
    assert (done.meta or {})[DISPOSITION] == "approved-executed"
    seen = json.dumps([result.model_dump(mode="json") for result in (refused, requested, waiting, done)])
    artifacts = {"pdp.example", "arq_", "apr_", "eval_", "not.a.token", "binding_token"}
    artifacts |= set(world.service.keys) | set(world.service.tasks)
    assert {artifact for artifact in artifacts if artifact in seen} == set()
    assert '"type": "task"' not in seen  # nobody is pointed at a task that it cannot have


async def test_a_denied_request_is_told_as_such(world: World, connect: Connect) -> None:
    async with connect() as client:
        requested = await client.call_tool("request_access", CALL)
        world.service.deny()
        done = await ended(client, (requested.structured_content or {})["taskId"])
    assert done.is_error
    assert (done.meta or {})[ENVELOPE]["remediation"] == "unavailable"
    assert world.effects == []


@pytest.mark.requirement("PEP-06", "PEP-134")
async def test_the_status_is_told_to_its_owner_only(world: World) -> None:
    async with http_gateway(world) as gateway:
        async with gateway.client() as alice:
            requested = await alice.call_tool("request_access", CALL)
        told = []
        for sub, task_id in (("bob", (requested.structured_content or {})["taskId"]), ("bob", "tsk_unknown")):
            async with gateway.client(sub=sub) as other:
                with pytest.raises(MCPError) as caught:
                    await status(other, task_id)
                told.append((caught.value.code, caught.value.message))
    assert told == [(-32602, "Task not found")] * 2


@pytest.mark.requirement("PEP-05")
async def test_the_pair_is_off_unless_switched_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with connected(world.server()) as client:
        assert not PAIR & {tool.name for tool in (await client.list_tools()).tools}
        assert (await client.call_tool("request_access", CALL)).is_error  # a tool that nobody knows is denied
    assert world.service.sent_to("/requests") == []


async def test_clients_with_tasks_are_not_offered_the_pair(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        assert not PAIR & {tool.name for tool in (await client.list_tools()).tools}


async def test_what_is_permitted_or_plainly_denied_is_said_and_not_requested(world: World) -> None:
    async with connected(world.server()) as client:
        permitted = await client.call_tool("request_access", {"tool": "read", "arguments": {"account": "a"}})
        denied = await client.call_tool("request_access", {"tool": "die"})
    assert "needs no approval" in text_of(permitted)
    assert "did not run" in text_of(permitted)
    assert denied.is_error
    assert world.service.sent_to("/requests") == []


async def test_arguments_that_the_tool_would_refuse_are_refused(world: World) -> None:
    async with connected(world.server()) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("request_access", {"tool": "wire", "arguments": {"to": 7}})
    assert caught.value.code == -32602
    assert world.service.sent_to("/requests") == []


async def test_the_status_is_decided_like_the_method_that_it_stands_for(world: World) -> None:
    pdp = ByAction(world, {("server/discover", "treasury"), ("tools/list", "treasury")})
    async with connected(world.server(world.settings(decide="all"))) as client:
        requested = await client.call_tool("request_access", CALL)
        with pytest.raises(MCPError) as caught:
            await status(client, (requested.structured_content or {})["taskId"])
    assert caught.value.code == -32001
    assert pdp.actions[-1] == "tasks/get"


@pytest.mark.parametrize(
    "arguments",
    [{}, {"tool": 7}, {"tool": "wire", "arguments": []}, {"tool": "wire", "more": 1}, {"tool": "get_request_status"}],
)
def test_a_request_that_names_no_call_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams):
        request_tools.wanted_call(arguments)


@pytest.mark.parametrize("arguments", [{}, {"task_id": 7}, {"task_id": "tsk_1", "more": 1}])
def test_a_question_about_no_task_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams):
        request_tools.wanted_task(arguments)


def test_tools_of_the_same_names_are_hidden_and_the_pair_is_listed_once() -> None:
    other = {"name": "request_access", "description": "another's"}
    first = request_tools.listed({"tools": [other, {"name": "a"}], "nextCursor": "c"}, shown=True)
    last = request_tools.listed({"tools": [{"name": "b"}]}, shown=True)
    assert [tool["name"] for tool in first["tools"]] == ["a"]
    assert [tool["name"] for tool in last["tools"]] == ["b", "request_access", "get_request_status"]
    assert request_tools.listed({"tools": [other]}, shown=False) == {"tools": []}
    assert request_tools.listed({"odd": 1}, shown=True) == {"odd": 1}


def test_a_task_that_failed_or_was_cancelled_is_an_error() -> None:
    failed = request_tools.told({"status": "failed", "error": {"code": -32603, "message": "It failed."}})
    cancelled = request_tools.told({"status": "cancelled", "taskId": "tsk_1", "statusMessage": "It was cancelled."})
    assert (failed["isError"], failed["content"][0]["text"]) == (True, "It failed.")
    assert (cancelled["isError"], cancelled["structuredContent"]["status"]) == (True, "cancelled")

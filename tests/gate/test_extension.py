"""The gate embedded in an MCP server, driven by the SDK's own client in process (SEP-2848; MCP Tasks extension)."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import jsonschema_rs
import pytest
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from arap_service.protocol.canonical import arguments_hash
from mcp_gate.client import TaskEnded, TasksExtension
from mcp_gate.client.tasks import GetTask, TaskState
from mcp_gate.database import Database
from mcp_gate.errors import HeaderMismatch, InvalidParams
from mcp_gate.extension import Gate, check_arguments, check_name_header
from mcp_gate.settings import GateSettings
from tests.crash.processes import locked
from tests.gate.scripted_service import Received
from tests.gate.world import (
    DISPOSITION,
    ENVELOPE,
    SCHEMA,
    TASKS,
    TOOL_APPROVAL,
    AnyMethod,
    Raw,
    World,
    at_once,
    cancel,
    connected,
    create,
    ended,
    get_raw,
    only_advertised,
    tasks_client,
    update,
    wire,
)

pytestmark = pytest.mark.anyio

CREATED = jsonschema_rs.validator_for({**SCHEMA, "$ref": "#/$defs/CreateTaskResult"})
GOT = jsonschema_rs.validator_for({**SCHEMA, "$ref": "#/$defs/GetTaskResult"})


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


@pytest.mark.requirement("PEP-01")
async def test_both_extensions_are_advertised_together(world: World) -> None:
    async with connected(world.server()) as client:
        assert client.session.server_capabilities is not None
        assert client.session.server_capabilities.extensions == {TASKS: {}, TOOL_APPROVAL: {}}


@pytest.mark.requirement("PEP-01")
async def test_a_gate_that_was_never_bound_advertises_no_tool_approval_alone(world: World) -> None:
    server: MCPServer[Any] = MCPServer("treasury", extensions=[Gate(world.settings())])
    async with connected(server) as client:
        assert client.session.server_capabilities is not None
        assert client.session.server_capabilities.extensions == {TASKS: {}}


async def test_a_gate_that_does_not_run_lets_nothing_through(world: World) -> None:
    server: MCPServer[Any] = MCPServer("treasury", extensions=[Gate(world.settings())])

    @server.tool()
    def read() -> str:
        raise AssertionError

    async with connected(server) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("read", {})
    assert caught.value.code == -32603


@pytest.mark.requirement("PEP-15")
async def test_a_permitted_call_runs_at_once_after_its_evaluation(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        result = await client.call_tool("read", {"account": "a1"})
    assert result.structured_content == {"account": "a1", "cents": 1200}
    assert result.meta is None or DISPOSITION not in result.meta
    (asked,) = world.service.sent_to("/evaluation")
    sent = asked.json()
    assert sent["subject"] == {"type": "identity", "id": "alice"}
    assert sent["action"] == {"name": "tools/call"}
    assert sent["resource"] == {"type": "tool", "id": "read"}
    assert world.service.sent_to("/requests") == []


@pytest.mark.requirement("PEP-09", "PEP-30")
async def test_a_plain_denial_is_an_error_result_without_a_task(world: World) -> None:
    world.service.rules["wire"] = "deny"
    async with connected(world.server(), tasks_client()) as client:
        result = await client.call_tool("wire", {"to": "acct-991", "amount": 50_000})
    assert result.is_error
    assert "did not run" in text_of(result)
    assert world.effects == []
    assert world.service.sent_to("/requests") == []


@pytest.mark.requirement("PEP-10", "PEP-11")
async def test_a_requestable_denial_becomes_a_task_and_nothing_runs(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=50_000)
        shown = wire(created)
        state = await get_raw(client, created.task_id)
    assert CREATED.is_valid(shown)
    assert GOT.is_valid(state)
    assert (shown["resultType"], shown["status"]) == ("task", "working")
    assert isinstance(shown["ttlMs"], int)
    assert shown["pollIntervalMs"] == 50
    expected = {"reason": "insufficient_authorization", "remediation": "available"}
    assert shown["_meta"][ENVELOPE] == {**expected, "remediationHints": [{"type": "task"}]}
    assert state["_meta"][ENVELOPE] == shown["_meta"][ENVELOPE]
    assert world.effects == []


@pytest.mark.requirement("PEP-98", "PEP-66", "PEP-119", "PEP-120")
async def test_an_approved_call_runs_once_and_its_result_is_fetched_later(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=50_000)
        world.service.approve()
        state = await ended(client, created.task_id)
        again = await get_raw(client, created.task_id)
    assert GOT.is_valid(state)
    assert state["status"] == "completed"
    assert state["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert state["result"]["content"][0]["text"] == "Transfer of 50000 to acct-991 completed."
    assert again == state
    assert world.effects == ["acct-991 50000"]
    approval = world.service.tasks[world.service.only()]["approval"]
    assert [sent.json()["context"].get("approval") for sent in world.service.sent_to("/evaluation")] == [None, approval]


@pytest.mark.requirement("PEP-90", "PEP-119", "PEP-121")
async def test_a_denied_request_ends_as_not_executed(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=50_000)
        world.service.deny()
        state = await ended(client, created.task_id)
    assert GOT.is_valid(state)
    assert state["result"]["isError"] is True
    assert state["result"]["_meta"][DISPOSITION] == "denied-not-executed"
    assert state["result"]["_meta"][ENVELOPE]["remediation"] == "unavailable"
    assert "did not run" in state["result"]["content"][0]["text"]
    assert world.effects == []


@pytest.mark.requirement("PEP-114")
async def test_a_cancelled_task_never_runs_even_if_it_is_approved_later(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=50_000)
        assert await cancel(client, created.task_id) == {"resultType": "complete"}
        state = await ended(client, created.task_id)
        world.service.approve()
        assert await cancel(client, created.task_id) == {"resultType": "complete"}
        assert await get_raw(client, created.task_id) == state
    assert GOT.is_valid(state)
    assert state["status"] == "cancelled"
    assert world.effects == []


@pytest.mark.requirement("PEP-02")
async def test_each_request_is_answered_by_its_own_capabilities(world: World) -> None:
    """One server, one caller: declared, not declared, declared again."""
    server = world.server()
    async with connected(server, tasks_client()) as capable, connected(server) as plain:
        created = await create(capable, "wire", to="acct-991", amount=1)
        result = await plain.call_tool("wire", {"to": "acct-991", "amount": 1})
        again = await create(capable, "wire", to="acct-991", amount=1)
    assert result.is_error
    assert again.task_id == created.task_id


@pytest.mark.requirement("PEP-03", "PEP-04", "PEP-05")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_without_tasks_gets_guidance_and_submits_nothing(world: World, mode: str) -> None:
    extensions = [tasks_client()] if mode == "legacy" else []  # the handshake era has no tasks, whatever is declared
    async with connected(world.server(), *extensions, mode=mode) as client:
        results = [await client.call_tool("wire", {"to": "acct-991", "amount": 50_000}) for _ in range(10)]
    assert all(result.is_error and "approval" in text_of(result) for result in results)
    assert all("did not run" in text_of(result) for result in results)
    assert world.service.sent_to("/requests") == []
    assert world.effects == []


@pytest.mark.requirement("PEP-07")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_task_methods_need_the_capability_on_the_request(world: World, method: str) -> None:
    server = world.server()
    async with connected(server, tasks_client()) as capable, connected(server) as plain:
        created = await create(capable, "wire", to="acct-991", amount=1)
        request = AnyMethod(method=method, params={"taskId": created.task_id, "inputResponses": {}})
        with pytest.raises(MCPError) as caught:
            await plain.session.send_request(request, Raw)
        assert (await get_raw(capable, created.task_id))["status"] == "working"
    assert caught.value.code == -32021
    assert caught.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_the_handshake_era_has_no_task_methods(world: World, method: str) -> None:
    async with connected(world.server(), mode="legacy") as client:
        request = AnyMethod(method=method, params={"taskId": "tsk_1", "inputResponses": {}})
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(request, Raw)
    assert caught.value.code == -32601


@pytest.mark.requirement("PEP-08")
async def test_declaring_tool_approval_changes_nothing(world: World) -> None:
    from mcp.client.extension import advertise  # noqa: PLC0415 - only here

    async with connected(world.server(), tasks_client(), advertise(TOOL_APPROVAL)) as client:
        created = await create(client, "wire", to="acct-991", amount=1)
        world.service.approve()
        state = await ended(client, created.task_id)
    assert state["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert world.effects == ["acct-991 1"]


@pytest.mark.requirement("PEP-13")
@pytest.mark.parametrize("answer", [{"decision": "true"}, {"decision": 1}, {}])
async def test_a_decision_that_is_none_runs_nothing(world: World, answer: dict[str, Any]) -> None:
    world.service.override = lambda got: httpx2.Response(200, json=answer) if got.url.endswith("/evaluation") else None
    async with connected(world.server(), tasks_client()) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("wire", {"to": "acct-991", "amount": 1})
    assert caught.value.code == -32603
    assert world.effects == []


@pytest.mark.requirement("PEP-26", "PEP-30")
async def test_an_unknown_method_is_denied(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(AnyMethod(method="foo/bar", params={}), Raw)
        with pytest.raises(MCPError) as listed:
            await client.session.send_request(AnyMethod(method="tasks/list", params={}), Raw)
    assert caught.value.code == -32001
    assert listed.value.code == -32601  # a method that the extension had once, not an unmapped one


@pytest.mark.requirement("PEP-71")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_an_unknown_task_is_not_found(world: World, method: str) -> None:
    async with connected(world.server(), tasks_client()) as client:
        request = AnyMethod(method=method, params={"taskId": "tsk_unknown", "inputResponses": {}})
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(request, Raw)
    assert (caught.value.code, caught.value.message) == (-32602, "Task not found")


async def test_arguments_are_checked_before_anybody_is_asked(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("wire", {"to": "acct-991", "amount": "canary-value"})
        with pytest.raises(MCPError) as missing:
            await client.call_tool("wire", {})
    assert (caught.value.code, missing.value.code) == (-32602, -32602)
    assert "/amount" in caught.value.message
    assert "canary" not in caught.value.message
    assert world.service.sent_to("/requests") == []


async def test_an_unknown_tool_is_decided_about_and_never_put_up_for_approval(world: World) -> None:
    world.service.rules["no_such_tool"] = "request"
    async with connected(world.server(), tasks_client()) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("no_such_tool", {})
    assert caught.value.code == -32602
    assert len(world.service.sent_to("/evaluation")) == 1
    assert world.service.sent_to("/requests") == []


async def test_arguments_beyond_the_limit_are_refused(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("wire", {"to": "x" * 2_000_000})
    assert caught.value.code == -32602
    assert world.service.sent_to("/evaluation") == []


@pytest.mark.parametrize("levels", [101, 262, 5000])
def test_arguments_that_are_nested_too_deeply_are_refused_before_anybody_decides(levels: int) -> None:
    """The refusal is a fault of the caller's, never of the server; and nobody approves what could not be run."""
    arguments: dict[str, Any] = {}
    for _ in range(levels - 1):
        arguments = {"a": arguments}
    with pytest.raises(InvalidParams, match="nested"):
        check_arguments(arguments, limit=1_000_000)


def test_arguments_of_a_hundred_levels_are_none_too_many() -> None:
    arguments: dict[str, Any] = {}
    for _ in range(99):
        arguments = {"a": arguments}
    check_arguments(arguments, limit=1000)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_arguments_that_are_no_json_are_refused(value: object) -> None:
    """The SDK reads both from the wire without complaint."""
    with pytest.raises(InvalidParams) as caught:
        check_arguments({"to": value}, limit=1000)
    assert str(value) not in caught.value.message


async def test_a_deferred_tool_sees_no_token_and_no_client(world: World) -> None:
    world.service.rules["sees"] = "request"
    async with connected(world.server(), tasks_client()) as client:
        created = await create(client, "sees")
        world.service.approve()
        state = await ended(client, created.task_id)
    assert state["result"]["content"][0]["text"] == "no token"


async def test_a_deferred_tool_that_asks_for_input_ends_as_an_execution_error(world: World) -> None:
    world.service.rules["ask"] = "request"
    async with connected(world.server(), tasks_client()) as client:
        created = await create(client, "ask")
        world.service.approve()
        state = await ended(client, created.task_id)
    assert GOT.is_valid(state)
    assert state["result"]["_meta"][DISPOSITION] == "execution-error"
    assert state["result"]["isError"] is True


@pytest.mark.parametrize(("tool", "arguments"), [("broken", {"text": "because"}), ("refuse", {"code": -32000})])
async def test_a_tool_that_fails_after_approval_ends_as_an_execution_error(
    world: World, tool: str, arguments: dict[str, Any]
) -> None:
    """Its JSON-RPC error was received, so the outcome is known, even with the code of a closed connection."""
    world.service.rules[tool] = "request"
    async with connected(world.server(), tasks_client()) as client:
        created = await create(client, tool, **arguments)
        world.service.approve()
        state = await ended(client, created.task_id)
    assert state["status"] == "completed"
    assert state["result"]["_meta"][DISPOSITION] == "execution-error"


@pytest.mark.requirement("PEP-53")
async def test_the_approval_of_one_task_runs_no_other(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        first = await create(client, "wire", to="acct-1", amount=1)
        approved = world.service.only()
        second = await create(client, "wire", to="acct-2", amount=1)
        world.service.approve(approved)
        await ended(client, first.task_id)
        assert (await get_raw(client, second.task_id))["status"] == "working"
    assert world.effects == ["acct-1 1"]


@pytest.mark.requirement("PEP-11", "PEP-91")
async def test_a_task_survives_the_restart_of_its_server(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=50_000)
    async with connected(world.server(), tasks_client()) as client:
        state = await get_raw(client, created.task_id)
        assert state["_meta"][ENVELOPE]["remediation"] == "available"
        world.service.approve()
        assert (await ended(client, created.task_id))["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert world.effects == ["acct-991 50000"]


@pytest.mark.requirement("PEP-43")
async def test_a_request_that_is_approved_at_once_is_not_polled(world: World) -> None:
    world.service.born = "approved"
    settings = world.settings(limits={"poll_interval_seconds": 3000})
    async with connected(world.server(settings), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=1)
        await at_once(client, created.task_id)
    assert world.effects == ["acct-991 1"]
    assert [got for got in world.service.received if got.method == "GET" and "/requests/" in got.url] == []


@pytest.mark.requirement("PEP-122")
async def test_without_the_envelope_the_disposition_remains(world: World) -> None:
    async with connected(world.server(world.settings(envelope=False)), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=1)
        assert ENVELOPE not in (await get_raw(client, created.task_id)).get("_meta", {})
        world.service.deny()
        state = await ended(client, created.task_id)
    assert state["result"]["_meta"] == {DISPOSITION: "denied-not-executed"}


async def test_a_client_that_leaves_does_not_interrupt_the_submission(world: World) -> None:
    """The disconnect cancels the request; the intent, the submission and the handle go on (PEP-58)."""
    arrived, may_answer = anyio.Event(), anyio.Event()
    transport = world.service.transport()

    class Slow(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.path == "/requests":
                arrived.set()
                await may_answer.wait()
            return await transport.handle_async_request(request)

    world.service.transport = Slow  # type: ignore[method-assign,assignment]
    async with connected(world.server(), tasks_client()) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "wire", {"to": "acct-991", "amount": 1})
            await arrived.wait()
            group.cancel_scope.cancel()
        may_answer.set()
        created = await create(client, "wire", to="acct-991", amount=1)
    assert len(world.service.tasks) == 1
    assert len(world.service.sent_to("/requests")) == 1
    assert created.status == "working"


async def test_an_update_by_a_stranger_to_the_question_changes_nothing(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=1)
        before = await get_raw(client, created.task_id)
        assert await update(client, created.task_id, {"nobody-asked": {"action": "accept"}}) == {
            "resultType": "complete"
        }
        assert await get_raw(client, created.task_id) == before


async def test_the_clients_extension_hides_the_task_behind_an_ordinary_call(world: World) -> None:
    seen: list[str] = []

    async def progress(state: Any) -> None:
        seen.append(state.status)
        if len(seen) == 1:
            world.service.approve()

    async with connected(world.server(), TasksExtension(progress=progress)) as client:
        result = await client.call_tool("wire", {"to": "acct-991", "amount": 1})
    assert not result.is_error
    assert seen[0] == "working"
    assert seen[-1] == "completed"


async def test_the_clients_extension_says_when_a_task_was_cancelled(world: World) -> None:
    extension = TasksExtension()
    async with connected(world.server(), extension) as client:
        created = await create(client, "wire", to="acct-991", amount=1)
        await extension.cancel(client.session, created.task_id)
        with pytest.raises(TaskEnded) as caught:
            await extension.resume(client.session, created.task_id)
        with pytest.raises(TaskEnded) as unknown:
            await extension.resume(client.session, "tsk_unknown")
    assert (caught.value.status, unknown.value.status) == ("cancelled", "gone")


async def test_a_low_level_server_is_guarded_by_the_same_gate(world: World) -> None:
    ran: list[str] = []

    async def list_tools(_: ServerRequestContext[Any], __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="wire", input_schema={"type": "object"})])

    async def call_tool(_: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        ran.append(params.name)
        return types.CallToolResult(content=[types.TextContent(type="text", text="done")])

    settings = world.settings()
    gate = Gate(settings, parts=world.parts(settings))
    server: Server[Any] = Server("low", on_list_tools=list_tools, on_call_tool=call_tool, lifespan=gate.lifespan())
    gate.bind(server)
    async with connected(server, tasks_client()) as client:
        assert client.session.server_capabilities is not None
        assert client.session.server_capabilities.extensions == {TASKS: {}, TOOL_APPROVAL: {}}
        created = await create(client, "wire", to="acct-991")
        assert ran == []
        world.service.approve()
        state = await ended(client, created.task_id)
    assert state["result"]["content"][0]["text"] == "done"
    assert ran == ["wire"]


async def test_a_gate_guards_one_server(world: World) -> None:
    gate = Gate(world.settings())
    gate.bind(MCPServer("one", extensions=[gate]))
    with pytest.raises(RuntimeError, match="one server"):
        gate.bind(MCPServer("two"))
    with pytest.raises(RuntimeError, match="tools/call"):
        Gate(world.settings()).bind(Server("empty"))


async def test_a_caller_whom_nobody_names_is_refused(world: World) -> None:
    settings: GateSettings = world.settings(stdio=None)
    async with connected(world.server(settings), tasks_client()) as client:
        with pytest.raises(MCPError, match="not identified"):
            await client.call_tool("read", {"account": "a1"})
    assert world.service.sent_to("/evaluation") == []


async def test_a_tool_that_changed_while_its_call_waited_does_not_run(world: World) -> None:
    """PEP-105: the function's text is part of what was captured."""
    server = world.server()
    async with connected(server, tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=1)
        server.remove_tool("wire")

        @server.tool(name="wire", title="Wire transfer")
        def changed(to: str, amount: int) -> str:
            raise AssertionError(to, amount)

        world.service.approve()
        state = await ended(client, created.task_id)
    assert state["result"]["_meta"][DISPOSITION] == "denied-not-executed"
    assert world.effects == []


def test_the_way_to_a_tools_function_still_exists() -> None:
    """The gate reads a tool's function through a private member, pinned here."""
    server: MCPServer[Any] = MCPServer("pinned")

    @server.tool()
    def pinned() -> str:
        return ""

    assert server._tool_manager.get_tool("pinned") is not None
    assert getattr(server._tool_manager.get_tool("pinned"), "fn", None) is pinned


async def test_only_the_capability_is_not_enough_to_misread_a_task(world: World) -> None:
    """A client that declares the extension but claims no result type still learns that this is no tool result."""
    async with connected(world.server(), only_advertised()) as client:
        with pytest.raises(Exception, match="task"):
            await client.call_tool("wire", {"to": "acct-991", "amount": 1})
    assert world.effects == []


@pytest.mark.parametrize("value", [b"tsk_1", b"  tsk_1\t"])
def test_spaces_around_a_routing_header_are_no_part_of_it(value: bytes) -> None:
    """RFC 9110, 5.5; one of uvicorn's two parsers leaves those behind the value in place."""
    request = Request({"type": "http", "headers": [(b"mcp-name", value)]})
    ctx: Any = SimpleNamespace(request=request)
    check_name_header(ctx, "tsk_1")
    with pytest.raises(HeaderMismatch):
        check_name_header(ctx, "tsk_2")


def test_the_request_of_tasks_get_names_its_task_for_the_routing_header() -> None:
    assert GetTask.name_param == "taskId"
    assert TaskState.model_fields["status"].is_required()


@pytest.mark.requirement("PEP-53")
async def test_a_status_endpoint_that_answers_with_another_tasks_approval_approves_nothing(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        mine = await create(client, "wire", to="acct-1", amount=1)
        theirs = await create(client, "wire", to="acct-2", amount=2)
        pending, approved = world.service.tasks
        asked: list[str] = []
        asked_again = anyio.Event()

        def confused(got: Received) -> httpx2.Response | None:
            if got.method == "GET" and got.url.endswith(pending):
                asked.append(got.url)
                if len(asked) == 3:  # so the first answers have been dealt with
                    asked_again.set()
                return httpx2.Response(200, json=world.service.wire(approved))
            return None

        world.service.override = confused
        world.service.approve(approved)
        assert (await ended(client, theirs.task_id))["result"]["_meta"][DISPOSITION] == "approved-executed"
        await asked_again.wait()
        assert (await get_raw(client, mine.task_id))["status"] == "working"
    assert world.effects == ["acct-2 2"]


async def test_a_call_that_cannot_be_stored_is_told_that_nothing_ran_and_can_be_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody holds the database for longer than the gate waits; here the gate waits for a moment only."""
    monkeypatch.setattr(Database, "open", partial(Database.open, busy_seconds=0.05))
    async with connected(world.server(), tasks_client()) as client:
        with locked(world.settings().database), pytest.raises(MCPError) as caught:
            await create(client, "wire", to="acct-991", amount=1)
        assert world.service.sent_to("/requests") == []
        created = await create(client, "wire", to="acct-991", amount=1)
        world.service.approve()
        state = await ended(client, created.task_id)
    assert (caught.value.code, caught.value.data) == (-32603, None)
    assert "did not run" in caught.value.message
    assert "repeat the call" in caught.value.message
    assert state["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert world.effects == ["acct-991 1"]


@pytest.mark.requirement("PEP-18")
async def test_the_operator_may_let_one_tool_name_a_subject_that_no_token_vouches_for(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = {"type": "identity", "id": "$params.arguments.account"}
    resource = {"type": "tool", "id": "read"}
    mapping = {"evaluation": {"subject": subject, "action": {"name": "read"}, "resource": resource}}
    async with connected(world.server(world.settings(tools={"read": {"mapping": mapping}}))) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("read", {"account": "bob"})
    assert caught.value.code == -32602
    assert world.service.sent_to("/evaluation") == []
    allowed = {"read": {"mapping": mapping, "allow_unanchored_subject": True}}
    async with connected(world.server(world.settings(tools=allowed))) as client:
        assert not (await client.call_tool("read", {"account": "bob"})).is_error
    assert world.service.sent_to("/evaluation")[0].json()["subject"]["id"] == "bob"
    assert "subject_not_anchored" in capsys.readouterr().out


@pytest.mark.requirement("PEP-24")
async def test_arguments_that_are_not_disclosed_are_bound_and_never_sent(world: World) -> None:
    settings = world.settings(tools={"wire": {"disclosed": ["to"]}})
    async with connected(world.server(settings), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=918_273)
        world.service.approve()
        await ended(client, created.task_id)
    context = world.service.sent_to("/evaluation")[0].json()["context"]
    shown = context["urn:x-arap:tool_call"]
    assert (shown["arguments"], shown["complete"]) == ({"to": "acct-991"}, False)
    assert context["arguments_hash"] == arguments_hash({"to": "acct-991", "amount": 918_273})
    assert all(b"918273" not in received.body for received in world.service.received)
    assert world.effects == ["acct-991 918273"]

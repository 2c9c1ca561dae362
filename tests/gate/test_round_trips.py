"""Input before submission over the wire, with the SDK's own client. Provenance: SEP-2848; MCP round trips; PEP-F."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.request_state import RequestStateBoundary
from mcp.shared.exceptions import MCPError

from mcp_gate import round_trips
from mcp_gate.asking import KEY
from mcp_gate.client import CreatedTask, TasksExtension
from mcp_gate.extension import Gate
from mcp_gate.texts import DEGRADED, FORM_NEEDED, INPUT_UNASKED
from tests.gate.gateways import http_gateway
from tests.gate.scripted_service import HOST
from tests.gate.test_inputs import schema_of
from tests.gate.world import VERSION, World, connected, create, ended, tasks_client

pytestmark = pytest.mark.anyio

KEYS = ["a" * 32, "b" * 32]
CALL = {"to": "acct-991", "amount": 5}
ANSWER = types.ElicitResult(action="accept", content={"justification": "quarter end"})


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    demand(made, schema_of({"justification": {"type": "string", "minLength": 5}}))
    return made


def demand(world: World, schema: dict[str, Any]) -> None:
    world.service.extra_access_request = {"request_schema_url": f"{HOST}/schemas/canary-review"}
    world.service.override = lambda got: httpx2.Response(200, json=schema) if "/schemas/" in got.url else None


async def cannot_be_asked(_: Any, __: Any) -> types.ElicitResult:
    raise AssertionError("these tests answer for themselves")


async def ask(client: Client, **arguments: Any) -> types.InputRequiredResult:
    """A first call that is answered with a question."""
    asked = await client.session.call_tool("wire", arguments or CALL, allow_input_required=True, allow_claimed=True)
    assert isinstance(asked, types.InputRequiredResult), asked
    assert set(asked.input_requests or {}) == {KEY}
    return asked


async def retry(client: Client, state: str | None, **arguments: Any) -> Any:
    return await client.session.call_tool(
        "wire",
        arguments or CALL,
        input_responses={KEY: ANSWER},
        request_state=state,
        allow_input_required=True,
        allow_claimed=True,
    )


async def refused(client: Client, state: str | None, **arguments: Any) -> None:
    with pytest.raises(MCPError) as caught:
        await retry(client, state, **arguments)
    assert (caught.value.code, caught.value.message) == (-32602, "Invalid or expired requestState")
    assert caught.value.data == {"reason": "invalid_request_state"}


def altered(state: str) -> str:
    return state[:-2] + ("A" if state[-2] != "A" else "B") + state[-1]


def text_of(result: object) -> str:
    assert isinstance(result, types.CallToolResult), result
    assert result.is_error
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.requirement("PEP-80", "PEP-81", "PEP-87")
async def test_one_ordinary_call_asks_waits_for_approval_and_returns_the_result(world: World) -> None:
    """A client with a form and tasks sees neither round nor task: the SDK drives both."""
    asked: list[types.ElicitRequestParams] = []

    async def fill_in(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        assert world.service.tasks == {}
        return ANSWER

    async def progress(_: Any) -> None:
        if not world.service.tasks[world.service.only()].get("approval"):
            world.service.approve()

    async with connected(world.server(), TasksExtension(progress=progress), elicitation_callback=fill_in) as client:
        result = await client.call_tool("wire", CALL)
    assert not result.is_error
    assert len(asked) == 1
    assert world.effects == ["acct-991 5"]
    body = world.service.tasks[world.service.only()]["body"]
    assert body["context"]["justification"] == "quarter end"


@pytest.mark.requirement("PEP-82", "PEP-83")
async def test_over_http_a_state_is_refused_when_anything_about_it_is_not_as_it_was(world: World) -> None:
    async with http_gateway(world) as gateway:
        async with (
            gateway.client(tasks_client(), elicitation_callback=cannot_be_asked) as client,
            gateway.client(tasks_client(), sub="bob", elicitation_callback=cannot_be_asked) as bob,
            gateway.client(tasks_client(), client="agent-8", elicitation_callback=cannot_be_asked) as other,
        ):
            state = (await ask(client)).request_state
            assert state is not None
            for stranger in (bob, other):
                await refused(stranger, state)
            await refused(client, state, to="acct-991", amount=50_000)
            await refused(client, altered(state))
            assert world.service.sent_to("/requests") == []
            assert isinstance(await retry(client, state), CreatedTask)
            await refused(client, state)
        (submitted,) = world.service.sent_to("/requests")
        assert submitted.json()["context"]["justification"] == "quarter end"
        for artifact in ("canary-review", submitted.json()["denial"]["binding_token"]):
            assert artifact.encode() not in gateway.seen


@pytest.mark.requirement("PEP-82")
@pytest.mark.parametrize("keys", [KEYS, []])
async def test_a_round_is_continued_at_another_instance_that_shares_the_keys(world: World, keys: list[str]) -> None:
    world.changes["request_state_keys"] = keys
    async with http_gateway(world) as first, http_gateway(world) as second:
        token: dict[str, Any] = {"elicitation_callback": cannot_be_asked}
        second.issuer.keys[:] = first.issuer.keys
        async with first.client(tasks_client(), **token) as here, second.client(tasks_client(), **token) as there:
            state = (await ask(here)).request_state
            if keys:
                assert isinstance(await retry(there, state), CreatedTask)
                await refused(here, state)
            else:
                await refused(there, state)


async def test_a_round_is_continued_after_a_restart(world: World) -> None:
    world.changes["request_state_keys"] = KEYS
    async with connected(world.server(), tasks_client(), elicitation_callback=cannot_be_asked) as client:
        state = (await ask(client)).request_state
    world.changes["request_state_keys"] = ["c" * 32, *KEYS]  # rotated: the newest seals, all of them open
    async with connected(world.server(), tasks_client(), elicitation_callback=cannot_be_asked) as client:
        created = await retry(client, state)
        assert isinstance(created, CreatedTask)
        world.service.approve()
        assert (await ended(client, created.task_id))["status"] == "completed"


@pytest.mark.requirement("PEP-38", "PEP-80")
async def test_a_client_that_cannot_be_asked_is_told_so(world: World) -> None:
    async with connected(world.server(), tasks_client()) as client:
        assert text_of(await client.call_tool("wire", CALL)) == INPUT_UNASKED
    demand(world, schema_of({"lines": {"type": "object"}}))
    async with connected(world.server(), tasks_client(), elicitation_callback=cannot_be_asked) as client:
        assert text_of(await client.call_tool("wire", CALL)) == FORM_NEEDED
    assert world.service.sent_to("/requests") == []


@pytest.mark.parametrize("mode", ["legacy", VERSION])
async def test_a_client_without_tasks_is_not_asked(world: World, mode: str) -> None:
    async with connected(world.server(), mode=mode, elicitation_callback=cannot_be_asked) as client:
        assert text_of(await client.call_tool("wire", CALL)) == DEGRADED
    assert world.service.sent_to("/requests") == []


async def test_a_tools_own_rounds_pass_through_and_the_gates_answers_do_not(world: World) -> None:
    seen: list[tuple[str | None, Sequence[str]]] = []
    server = world.server()

    @server.tool()
    async def delete(ctx: Context, name: str) -> types.InputRequiredResult | str:
        seen.append((ctx.request_state, sorted(ctx.input_responses or {})))
        if ctx.input_responses is None:
            request = types.ElicitRequest(
                params=types.ElicitRequestFormParams(
                    message="Sure?", requested_schema={"type": "object", "properties": {}}
                )
            )
            return types.InputRequiredResult(input_requests={"sure": request}, request_state=f"deleting {name}")
        return "deleted"

    async def yes(_: Any, __: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"justification": "quarter end"})

    world.service.rules["delete"] = "permit"
    async with connected(server, tasks_client(), elicitation_callback=yes) as client:
        assert not (await client.call_tool("delete", {"name": "x"})).is_error
        assert seen == [(None, []), ("deleting x", ["sure"])]

        world.service.rules["delete"] = "request"
        asked = await client.session.call_tool("delete", {"name": "y"}, allow_input_required=True, allow_claimed=True)
        assert isinstance(asked, types.InputRequiredResult)
        world.service.rules["delete"] = "permit"
        again = await client.session.call_tool(
            "delete",
            {"name": "y"},
            input_responses={KEY: ANSWER},
            request_state=asked.request_state,
            allow_input_required=True,
        )
        assert isinstance(again, types.InputRequiredResult)
        assert seen[2:] == [(None, [])]
    assert world.service.sent_to("/requests") == []


async def test_a_low_level_server_is_given_a_boundary_for_its_states(world: World) -> None:
    async def list_tools(_: ServerRequestContext[Any], __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="wire", input_schema={"type": "object"})])

    async def call_tool(_: ServerRequestContext[Any], __: Any) -> types.CallToolResult:
        raise AssertionError

    settings = world.settings()
    gate = Gate(settings, parts=world.parts(settings))
    server: Server[Any] = Server("low", on_list_tools=list_tools, on_call_tool=call_tool, lifespan=gate.lifespan())
    gate.bind(server)
    async with connected(server, tasks_client(), elicitation_callback=cannot_be_asked) as client:
        state = (await ask(client)).request_state
        assert state is not None
        await refused(client, altered(state))
        assert isinstance(await retry(client, state), CreatedTask)


def test_the_operators_keys_replace_a_servers_boundary_and_none_leave_it_alone(world: World) -> None:
    server: MCPServer[Any] = MCPServer("one")
    before = list(server.middleware)
    round_trips.protect(server._lowlevel_server, world.settings())
    assert server.middleware == before
    round_trips.protect(server._lowlevel_server, world.settings(request_state_keys=KEYS))
    mine = [kept for kept in server.middleware if isinstance(kept, RequestStateBoundary)]
    assert len(mine) == 1
    assert len(server.middleware) == len(before)
    assert mine[0] not in before


async def test_a_call_that_needs_no_input_is_a_task_at_once(world: World) -> None:
    demand(world, schema_of({"agent": {"type": "string"}}))
    async with connected(world.server(), tasks_client()) as client:
        await create(client, "wire", **CALL)
    assert len(world.service.sent_to("/requests")) == 1

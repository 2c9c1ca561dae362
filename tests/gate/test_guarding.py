"""What is decided besides tool calls, over the wire. Provenance: COAZ-MCP, "PEP Behavior"; X-06; PEP-13, PEP-26."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import types
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from tests.gate.world import AnyMethod, Raw, World, connected, create, get_raw, tasks_client, update, wire

pytestmark = pytest.mark.anyio
NOTE = "note://plans"
ITSELF = "treasury"
FLOW = ("server/discover", "tools/list", "tasks/get", "tasks/update", "tasks/cancel", "subscriptions/listen")


class ByAction:
    """Answers by action and resource id, and leaves tool calls to the service's own rules."""

    def __init__(self, world: World, permitted: set[tuple[str, str]], *, requestable: bool = False) -> None:
        self.permitted = permitted
        self.seen: list[dict[str, Any]] = []
        self._requestable = requestable
        world.service.override = self

    def __call__(self, got: Any) -> httpx2.Response | None:
        if not got.url.endswith("/evaluation"):
            return None
        asked = got.json()
        self.seen.append(asked)
        action, resource = asked["action"]["name"], asked["resource"]["id"]
        if action == "tools/call":
            return None
        return httpx2.Response(200, json={"decision": (action, resource) in self.permitted})

    @property
    def actions(self) -> list[str]:
        return [asked["action"]["name"] for asked in self.seen]


def server_of(world: World, **changes: Any) -> MCPServer[Any]:
    server = world.server(world.settings(**changes))

    @server.resource(NOTE)
    def plans() -> str:
        """Read the plans."""
        return "the plans"

    @server.prompt()
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    return server


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_what_reaches_one_thing_is_asked_about_and_listings_are_not(world: World) -> None:
    pdp = ByAction(world, {("resources/read", NOTE), ("prompts/get", "greet")})
    async with connected(server_of(world), tasks_client()) as client:
        await client.list_tools()
        await client.list_resources()
        assert pdp.seen == []
        read = await client.read_resource(NOTE)
        prompt = await client.get_prompt("greet", {"name": "you"})
    (content,) = read.contents
    assert isinstance(content, types.TextResourceContents)
    assert content.text == "the plans"
    assert prompt.messages
    assert pdp.seen == [
        {
            "subject": {"type": "identity", "id": "alice"},
            "action": {"name": action},
            "resource": {"type": kind, "id": named},
            "context": {"agent": "agent-7", "server": "treasury"},
        }
        for action, kind, named in (("resources/read", "resource", NOTE), ("prompts/get", "prompt", "greet"))
    ]


@pytest.mark.requirement("PEP-26")
async def test_a_denied_read_is_an_error_and_reads_nothing(world: World) -> None:
    ByAction(world, set())
    read: list[str] = []
    server = world.server()

    @server.resource(NOTE)
    def plans() -> str:
        """Read the plans."""
        read.append(NOTE)
        return "the plans"

    async with connected(server, tasks_client()) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(NOTE)
    assert (caught.value.code, caught.value.message) == (-32001, "Access denied")
    assert read == []


@pytest.mark.requirement("PEP-13")
async def test_without_a_decision_nothing_is_read(world: World) -> None:
    world.service.override = lambda got: httpx2.Response(500) if got.url.endswith("/evaluation") else None
    async with connected(server_of(world), tasks_client()) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(NOTE)
    assert caught.value.code == -32603


@pytest.mark.requirement("PEP-27")
async def test_the_whole_flow_works_when_every_method_is_decided(world: World) -> None:
    """`tasks/update` by its owner included; each method is asked about, and only a permit lets it through."""
    world.service.rules["wire"] = "request"
    pdp = ByAction(world, set())
    async with connected(server_of(world, decide="all"), tasks_client(), mode="2026-07-28") as client:
        with pytest.raises(MCPError) as denied:
            await client.list_tools()
        pdp.permitted = {(method, ITSELF) for method in FLOW}
        await client.list_tools()
        created = await create(client, "wire", to="acct-991", amount=1)
        with pytest.raises(MCPError) as hidden:
            await get_raw(client, created.task_id)
        pdp.permitted |= {(method, created.task_id) for method in FLOW}
        assert (await get_raw(client, created.task_id))["status"] == "working"
        assert await update(client, created.task_id, {}) == {"resultType": "complete"}
    assert (denied.value.code, hidden.value.code) == (-32001, -32001)
    assert pdp.actions.count("tasks/update") == 1


async def test_a_handshake_is_decided_as_the_discovery_that_it_is(world: World) -> None:
    pdp = ByAction(world, set())
    server = server_of(world, decide="all")
    with pytest.raises(ExceptionGroup) as caught:
        async with connected(server, mode="legacy"):
            pytest.fail("the handshake was denied")
    assert caught.group_contains(MCPError, match="Access denied")
    assert pdp.actions == ["server/discover"]
    pdp.permitted = {("server/discover", ITSELF)}
    async with connected(server, mode="legacy") as client:
        await client.session.send_request(AnyMethod(method="ping", params={}), Raw)
    assert pdp.actions == ["server/discover"] * 2


@pytest.mark.parametrize("method", ["resources/subscribe", "logging/setLevel"])
async def test_a_method_that_the_version_dropped_is_unknown_whatever_its_parameters(world: World, method: str) -> None:
    """The public conformance suite, `sep-2575-http-server-method-not-found-404-resources-subscribe`."""
    pdp = ByAction(world, set())
    server = server_of(world, decide="all")

    async def serve(*_: object) -> types.EmptyResult:
        raise AssertionError("it was served")

    server._lowlevel_server.add_request_handler(method, types.RequestParams, serve)
    pdp.permitted = {("server/discover", ITSELF)}
    async with connected(server, tasks_client()) as client:
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(AnyMethod(method=method, params={}), Raw)
    assert caught.value.code == -32601


async def test_to_listen_for_a_resource_is_to_subscribe_to_it(world: World) -> None:
    pdp = ByAction(world, {("resources/subscribe", "note://other")})
    wanted = {"notifications": {"resourceSubscriptions": ["note://other", NOTE]}}
    async with connected(server_of(world), tasks_client()) as client:
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(AnyMethod(method="subscriptions/listen", params=wanted), Raw)
        too_many = {"notifications": {"resourceSubscriptions": [NOTE] * 65}}
        with pytest.raises(MCPError) as bounded:
            await client.session.send_request(AnyMethod(method="subscriptions/listen", params=too_many), Raw)
    assert (caught.value.code, bounded.value.code) == (-32001, -32602)
    assert pdp.actions == ["resources/subscribe", "resources/subscribe"]


async def test_a_filtered_listing_leaves_out_what_is_plainly_denied(world: World) -> None:
    """What could be approved stays, and what only arguments could tell; `wire` is requestable, `read` permitted."""
    pdp = ByAction(world, {("resources/read", NOTE)})
    mapping = {"evaluation": {"action": {"name": "x"}, "resource": {"type": "t", "id": "$params.arguments.code"}}}
    server = server_of(world, listings="filtered", tools={"refuse": {"mapping": mapping}})
    async with connected(server, tasks_client()) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
        prompts = (await client.list_prompts()).prompts
    assert tools == {"wire", "read", "sees", "refuse"}
    assert resources == [NOTE]
    assert prompts == []
    asked = {one["resource"]["id"]: one["context"] for one in pdp.seen if one["resource"]["type"] == "tool"}
    assert asked.keys() >= {"wire", "die"}
    shown = asked["wire"]["urn:x-arap:tool_call"]
    assert (shown["tool"], shown["arguments"], shown["complete"]) == ("wire", {}, False)


async def test_a_listing_that_cannot_be_filtered_is_not_shown(world: World) -> None:
    world.service.override = lambda got: httpx2.Response(500) if got.url.endswith("/evaluation") else None
    async with connected(server_of(world, listings="filtered"), tasks_client()) as client:
        with pytest.raises(MCPError) as caught:
            await client.list_tools()
    assert caught.value.code == -32603


class Export(BaseModel):
    ledger: str


@pytest.mark.requirement("PEP-26")
@pytest.mark.parametrize("has_mapping", [True, False])
async def test_a_method_of_the_authors_own_needs_a_mapping(world: World, has_mapping: bool) -> None:  # noqa: FBT001
    ByAction(world, {("export", "main")})
    mapping = {"evaluation": {"action": {"name": "export"}, "resource": {"type": "ledger", "id": "$params.ledger"}}}
    server = server_of(world, methods={"ledger/export": mapping} if has_mapping else {})

    async def export(_: Any, params: Export) -> dict[str, Any]:
        return {"exported": params.ledger}

    server._lowlevel_server.add_request_handler("ledger/export", Export, export)
    async with connected(server, tasks_client()) as client:
        request = AnyMethod(method="ledger/export", params={"ledger": "main"})
        if has_mapping:
            assert wire(await client.session.send_request(request, Raw))["exported"] == "main"
            request = AnyMethod(method="ledger/export", params={"ledger": "secret"})
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(request, Raw)
    assert caught.value.code == -32001

"""Resources, prompts and announcements through a gateway, before one server and several, over both transports."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp import types
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_gate.fleet import _cursor
from mcp_gate.proxy import build
from mcp_gate.settings import ConfigurationInvalid
from mcp_gate.upstream import Upstream
from tests.gate.eras import HandshakeEra, Replaceable
from tests.gate.gateways import ROOT, HttpGateway, http_gateway, stdio_upstream
from tests.gate.live import serving
from tests.gate.test_guarding import ByAction
from tests.gate.upstream_server import add_tools
from tests.gate.world import DISPOSITION, World, connected, create, ended, tasks_client

pytestmark = pytest.mark.anyio
NOTE = "note://plans"
CREDENTIALS = {"token_endpoint": "https://a.example", "client_id": "c", "client_secret": "s"}
CALL_TOKENS = {"issuer": "https://gate.example", "audience": "a", "key_file": "key.json"}
EVERYTHING = {
    ("resources/read", NOTE),
    ("prompts/get", "greet"),
    ("completion/complete", "greet"),
    ("resources/subscribe", NOTE),
}


def rich_server(
    effects: Path, *, bus: InMemorySubscriptionBus | None = None, text: str = "the plans"
) -> MCPServer[Any]:
    """A server with one of everything."""
    server: MCPServer[Any] = MCPServer("rich", subscriptions=bus if bus is not None else InMemorySubscriptionBus())
    add_tools(server, effects)

    @server.tool()
    async def slow(ctx: Context) -> types.CallToolResult:
        """Report progress, and point at a resource."""
        await ctx.report_progress(1, 2, "half")
        link = types.ResourceLink(type="resource_link", uri=NOTE, name="plans")
        return types.CallToolResult(content=[link])

    @server.resource(NOTE, title="Plans", mime_type="text/markdown")
    def plans() -> str:
        """Read the plans."""
        return text

    @server.resource("note://{which}")
    def note(which: str) -> str:
        """Read a note."""
        return which

    @server.prompt(title="Greeting")
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
        return types.Completion(values=[argument.value + "ice"], total=1, has_more=False)

    return server


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.service.rules |= {"slow": "permit"}
    return made


@asynccontextmanager
async def before(world: World, server: MCPServer[Any], *, is_modern: bool = True) -> AsyncIterator[HttpGateway]:
    app = server.streamable_http_app()
    async with (
        serving(app) as modern,
        serving(HandshakeEra(app)) as old,
        http_gateway(world, upstream={"url": f"{modern if is_modern else old}/mcp"}) as gateway,
    ):
        yield gateway


@pytest.mark.parametrize("is_modern", [True, False])
async def test_everything_comes_through_one_upstream_as_it_is(world: World, is_modern: bool) -> None:  # noqa: FBT001
    ByAction(world, EVERYTHING)
    server = rich_server(world.directory / "effects")
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with connected(server, mode="auto") as direct:
        expected = [
            await direct.list_resources(),
            await direct.list_resource_templates(),
            await direct.read_resource(NOTE),
            await direct.list_prompts(),
            await direct.get_prompt("greet", {"name": "you"}),
            await direct.complete(
                types.PromptReference(type="ref/prompt", name="greet"), {"name": "name", "value": "Al"}
            ),
        ]
    async with before(world, server, is_modern=is_modern) as gateway, gateway.client(tasks_client()) as client:
        got = [
            await client.list_resources(),
            await client.list_resource_templates(),
            await client.read_resource(NOTE),
            await client.list_prompts(),
            await client.get_prompt("greet", {"name": "you"}),
            await client.complete(
                types.PromptReference(type="ref/prompt", name="greet"), {"name": "name", "value": "Al"}
            ),
        ]
        slow = await client.call_tool("slow", {}, progress_callback=hear)
    for through, plain in zip(got, expected, strict=True):
        hidden = {"meta", "ttl_ms", "cache_scope"}
        assert through.model_dump(exclude=hidden) == plain.model_dump(exclude=hidden)
    assert isinstance(slow.content[0], types.ResourceLink)
    assert heard == [(1, 2, "half")]


@pytest.mark.requirement("PEP-28")
async def test_what_is_denied_never_reaches_the_upstream(world: World) -> None:
    pdp = ByAction(world, set())
    server = rich_server(world.directory / "effects")
    reference = types.PromptReference(type="ref/prompt", name="greet")
    async with before(world, server) as gateway, gateway.client(tasks_client()) as client:
        codes = []
        for ask in (
            lambda: client.read_resource(NOTE),
            lambda: client.get_prompt("greet", {"name": "you"}),
            lambda: client.complete(reference, {"name": "name", "value": "Al"}),
        ):
            with pytest.raises(MCPError) as caught:
                await ask()
            codes.append(caught.value.code)
    assert codes == [-32001] * 3
    assert pdp.actions == ["resources/read", "prompts/get", "completion/complete"]


async def test_a_server_without_resources_offers_none(world: World) -> None:
    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[])

    bare: Server[Any] = Server("bare", on_list_tools=list_tools)
    async with (
        serving(bare.streamable_http_app()) as base,
        http_gateway(world, upstream={"url": f"{base}/mcp"}) as gateway,
        gateway.client(tasks_client()) as client,
    ):
        assert client.session.server_capabilities is not None
        assert client.session.server_capabilities.resources is None
        assert client.session.server_capabilities.prompts is None


async def test_what_the_upstream_announces_is_announced(world: World) -> None:
    ByAction(world, EVERYTHING)
    bus = InMemorySubscriptionBus()
    server = rich_server(world.directory / "effects", bus=bus)
    async with before(world, server) as gateway, gateway.client(tasks_client()) as client:
        async with client.listen(tools_list_changed=True, resource_subscriptions=[NOTE]) as subscription:
            with anyio.fail_after(40):
                while len(bus._listeners) < 2:  # both streams of the gateway stand
                    await anyio.lowlevel.checkpoint()
                await bus.publish(ResourceUpdated(NOTE))
                assert await anext(subscription) == ResourceUpdated(NOTE)

                @server.tool()
                def fresh() -> str:
                    """Appear later."""
                    return "new"

                await bus.publish(ToolsListChanged())
                assert await anext(subscription) == ToolsListChanged()
        assert "fresh" in {tool.name for tool in (await client.list_tools()).tools}


async def test_what_an_older_upstream_announces_is_announced_too(world: World) -> None:
    """It tells its changes whenever it likes, once subscribed to; the subscription ends with the caller's stream."""
    ByAction(world, EVERYTHING)
    marks = world.directory / "marks"
    arguments = ["-m", "tests.gate.announcing_server", str(marks)]
    old = {"command": sys.executable, "args": arguments, "env": {"PYTHONPATH": str(ROOT)}}
    async with http_gateway(world, upstream=old) as gateway, gateway.client(tasks_client()) as client:
        with anyio.fail_after(55):
            async with client.listen(tools_list_changed=True, resource_subscriptions=[NOTE]) as subscription:
                heard = {await anext(subscription), await anext(subscription)}
            names = {tool.name for tool in (await client.list_tools()).tools}
            while len(lines_of(marks)) < 2:
                await anyio.lowlevel.checkpoint()
    assert heard == {ResourceUpdated(NOTE), ToolsListChanged()}
    assert names == {"first", "second"}
    assert lines_of(marks) == [f"resources/subscribe {NOTE}", f"resources/unsubscribe {NOTE}"]


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


# Several ------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def before_two(world: World, front: ASGIApp | None = None, **more: Any) -> AsyncIterator[HttpGateway]:
    """One server over HTTP, `notes`, and one over stdio, `bank`."""
    rich = front or rich_server(world.directory / "notes-effects").streamable_http_app()
    async with serving(rich) as notes:
        upstreams = {"notes": {"url": f"{notes}/mcp"}, "bank": stdio_upstream(world.directory), **more}
        async with http_gateway(world, upstream=None, upstreams=upstreams) as gateway:
            yield gateway


async def test_several_servers_stand_behind_one_gateway_under_their_names(world: World) -> None:
    world.service.rules = {"bank_wire": "request", "notes_slow": "permit", "bank_read": "permit"}
    ByAction(world, {("resources/read", f"notes+{NOTE}"), ("prompts/get", "notes_greet")})
    async with before_two(world) as gateway, gateway.client(tasks_client()) as client:
        listed: list[types.Tool] = []
        cursor: str | None = None
        while True:
            page = await client.list_tools(cursor=cursor)
            listed += page.tools
            if (cursor := page.next_cursor) is None:
                break
        names = {tool.name for tool in listed}
        assert {"notes_wire", "notes_slow", "bank_wire", "bank_read"} <= names
        assert len(names) == len(listed)
        resources = await client.list_resources()
        assert [str(found.uri) for found in resources.resources] == [f"notes+{NOTE}"]
        assert (
            resources.next_cursor is None or (await client.list_resources(cursor=resources.next_cursor)).resources == []
        )
        read = await client.read_resource(f"notes+{NOTE}")
        prompt = await client.get_prompt("notes_greet", {"name": "you"})
        slow = await client.call_tool("notes_slow", {})
        created = await create(client, "bank_wire", to="acct-991", amount=7)
        world.service.approve()
        state = await ended(client, created.task_id)
        with pytest.raises(MCPError) as nobody:
            await client.read_resource(NOTE)
        with pytest.raises(MCPError):
            await client.list_tools(cursor="bm9uZQ==")
    assert [str(content.uri) for content in read.contents] == [f"notes+{NOTE}"]
    assert prompt.messages
    (link,) = slow.content
    assert isinstance(link, types.ResourceLink)
    assert str(link.uri) == f"notes+{NOTE}"
    assert state["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert world.effects == ["acct-991 7"]
    assert nobody.value.code == -32001


async def test_a_server_that_is_away_takes_nothing_from_the_others_and_comes_back(world: World) -> None:
    rich = rich_server(world.directory / "notes-effects").streamable_http_app()
    place = Replaceable(None)
    world.service.rules = {"bank_read": "permit", "notes_read": "permit"}
    async with serving(rich), before_two(world, place) as gateway, gateway.client(tasks_client()) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {name.partition("_")[0] for name in tools} == {"bank"}
        assert not (await client.call_tool("bank_read", {"account": "a"})).is_error
        with pytest.raises(MCPError):
            await client.call_tool("notes_read", {"account": "a"})
        assert (await client.list_resources()).resources == []
        async with client.listen(tools_list_changed=True) as subscription:
            place.app = rich
            with anyio.fail_after(55):
                assert await anext(subscription) == ToolsListChanged()
        assert not (await client.call_tool("notes_read", {"account": "a"})).is_error
        assert [str(found.uri) for found in (await client.list_resources()).resources] == [f"notes+{NOTE}"]


async def test_a_server_whose_listing_fails_takes_nothing_from_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only at the beginning of its part: in the middle, what was left out would pass for all there is."""
    sent = Upstream.call
    broken: list[str] = []

    async def call(self: Upstream, request: types.Request[Any, Any], **more: Any) -> dict[str, Any]:
        if isinstance(request, types.ListToolsRequest) and self._settings.url is not None and broken:
            raise MCPError(code=types.INTERNAL_ERROR, message="the notes are broken")
        return await sent(self, request, **more)

    monkeypatch.setattr(Upstream, "call", call)
    async with before_two(world) as gateway, gateway.client(tasks_client()) as client:
        names = {tool.name.partition("_")[0] for tool in (await client.list_tools()).tools}
        assert names == {"notes"}
        broken.append("now")
        names = {tool.name.partition("_")[0] for tool in (await client.list_tools(cursor=_cursor(0, None))).tools}
        assert names == {"bank"}
        with pytest.raises(MCPError, match="notes are broken"):
            await client.list_tools(cursor=_cursor(0, "in the middle"))


async def test_a_server_that_keeps_silent_does_not_hold_up_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that reads and never answers, so that its connection neither stands nor fails."""
    monkeypatch.setattr("mcp_gate.fleet.START_SECONDS", 0.5)
    world.service.rules = {"notes_read": "permit"}
    silent = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}
    with anyio.fail_after(20):
        async with before_two(world, bank=silent) as gateway, gateway.client(tasks_client()) as client:
            assert not (await client.call_tool("notes_read", {"account": "a"})).is_error
            assert {tool.name.partition("_")[0] for tool in (await client.list_tools()).tools} == {"notes"}


@pytest.mark.parametrize(
    "changes",
    [
        {"upstream": {"url": "https://a.example"}, "upstreams": {"a": {"url": "https://a.example"}}},
        {"upstreams": {"a_b": {"url": "https://a.example"}}},
        {"upstreams": {"a+b": {"url": "https://a.example"}}},
        {"upstreams": {"A": {"url": "https://a.example"}}},
        {"methods": {"tools/list": {"evaluation": {}}}},
        {"upstream": {"command": "x", "credentials": CREDENTIALS}},
        {"upstream": {"url": "http://a.example", "credentials": CREDENTIALS}},
        {"upstream": {"url": "https://a.example", "credentials": CREDENTIALS, "call_tokens": CALL_TOKENS}},
        {"upstream": {"command": "x", "call_tokens": CALL_TOKENS}},
        {"upstream": {"url": "https://a.example", "headers": {"Authorization": "x"}, "credentials": CREDENTIALS}},
        {"upstream": {"url": "https://a.example", "credentials": CREDENTIALS | {"token_endpoint": "http://a.example"}}},
    ],
)
def test_a_fleet_that_would_be_ambiguous_or_unsafe_is_refused(world: World, changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationInvalid):
        world.settings(**changes)


def test_the_missing_program_of_one_of_several_is_named(world: World) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"upstreams\.gone\.command"):
        build(world.settings(upstreams={"ok": {"command": sys.executable}, "gone": {"command": "/nonexistent"}}))


# Credentials --------------------------------------------------------------------------------------------------------


async def test_the_upstream_gets_the_gateways_own_token_and_streams_still_stream(world: World) -> None:
    """COAZ, Token Integrity: the caller's token stays here; the gateway authenticates itself."""
    bus = InMemorySubscriptionBus()
    app = rich_server(world.directory / "effects", bus=bus).streamable_http_app()
    sent: list[str] = []
    issued: list[str] = []

    async def token(request: Request) -> Response:
        form = (await request.body()).decode()
        assert request.headers["authorization"].startswith("Basic ")
        assert "grant_type=client_credentials" in form
        issued.append(f"own-{len(issued)}")
        return JSONResponse({"access_token": issued[-1], "token_type": "Bearer", "expires_in": 3600})

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"").decode()
            sent.append(given)
            if given != f"Bearer {issued[-1]}":
                await Response(status_code=401)(scope, receive, send)
                return
        await app(scope, receive, send)

    asgi: ASGIApp = guarded
    async with (
        serving(Starlette(routes=[Route("/token", token, methods=["POST"])])) as issuer,
        serving(asgi) as base,
    ):
        credentials = {"token_endpoint": f"{issuer}/token", "client_id": "gate", "client_secret": "s3cret"}
        upstream = {"url": f"{base}/mcp", "credentials": credentials}
        async with http_gateway(world, upstream=upstream) as gateway, gateway.client(tasks_client()) as client:
            await client.call_tool("read", {"account": "a1"})
            issued.append("own-next")  # the upstream stops accepting the first one
            with anyio.fail_after(40):
                await client.call_tool("read", {"account": "a1"})
                while not bus._listeners:
                    await anyio.lowlevel.checkpoint()
    assert {given for given in sent if given.startswith("Bearer own-0")}
    assert all(given.startswith("Bearer own-") for given in sent)
    assert b"s3cret" not in bytes(gateway.seen)

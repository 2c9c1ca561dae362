"""`notifications/tasks` on `subscriptions/listen`. Provenance: MCP Tasks extension, Task Status Notifications."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jsonschema_rs
import pytest
from mcp import Client, StdioServerParameters, types
from mcp.client.extension import NotificationBinding
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ToolsListChanged
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from mcp_gate import listening as listening_module
from mcp_gate.listening import MOST_TASKS
from tests.gate.gateways import ROOT, HttpGateway, http_gateway
from tests.gate.live import serving
from tests.gate.test_interop import PlainTasks, yaml_of
from tests.gate.world import (
    META,
    SCHEMA,
    TASKS,
    VERSION,
    AnyMethod,
    Raw,
    World,
    cancel,
    connected,
    create,
    get_raw,
    tasks_client,
    update,
)

pytestmark = pytest.mark.anyio

NOTIFICATION = jsonschema_rs.validator_for({**SCHEMA, "$ref": "#/$defs/TaskStatusNotification"})
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = META + "subscriptionId"
QUESTION = {"type": "object", "properties": {"ticket": {"type": "string"}}, "required": ["ticket"]}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Stream:
    """One listen stream over raw HTTP: its messages as they come."""

    def __init__(self, response: httpx2.Response) -> None:
        self._lines = response.aiter_lines()
        self._last: dict[str, Any] = {}

    async def next(self) -> dict[str, Any]:
        async for line in self._lines:
            if line.startswith("data:") and line != "data:":
                message: dict[str, Any] = json.loads(line.removeprefix("data:"))
                return message
        raise EOFError

    async def acknowledged(self) -> dict[str, Any]:
        first = await self.next()
        assert first["method"] == ACKNOWLEDGED
        assert first["params"]["_meta"][SUBSCRIPTION] == 1
        honoured: dict[str, Any] = first["params"]["notifications"]
        return honoured

    async def told(self) -> dict[str, Any]:
        """The next task notification, held against the extension's schema; as `tasks/get` would show it."""
        message = await self.next()
        assert message["method"] == "notifications/tasks"
        assert NOTIFICATION.is_valid(message)
        params: dict[str, Any] = message["params"]
        assert params != self._last, "told twice"
        self._last = json.loads(json.dumps(params))
        assert params["_meta"].pop(SUBSCRIPTION) == 1
        return params if params["_meta"] else {name: value for name, value in params.items() if name != "_meta"}

    async def until(self, status: str) -> dict[str, Any]:
        while (told := await self.told())["status"] != status:
            assert told["status"] in {"working", "input_required"}
        return told


@asynccontextmanager
async def listening(gateway: HttpGateway, *task_ids: str, sub: str = "alice", **others: Any) -> AsyncIterator[Stream]:
    async with opened(gateway, {"taskIds": list(task_ids), **others}, sub=sub) as response:
        assert response.status_code == 200
        yield Stream(response)


@asynccontextmanager
async def opened(
    gateway: HttpGateway, wanted: dict[str, Any], *, sub: str = "alice", tasks: bool = True
) -> AsyncIterator[httpx2.Response]:
    meta = {
        META + "protocolVersion": VERSION,
        META + "clientCapabilities": {"extensions": {TASKS: {}}} if tasks else {},
        META + "clientInfo": {"name": "raw", "version": "1"},
    }
    params = {"notifications": wanted, "_meta": meta}
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": VERSION,
        "mcp-method": "subscriptions/listen",
        "authorization": f"Bearer {gateway.issuer.token(sub)}",
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params})
    async with (
        httpx2.AsyncClient(timeout=30) as http,
        http.stream("POST", gateway.url, content=body, headers=headers) as response,
    ):
        yield response


async def is_served(gateway: HttpGateway) -> bool:
    """Whether a stream could be opened now."""
    async with opened(gateway, {"taskIds": []}) as response:
        return response.headers["content-type"].startswith("text/event-stream")


def as_got(state: dict[str, Any]) -> dict[str, Any]:
    """A task as `tasks/get` shows it, without what belongs to a result only."""
    return {name: value for name, value in state.items() if name != "resultType"}


@pytest.mark.requirement("PEP-97")
async def test_every_notification_says_what_tasks_get_says(world: World) -> None:
    async with http_gateway(world) as gateway, gateway.client(tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=5)
        async with listening(gateway, created.task_id) as stream:
            assert await stream.acknowledged() == {"taskIds": [created.task_id]}
            assert await stream.told() == as_got(await get_raw(client, created.task_id))

            world.service.ask("Which ticket?", QUESTION)
            asked = await stream.until("input_required")
            assert asked == as_got(await get_raw(client, created.task_id))
            (key,) = asked["inputRequests"]
            await update(client, created.task_id, {key: {"action": "accept", "content": {"ticket": "T-1"}}})
            await stream.until("working")

            world.service.approve()
            done = await stream.until("completed")
            assert done == as_got(await get_raw(client, created.task_id))
    assert done["result"]["content"][0]["text"] == "Transfer of 5 to acct-991 completed."


@pytest.mark.requirement("PEP-97")
async def test_nobody_hears_of_a_task_that_is_not_theirs(world: World) -> None:
    async with (
        http_gateway(world) as gateway,
        gateway.client(tasks_client()) as alice,
        gateway.client(tasks_client(), sub="bob") as bob,
    ):
        hers = (await create(alice, "wire", to="acct-1", amount=1)).task_id
        world.service.approve()
        his = (await create(bob, "wire", to="acct-2", amount=1)).task_id
        async with listening(gateway, hers, "tsk_unknown", his, sub="bob") as stream:
            assert await stream.acknowledged() == {"taskIds": [his]}
            assert (await stream.told())["taskId"] == his
            while (await get_raw(alice, hers))["status"] != "completed":
                await anyio.lowlevel.checkpoint()
            await cancel(bob, his)
            while (told := await stream.told())["status"] != "cancelled":
                assert told["taskId"] == his
            assert told["taskId"] == his


@pytest.mark.requirement("PEP-97")
async def test_without_the_capability_nothing_is_served_and_the_capability_is_named(world: World) -> None:
    async with http_gateway(world) as gateway, opened(gateway, {"taskIds": []}, tasks=False) as response:
        await response.aread()
    assert response.status_code == 400
    assert response.json()["error"] == {
        "code": -32021,
        "message": "Missing required client capability",
        "data": {"requiredCapabilities": {"extensions": {TASKS: {}}}},
    }


@pytest.mark.parametrize("wrong", ["tsk_1", [7], {"a": 1}, ["tsk"] * (MOST_TASKS + 1)])
async def test_a_wrong_list_of_tasks_is_refused(world: World, wrong: Any) -> None:
    async with connected(world.server(), tasks_client()) as client:
        request = AnyMethod(method="subscriptions/listen", params={"notifications": {"taskIds": wrong}})
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(request, Raw)
    assert caught.value.code == -32602


@pytest.mark.requirement("PEP-97")
async def test_a_task_that_changed_without_a_new_status_is_told_again(world: World) -> None:
    async with http_gateway(world) as gateway, gateway.client(tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=5)
        async with listening(gateway, created.task_id) as stream:
            await stream.acknowledged()
            before = await stream.told()
            until = datetime.now(UTC) + timedelta(days=2)
            world.service.tasks[world.service.only()]["expires_at"] = until.isoformat().replace("+00:00", "Z")
            after = await stream.told()
            assert after == as_got(await get_raw(client, created.task_id))
    assert after["status"] == before["status"] == "working"
    assert after["lastUpdatedAt"] != before["lastUpdatedAt"]


async def test_one_caller_cannot_take_every_stream(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening_module, "MOST_STREAMS_EACH", 1)
    async with http_gateway(world) as gateway:
        async with listening(gateway) as stream:
            await stream.acknowledged()
            async with opened(gateway, {"taskIds": []}) as refused:
                await refused.aread()
            assert refused.json()["error"]["code"] == -32603
            async with listening(gateway, sub="bob") as other:
                assert await other.acknowledged() == {"taskIds": []}
        while not await is_served(gateway):  # once the server has noticed that the first one has left
            await anyio.lowlevel.checkpoint()


async def test_a_change_that_another_instance_made_is_told_as_well(world: World) -> None:
    async with http_gateway(world) as first, http_gateway(world) as second:
        second.issuer.keys[:] = first.issuer.keys
        async with first.client(tasks_client()) as client, listening(second) as empty:
            assert await empty.acknowledged() == {"taskIds": []}
            created = await create(client, "wire", to="acct-991", amount=5)
            async with listening(second, created.task_id) as stream:
                await stream.acknowledged()
                await cancel(client, created.task_id)
                await stream.until("cancelled")


async def test_a_stream_ends_with_the_token_that_it_was_opened_with(world: World) -> None:
    """Only authorised subscribers (PEP-97): a token that has expired authorises nothing."""
    ahead = timedelta(0)
    parts = world.parts
    vars(world)["parts"] = lambda settings: parts(settings, clock=lambda: datetime.now(UTC) + ahead)
    async with http_gateway(world) as gateway, gateway.client(tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=5)
        async with listening(gateway, created.task_id) as stream:
            await stream.acknowledged()
            await stream.told()
            ahead = timedelta(hours=2)
            while "result" not in (message := await stream.next()):
                assert message["method"] == "notifications/tasks"
    assert message["result"]["_meta"][SUBSCRIPTION] == 1


class Told(types.NotificationParams):
    """Parameters as they came."""

    model_config = ConfigDict(extra="allow")


class Hearing(PlainTasks):
    """A client that hears of its tasks."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.bell = anyio.Event()

    def notifications(self) -> list[NotificationBinding[Any]]:
        return [NotificationBinding(method="notifications/tasks", params_type=Told, handler=self.hear)]

    async def hear(self, params: Told) -> None:
        extra = params.model_extra or {}
        self.heard.append((str(extra["taskId"]), str(extra["status"])))
        self.bell.set()

    async def hears(self, task_id: str, status: str) -> None:
        while (task_id, status) not in self.heard:
            await self.bell.wait()
            self.bell = anyio.Event()


async def follow(client: Client, hearing: Hearing, world: World) -> None:
    """Open a task, listen to it, and hear that it was approved and done."""
    task = await client.session.call_tool("wire", {"to": "acct-991", "amount": 5}, allow_claimed=True)
    task_id = str((task.model_extra or {})["taskId"])
    listen = AnyMethod(method="subscriptions/listen", params={"notifications": {"taskIds": [task_id]}})
    async with anyio.create_task_group() as group:
        group.start_soon(client.session.send_request, listen, Raw)
        await hearing.hears(task_id, "working")
        world.service.approve()
        await hearing.hears(task_id, "completed")
        group.cancel_scope.cancel()


@pytest.mark.requirement("PEP-97")
async def test_the_sdks_client_hears_of_its_task_over_stdio(world: World) -> None:
    hearing = Hearing()
    with anyio.fail_after(60):
        async with serving(world.service.app()) as base:
            world.service.host = base
            config = world.directory / "gate.yaml"
            config.write_text(yaml_of(world, base))
            gate = StdioServerParameters(
                command=sys.executable,
                args=["-m", "mcp_gate", "proxy", "--config", str(config)],
                env={"PYTHONPATH": str(ROOT)},
            )
            async with Client(gate, extensions=[hearing]) as client:
                await follow(client, hearing, world)


async def test_an_embedded_gates_streams_carry_tasks_beside_what_the_server_tells(world: World) -> None:
    bus, hearing = InMemorySubscriptionBus(), Hearing()
    messages: list[str] = []
    changed = anyio.Event()

    async def message(received: Any) -> None:
        messages.append(received.method)
        if isinstance(received, types.ToolListChangedNotification):
            changed.set()

    async with connected(world.server(subscriptions=bus), hearing, message_handler=message) as client:
        task = await client.session.call_tool("wire", {"to": "acct-991", "amount": 5}, allow_claimed=True)
        task_id = str((task.model_extra or {})["taskId"])
        wanted = {"taskIds": [task_id], "toolsListChanged": True}
        listen = AnyMethod(method="subscriptions/listen", params={"notifications": wanted})
        async with anyio.create_task_group() as group:
            group.start_soon(client.session.send_request, listen, Raw)
            await hearing.hears(task_id, "working")
            await bus.publish(ToolsListChanged())
            await changed.wait()
            world.service.approve()
            await hearing.hears(task_id, "completed")
            group.cancel_scope.cancel()
    assert messages[0] == ACKNOWLEDGED


async def test_a_stream_that_asks_about_no_task_is_the_servers_own(world: World) -> None:
    bus = InMemorySubscriptionBus()
    async with (
        connected(world.server(subscriptions=bus), tasks_client()) as client,
        client.listen(tools_list_changed=True) as subscription,
    ):
        assert subscription.honored.model_dump(exclude_none=True) == {"tools_list_changed": True}
        await bus.publish(ToolsListChanged())
        assert await anext(subscription) == ToolsListChanged()


async def test_a_server_without_streams_refuses_those_that_ask_about_no_task(world: World) -> None:
    server: MCPServer[Any] = world.server(subscriptions=False)
    async with connected(server, hearing := Hearing()) as client:
        listen = AnyMethod(method="subscriptions/listen", params={"notifications": {"toolsListChanged": True}})
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(listen, Raw)
        assert caught.value.code == -32601
        await follow(client, hearing, world)

"""Deliveries over HTTP and on the command line: dead letters are seen and sent again, a 410 is undone (ARS-97)."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest
import yaml
from typer.testing import CliRunner

from arap_service.audit import Broken, entries_of, verify_chain
from arap_service.cli import app
from arap_service.context import Context
from arap_service.courier import Courier
from arap_service.domain.delivery import SCHEDULE_SECONDS
from arap_service.outbound import Outbound
from tests.clock import FakeClock
from tests.peers import POLICY, RESOLVER, Peers, peers
from tests.receiver import Receiver, certificate, receiving, status
from tests.service import CALLBACK_KEY, service_context, settings_for

DELIVERIES = f"{RESOLVER}/deliveries"


@dataclass(frozen=True, slots=True)
class Office:
    """A service, its courier, a receiver, and an operator."""

    context: Context
    peers: Peers
    receiver: Receiver
    url: str
    courier: Courier
    clock: FakeClock

    async def get(self, path: str = "", **params: Any) -> Any:
        """What the operator is shown."""
        response = await self.ask("GET", path, params=params)
        assert response.status_code == 200, response.text
        assert response.headers["cache-control"] == "no-store"
        return response.json()

    async def ask(self, method: str, path: str = "", **more: Any) -> httpx2.Response:
        """The answer to the operator."""
        return await self.peers.resolver.request(
            method, DELIVERIES + path, headers=self.peers.authenticated("operator"), **more
        )

    async def decided(self) -> str:
        """Id of a request that was approved just now, with a callback."""
        task = await self.peers.task(callback={"endpoint": self.url})
        assert (await self.peers.decide(task["id"])).status_code == 200
        return str(task["id"])

    async def until_dead(self) -> None:
        """Let the courier try until it gives up."""
        self.receiver.answer(status(500))
        for seconds in SCHEDULE_SECONDS:
            await self.courier.round()
            self.clock.advance(seconds)
        await self.courier.round()


async def resolving(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture
async def office(service_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Office]:
    server, trusting = certificate(tmp_path, "gate.example")
    async with receiving(server) as receiver:
        url = f"https://gate.example:{receiver.port}/callbacks/arap"
        own = {"endpoints": [url], "keys": [CALLBACK_KEY], "allow_destinations": [f"gate.example:{receiver.port}"]}
        policy = POLICY.replace("approval_seconds: 600", "approval_seconds: 600\n    retention_seconds: 864000")
        settings = settings_for(tmp_path, database=service_url, policy=policy, callbacks={"gate": own})
        outbound = Outbound(resolver=resolving, tls=trusting, timeout=5)
        async with service_context(settings, clock=clock, outbound=outbound) as context:
            both = peers(context)
            yield Office(context, both, receiver, url, Courier(context, jitter=lambda: 0.0), clock)
            await both.aclose()


@pytest.mark.anyio
@pytest.mark.requirement("ARS-97")
async def test_dead_letter_is_seen_and_sent_again_under_its_id_with_a_fresh_schedule(office: Office) -> None:
    """Three days have passed, so that without a fresh schedule the next failure would be the last."""
    request_id = await office.decided()
    await office.until_dead()
    [dead] = (await office.get(status="dead"))["items"]
    assert (dead["request_id"], dead["last_error"], dead["next_at"]) == (request_id, "status_500", None)
    shown = await office.get(f"/{dead['id']}")
    tried = shown["attempts"]
    assert [each["number"] for each in shown["attempts_made"]] == list(range(1, tried + 1))
    assert {each["http_status"] for each in shown["attempts_made"]} == {500}

    again = await office.ask("POST", f"/{dead['id']}/redeliver")
    assert (again.status_code, again.json()["status"]) == (202, "pending")
    assert await office.courier.round() == 1
    [waiting] = (await office.get(request=request_id))["items"]
    assert (waiting["status"], waiting["attempts"]) == ("pending", tried + 1)
    office.receiver.answer(status(204))
    office.clock.advance(SCHEDULE_SECONDS[0])
    assert await office.courier.round() == 1
    assert (await office.get(f"/{dead['id']}"))["status"] == "delivered"
    assert len({received.headers["webhook-id"] for received in office.receiver.received}) == 1
    entries = await office.context.database.read(lambda session: entries_of(session, request_id))
    assert [entry.kind for entry in entries][-3:] == ["callback_dead", "delivery_restarted", "callback_delivered"]
    verified = await office.context.database.read(lambda session: verify_chain(session, request_id))
    assert not isinstance(verified, Broken)


@pytest.mark.anyio
@pytest.mark.requirement("ARS-97")
async def test_endpoint_that_said_410_gets_nothing_more_of_any_request_until_it_is_enabled(office: Office) -> None:
    await office.decided()
    office.receiver.answer(status(410))
    await office.courier.round()
    await office.decided()
    office.receiver.answer(status(204))
    assert await office.courier.round() == 1
    assert len(office.receiver.received) == 1
    disabled = (await office.get(status="disabled"))["items"]
    assert {each["last_error"] for each in disabled} == {"endpoint_disabled", "status_410"}
    assert [(each["client_id"], each["endpoint"]) for each in await office.get("/disabled-endpoints")] == [
        ("gate", office.url)
    ]
    where = {"client_id": "gate", "endpoint": office.url}
    assert (await office.ask("POST", "/enable-endpoint", json=where)).status_code == 204
    assert (await office.ask("POST", "/enable-endpoint", json=where)).status_code == 404
    assert await office.get("/disabled-endpoints") == []
    await office.decided()
    assert await office.courier.round() == 1
    assert len(office.receiver.received) == 2


@pytest.mark.anyio
async def test_sending_a_disabled_delivery_again_enables_its_endpoint(office: Office) -> None:
    """Whoever sends it again has decided that the receiver is back."""
    await office.decided()
    office.receiver.answer(status(410), status(204))
    await office.courier.round()
    [disabled] = (await office.get(status="disabled"))["items"]
    await office.ask("POST", f"/{disabled['id']}/redeliver")
    assert await office.courier.round() == 1
    assert (await office.get(f"/{disabled['id']}"))["status"] == "delivered"
    assert await office.get("/disabled-endpoints") == []


@pytest.mark.anyio
async def test_delivery_that_is_being_sent_is_left_to_its_courier(office: Office) -> None:
    await office.decided()
    [parcel] = await office.courier._lease()
    refused = await office.ask("POST", f"/{parcel.delivery.id}/redeliver")
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (409, "invalid_task_state")


@pytest.mark.anyio
async def test_list_is_paged_and_malformed_selections_are_named(office: Office) -> None:
    for _ in range(5):
        await office.decided()
        office.clock.advance(0.25)
    found: list[str] = []
    more: dict[str, str] = {}
    while True:
        page = await office.get(limit=2, **more)
        found += [each["id"] for each in page["items"]]
        if page["next_cursor"] is None:
            break
        more = {"cursor": page["next_cursor"]}
    assert len(found) == len(set(found)) == 5
    for wrong in ({"status": "lost"}, {"limit": "0"}, {"cursor": "invented"}, {"request": "\x00"}):
        refused = await office.ask("GET", params=wrong)
        assert (refused.status_code, refused.json()["type"]) == (400, "urn:x-arap:problem:invalid-request")
    for path in ("/msg_unknown", "/%00"):
        assert (await office.ask("GET", path)).status_code == 404
        assert (await office.ask("POST", f"{path}/redeliver")).status_code == 404
    assert (await office.ask("POST", "/enable-endpoint", json={"client_id": "gate"})).status_code == 400


@pytest.mark.anyio
async def test_only_an_operator_sees_and_moves_deliveries(office: Office) -> None:
    await office.decided()
    for client in (office.peers.gate, office.peers.resolver):
        calls = [
            await client.get(DELIVERIES),
            await client.get(f"{DELIVERIES}/disabled-endpoints"),
            await client.get(f"{DELIVERIES}/msg_1"),
            await client.post(f"{DELIVERIES}/msg_1/redeliver"),
            await client.post(f"{DELIVERIES}/enable-endpoint", json={"client_id": "gate", "endpoint": office.url}),
        ]
        assert {(each.status_code, each.json()["type"]) for each in calls} == {(403, "urn:x-arap:problem:forbidden")}


@pytest.mark.anyio
async def test_commands_do_what_the_api_does(office: Office, tmp_path: Path) -> None:
    settings = office.context.settings
    config = tmp_path / "arap.yaml"
    written = {
        "identifier": settings.identifier,
        "database": settings.database,
        "policy_path": str(settings.policy_path),
        "key_file": str(settings.key_file),
        "builtin_issuer": {"enabled": True},
    }
    config.write_text(yaml.safe_dump(written))

    async def run(*arguments: str) -> tuple[int, str, str]:
        result = await anyio.to_thread.run_sync(
            lambda: CliRunner().invoke(app, ["deliveries", *arguments, "-c", str(config)], catch_exceptions=False)
        )
        return result.exit_code, result.stdout, result.stderr

    request_id = await office.decided()
    office.receiver.answer(status(410), status(204))
    await office.courier.round()
    code, shown, _ = await run("list")
    assert code == 0
    first, second = shown.splitlines()
    assert "disabled (status_410)" in first
    assert f"approved of {request_id}" in first
    assert second.startswith("disabled since 2026-04-30T20:00:00Z: gate https://gate.example:")
    [listed] = [json.loads(line) for line in (await run("list", "--json", "--status", "disabled"))[1].splitlines()]
    assert (await run("list", "--json", "--status", "dead"))[1] == ""
    assert (await run("enable", "gate", office.url))[0] == 0
    assert "arap: deliveries: Nothing keeps" in (await run("enable", "gate", office.url))[2]
    assert (await run("redeliver", "msg_unknown"))[::2] == (1, "arap: deliveries: There is no such thing here\n")
    assert (await run("redeliver", listed["id"]))[0] == 0
    office.clock.advance(1e9)  # the command told the real time
    assert await office.courier.round() == 1
    assert (await office.get(f"/{listed['id']}"))["status"] == "delivered"

"""Endpoints that misbehave, as they look on the wire; what the service has really done; and what was noted."""

import json
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import pytest
from starlette.types import Message, Receive, Scope, Send

from arap_service.domain.behaviours import Endpoint, read_act
from arap_service.simulator.core import Simulator
from arap_service.simulator.edge import SimulatorEdge
from arap_service.simulator.observing import facts_of, place
from arap_service.simulator.program import Armed, Target
from tests.clock import FakeClock
from tests.pdp import question
from tests.simulator.world import OBSERVATIONS, rehearsing

pytestmark = pytest.mark.anyio
SECRET_WORDS = ("acct-991", "50000", "alice@example.com", "because I said so", "eyJ")


async def test_a_lost_answer_is_lost_after_the_task_was_made_and_its_key_finds_it(
    service_url: str, tmp_path: Path
) -> None:
    async with rehearsing(tmp_path, database=service_url) as world:
        await world.arm("lost-answer", endpoint="submission")
        body = await world.body()
        with pytest.raises(httpx2.RemoteProtocolError):
            await world.submit(body)
        again = await world.submit(body)
        other = await world.submit(body, key="key-2")
        lost, found, _ = await world.seen("submission")
    assert again.status_code == 202
    assert other.status_code == 400
    assert lost["task"] == found["task"] == again.json()["task"]["id"]
    assert (lost.get("status"), lost["fault"]) == (None, "lost-answer")
    assert (lost["key"], lost["body"], lost["binding"]) == (found["key"], found["body"], found["binding"])


@pytest.mark.parametrize("behaviour", ["cut", "server-error", "rate-limited"])
async def test_a_fault_before_the_work_leaves_nothing_behind(
    sqlite_service_url: str, tmp_path: Path, behaviour: str
) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        await world.arm(behaviour, endpoint="submission", times=2)
        body = await world.body()
        for _ in range(2):
            if behaviour == "cut":
                with pytest.raises(httpx2.RemoteProtocolError):
                    await world.submit(body)
            else:
                assert (await world.submit(body)).status_code == {"server-error": 503, "rate-limited": 429}[behaviour]
        made = await world.submit(body, key="another-key")
        assert made.status_code == 202
        assert [each.get("fault") for each in await world.seen("submission")] == [behaviour, behaviour, None]


async def test_numbers_of_a_fault_are_those_that_were_asked_for(sqlite_service_url: str, tmp_path: Path) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        await world.arm("rate-limited", endpoint="evaluation", retry_after=17)
        await world.arm("server-error", endpoint="evaluation", status=507)
        answers = [await world.point.post("/access/v1/evaluation", json=question()) for _ in range(3)]
    assert [each.status_code for each in answers] == [429, 507, 200]
    assert answers[0].headers["retry-after"] == "17"
    assert all(each.headers["x-arap-simulator"] == "on" for each in answers)


async def test_a_wrong_type_and_garbage_look_like_it(sqlite_service_url: str, tmp_path: Path) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        task = await world.open()
        await world.arm("wrong-type", endpoint="evaluation")
        await world.arm("wrong-type", endpoint="status")
        await world.arm("garbage", endpoint="status")
        assert (await world.ask(question()))["decision"] == "true"
        assert (await world.status(task))["task"]["status"] == "granted"
        bad = await world.point.get(task["status_endpoint"])
        assert (await world.status(task))["task"]["status"] == "pending"
    assert bad.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        bad.json()


async def test_a_slow_answer_comes_when_the_clock_has_come_so_far(
    sqlite_service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url, clock=clock) as world:
        task = await world.open()
        await world.arm("slow", endpoint="status", after=20)
        answers: list[httpx2.Response] = []

        async def poll() -> None:
            answers.append(await world.point.get(task["status_endpoint"]))

        with anyio.fail_after(40):
            async with anyio.create_task_group() as group:
                group.start_soon(poll)
                # Another poll overtakes the one that is held back.
                while world.simulator.program.listed():
                    await anyio.lowlevel.checkpoint()
                assert (await world.status(task))["task"]["status"] == "pending"
                assert answers == []
                clock.advance(20)
    assert answers[0].status_code == 200


async def test_what_is_noted_tells_nothing_of_what_was_said(sqlite_service_url: str, tmp_path: Path) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        await world.arm("approve")
        body = await world.body()
        body["context"] = {**body["context"], "business_justification": "because I said so"}
        made = await world.submit(body, key="a-key-of-22-characters")
        await world.simulator.round()
        shown = await world.status(made.json()["task"])
        await world.ask(question(), approval=shown["result"]["approval"])
        noted = (await world.control.get(OBSERVATIONS)).text
        numbers = [each["seq"] for each in await world.seen()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert not [word for word in (*SECRET_WORDS, "a-key-of-22") if word in noted]
    assert "wire_transfer" in noted


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/access/v1/evaluation", (Endpoint.EVALUATION, None)),
        ("GET", "/access/v1/evaluation", None),
        ("POST", "/access/v1/request", (Endpoint.SUBMISSION, None)),
        ("GET", "/access/v1/request/task_1", (Endpoint.STATUS, "task_1")),
        ("POST", "/access/v1/request/task_1/cancel", (Endpoint.CANCEL, "task_1")),
        ("POST", "/access/v1/request/task_1/report", (Endpoint.REPORT, "task_1")),
        ("POST", "/access/v1/request/task_1/input", None),
        ("GET", "/access/v1/request/", None),
        ("GET", "/.well-known/authzen-configuration", (Endpoint.METADATA, None)),
        ("POST", "/issuer/token", (Endpoint.TOKEN, None)),
        ("GET", "/jwks.json", (Endpoint.KEYS, None)),
        ("GET", "/desk", None),
    ],
)
def test_a_request_is_of_the_endpoint_that_its_method_and_path_say(
    method: str, path: str, expected: tuple[Endpoint, str | None] | None
) -> None:
    assert place(method, path) == expected


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[1]", b'{"context": 7, "denial": []}', b"\xff", b"[" * 5000])
@pytest.mark.parametrize("endpoint", Endpoint)
def test_no_body_is_too_odd_to_be_noted(endpoint: Endpoint, body: bytes) -> None:
    facts = facts_of(endpoint, sent=body, answered=body, headers={"retry-after": "soon"}, key=None)
    assert "retry_after" not in facts
    assert json.dumps(facts)


async def test_a_base_path_is_no_part_of_an_endpoint_and_another_server_ends_in_the_middle(clock: FakeClock) -> None:
    """In-process, with nothing but the edge: a server that cannot cut gets half an answer instead."""
    simulator = Simulator(clock)
    for endpoint in (Endpoint.METADATA, Endpoint.KEYS):
        act = read_act({"behaviour": "cut"})
        assert simulator.program.arm(Armed("sim_1", act, Target(endpoint=endpoint), clock()))
    asked: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    edge = SimulatorEdge(app, simulator, base_path="/tenant")
    for path in ("/.well-known/authzen-configuration/tenant", "/tenant/jwks.json", "/tenant/desk"):
        await edge({"type": "http", "method": "GET", "path": path, "headers": []}, receive, send)
    assert asked == ["/tenant/desk"]
    starts = [(message["status"], dict(message["headers"])) for message in sent if "status" in message]
    marked = {b"x-arap-simulator": b"on"}
    assert starts == [(200, {b"content-length": b"1024", **marked})] * 2 + [(204, marked)]
    assert [each.what for each in simulator.notebook.since(0)] == ["metadata", "keys"]

"""The control API: who may use it, what it lists, what it refuses, and that every behaviour can be armed."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from arap_service.domain.behaviours import BEHAVIOURS, Group
from tests.live import serving
from tests.simulator.world import CONTROL, OBSERVATIONS, POLICY, rehearsing

pytestmark = pytest.mark.anyio

TARGETS: dict[Group, dict[str, str]] = {
    Group.OUTCOME: {"template": "transfer"},
    Group.REEVALUATION: {"task": "task_1"},
    Group.CALLBACK: {"template": "transfer"},
    Group.ENDPOINT: {"endpoint": "status"},
    Group.CLOCK: {},
}


async def test_every_behaviour_of_the_table_is_listed_and_can_be_armed_and_cleared(
    service_url: str, tmp_path: Path
) -> None:
    async with rehearsing(tmp_path, database=service_url) as world:
        listed = (await world.control.get(CONTROL)).json()
        assert [each["name"] for each in listed["catalogue"]] == list(BEHAVIOURS)
        assert all(each["does"] and each["client"] and each["rules"] for each in listed["catalogue"])
        for behaviour in BEHAVIOURS.values():
            target = TARGETS[behaviour.group]
            answer = await world.control.post(CONTROL, json={"behaviour": behaviour.name, **target})
            assert answer.status_code == 201, (behaviour.name, answer.text)
            assert answer.json().items() >= {"behaviour": behaviour.name, **target}.items()
        armed = (await world.control.get(CONTROL)).json()["armed"]
        assert [each["behaviour"] for each in armed] == [name for name in BEHAVIOURS if name != "clock-moved"]
        assert (await world.control.delete(CONTROL)).status_code == 204
        after = (await world.control.get(CONTROL)).json()
    assert after["armed"] == []
    assert after["clock"]["moved_seconds"] == 3600


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"behaviour": "applaud", "template": "transfer"}, "/behaviour"),
        ({"behaviour": ["approve"], "template": "transfer"}, "/behaviour"),
        ({"template": "transfer"}, "/behaviour"),
        ({"behaviour": "approve"}, ""),
        ({"behaviour": "approve", "template": "transfer", "task": "task_1"}, ""),
        ({"behaviour": "approve", "endpoint": "status"}, ""),
        ({"behaviour": "slow", "template": "transfer"}, ""),
        ({"behaviour": "slow", "endpoint": "kitchen"}, "/endpoint"),
        ({"behaviour": "slow", "endpoint": ["status"]}, "/endpoint"),
        ({"behaviour": "clock-moved", "task": "task_1"}, ""),
        ({"behaviour": "clock-moved", "seconds": 31_536_001}, "/seconds"),
        ({"behaviour": "approve", "task": 7}, "/task"),
        ({"behaviour": "approve", "template": "transfer", "after": -1}, "/after"),
        ({"behaviour": "approve", "template": "transfer", "after": "5"}, "/after"),
        ({"behaviour": "approve", "template": "transfer", "times": 1.5}, "/times"),
        ({"behaviour": "approve", "template": "transfer", "times": True}, "/times"),
        ({"behaviour": "approve", "template": "transfer", "status": 500}, "/status"),
        ({"behaviour": "approve", "template": "transfer", "volume": 11}, "/volume"),
    ],
)
async def test_what_is_not_in_the_table_is_refused_and_arms_nothing(
    sqlite_service_url: str, tmp_path: Path, body: dict[str, Any], pointer: str
) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        answer = await world.control.post(CONTROL, json=body)
        listed = (await world.control.get(CONTROL)).json()
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["pointer"] == pointer
    assert listed["armed"] == []
    assert listed["clock"]["moved_seconds"] == 0


async def test_an_unknown_template_is_refused(sqlite_service_url: str, tmp_path: Path) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        answer = await world.control.post(CONTROL, json={"behaviour": "approve", "template": "nope"})
    assert answer.status_code == 404


async def test_only_an_administrator_tells_the_simulator_what_to_do(sqlite_service_url: str, tmp_path: Path) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        body = {"behaviour": "approve", "template": "transfer"}
        async with httpx2.AsyncClient(base_url=world.live.url) as nobody:
            assert (await nobody.post(CONTROL, json=body)).status_code == 401
        for method, path in (("GET", CONTROL), ("POST", CONTROL), ("DELETE", CONTROL), ("GET", OBSERVATIONS)):
            answer = await world.point.request(method, path, json=body if method == "POST" else None)
            assert answer.status_code == 403, (method, path)
        assert (await world.control.get(CONTROL)).json()["armed"] == []


async def test_where_the_simulator_is_off_nothing_of_it_is_there(sqlite_service_url: str, tmp_path: Path) -> None:
    async with (
        serving(tmp_path, database=sqlite_service_url, policy=POLICY, background=False) as live,
        httpx2.AsyncClient(base_url=live.url) as anybody,
    ):
        answers = [await anybody.get(path) for path in (CONTROL, OBSERVATIONS, "/readyz", "/login")]
    assert [answer.status_code for answer in answers] == [404, 404, 200, 200]
    assert not any("x-arap-simulator" in answer.headers for answer in answers)
    assert answers[2].json().get("simulator") is None
    assert "simulator" not in answers[3].text


async def test_a_simulator_says_so_everywhere(sqlite_service_url: str, tmp_path: Path) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        answers = [await world.point.get(path) for path in ("/readyz", "/login", "/jwks.json", "/nowhere", "/healthz")]
        answers.append(await world.point.post("/access/v1/evaluation", json={}))
        answers.append(await world.point.get("/access/v1/request/task_1"))
    assert [answer.headers["x-arap-simulator"] for answer in answers] == ["on"] * 7
    assert answers[0].json()["simulator"] is True
    assert "This is a simulator" in answers[1].text

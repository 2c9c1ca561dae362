"""The console of a simulator at the desk, for administrators and only where one is on; docs/simulator.md."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arap_service.context import Context
from arap_service.simulator.core import Simulator
from arap_service.web import passwords
from tests.clock import FakeClock
from tests.service import service_context, settings_for
from tests.web.desk import QUICK
from tests.web.parts import member, who_may
from tests.web.policy import POLICY

pytestmark = pytest.mark.anyio


@pytest.fixture
async def rehearsing(
    service_url: str, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Context]:
    """A desk on which a simulator is on."""
    monkeypatch.setattr(passwords, "_HASHER", QUICK)
    settings = settings_for(tmp_path, database=service_url, policy=POLICY, simulator=True)
    async with service_context(settings, clock=clock) as opened:
        yield opened


def simulator_of(context: Context) -> Simulator:
    """The simulator of a context that has one."""
    assert isinstance(context.rehearsal, Simulator)
    return context.rehearsal


async def test_administrators_alone_direct_it(rehearsing: Context) -> None:
    assert await who_may(rehearsing, "/desk/simulator") == {"adam"}


async def test_nobody_else_gives_orders(rehearsing: Context) -> None:
    async with member(rehearsing, "audrey") as audrey:
        seen = await audrey.get("/desk")
        for path in ("/desk/simulator/orders", "/desk/simulator/end"):
            assert (await audrey.submit(path, seen=seen, behaviour="slow", endpoint="status")).status_code == 403
    assert simulator_of(rehearsing).program.listed() == []


async def test_where_no_simulator_is_on_there_is_no_such_page(context: Context) -> None:
    async with member(context, "adam") as adam:
        seen = await adam.get("/desk")
        assert "/desk/simulator" not in seen.text
        assert (await adam.get("/desk/simulator")).status_code == 404
        assert (await adam.submit("/desk/simulator/orders", seen=seen, behaviour="slow")).status_code == 404


async def test_an_order_is_listed_and_can_be_forgotten(rehearsing: Context) -> None:
    async with member(rehearsing, "adam") as adam:
        page = await adam.get("/desk/simulator")
        assert "This is a simulator" in page.text
        assert "Nothing: it does what the rules" in page.text
        fields = {"behaviour": "deny", "template": "commit", "after": "2", "task": "", "endpoint": "", "times": ""}
        assert (await adam.submit("/desk/simulator/orders", seen=page, **fields)).status_code == 303
        armed = simulator_of(rehearsing).program.listed()
        assert [(each["behaviour"], each["template"], each["after"]) for each in armed] == [("deny", "commit", 2)]
        page = await adam.get("/desk/simulator")
        assert "<strong>deny</strong>" in page.text
        assert (await adam.submit("/desk/simulator/end", seen=page)).status_code == 303
        assert simulator_of(rehearsing).program.listed() == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"behaviour": ""}, "Nothing was changed."),
        ({"behaviour": "dance", "template": "commit"}, "Nothing was changed."),
        ({"behaviour": "deny", "template": "commit", "after": "soon"}, "After is a number."),
        ({"behaviour": "deny", "template": "commit", "after": "1e999"}, "After is a number."),
        ({"behaviour": "deny", "template": "none"}, "The rules have no such template."),
        ({"behaviour": "deny", "template": "commit", "task": "task_1"}, "Exactly one of task and template is wanted."),
        ({"behaviour": "slow", "endpoint": "nowhere"}, "There is no endpoint of this name."),
    ],
)
async def test_what_is_no_order_is_refused_with_what_was_typed(
    rehearsing: Context, fields: dict[str, str], message: str
) -> None:
    async with member(rehearsing, "adam") as adam:
        seen = await adam.get("/desk/simulator")
        answer = await adam.submit("/desk/simulator/orders", seen=seen, **fields)
        assert answer.status_code == 422
        assert message in answer.text
    assert simulator_of(rehearsing).program.listed() == []


async def test_the_clock_is_moved_and_the_page_says_by_how_much(rehearsing: Context) -> None:
    async with member(rehearsing, "adam") as adam:
        seen = await adam.get("/desk/simulator")
        done = await adam.submit("/desk/simulator/orders", seen=seen, behaviour="clock-moved", seconds="600")
        assert done.status_code == 303
        page = (await adam.get("/desk/simulator")).text
        assert "30 Apr 2026, 20:10 UTC" in page
        assert "moved by 600 seconds" in page

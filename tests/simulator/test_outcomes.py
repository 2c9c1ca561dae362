"""What is armed happens: outcomes at their time by the service's clock, and answers to re-evaluations."""

import json
from pathlib import Path
from typing import Any

import pytest

from arap_service import audit
from tests.clock import FakeClock
from tests.pdp import question
from tests.simulator.world import CONTROL, Rehearsal, rehearsing

pytestmark = pytest.mark.anyio
OUTCOMES = {"approve": "approved", "deny": "denied", "expire": "expired", "fail": "failed", "cancel": "cancelled"}


def kinds(world: Rehearsal, chain: str) -> list[str]:
    found = world.live.context.database.read_now(lambda session: audit.entries_of(session, chain))
    return [entry.kind for entry in found]


async def approved(world: Rehearsal, tool: str = "wire_transfer") -> dict[str, Any]:
    """An approval that the simulator gives."""
    task = await world.open(tool)
    await world.simulator.round()
    approval: dict[str, Any] = (await world.status(task))["result"]["approval"]
    return approval


@pytest.mark.parametrize("behaviour", OUTCOMES)
async def test_an_outcome_comes_at_its_time_and_not_before(
    service_url: str, tmp_path: Path, clock: FakeClock, behaviour: str
) -> None:
    async with rehearsing(tmp_path, database=service_url, clock=clock) as world:
        await world.arm(behaviour, after=30)
        task = await world.open()
        clock.advance(29)
        await world.simulator.round()
        assert (await world.status(task))["task"]["status"] == "pending"
        clock.advance(1)
        await world.simulator.round()
        assert (await world.status(task))["task"]["status"] == OUTCOMES[behaviour]
        assert kinds(world, task["id"])[-1] == f"task_{OUTCOMES[behaviour]}"


@pytest.mark.parametrize("behaviour", OUTCOMES)
async def test_an_outcome_ends_every_item_of_a_bundle(
    service_url: str, tmp_path: Path, clock: FakeClock, behaviour: str
) -> None:
    async with rehearsing(tmp_path, database=service_url, clock=clock) as world:
        await world.arm(behaviour)
        shared = {"subject": {"type": "user", "id": "alice"}, "context": {"agent": "bot"}}
        items = []
        for name in ("one", "two"):
            item = {"resource": {"type": "account", "id": name}, "action": {"name": "open"}}
            said = (await world.ask({**shared, **item}))["context"]
            offer = said["access_request"]
            denial = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
            items.append({**item, "denial": {**denial, "evaluation_id": said["evaluation_id"]}})
        made = await world.submit({**shared, "items": items})
        assert made.status_code == 202, made.text
        await world.simulator.round()
        shown = (await world.status(made.json()["task"]))["task"]
    assert shown["status"] == OUTCOMES[behaviour]
    assert [item["status"] for item in shown["items"]] == [OUTCOMES[behaviour]] * 2


async def test_what_is_for_a_task_goes_before_what_is_for_its_template(
    sqlite_service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url, clock=clock) as world:
        await world.arm("approve", after=10)
        first, second = await world.open(), await world.open()
        await world.simulator.round()
        await world.arm("deny", task=first["id"])
        await world.simulator.round()
        assert (await world.status(first))["task"]["status"] == "denied"
        assert (await world.status(second))["task"]["status"] == "pending"
        clock.advance(10)
        await world.simulator.round()
        assert (await world.status(second))["task"]["status"] == "approved"


async def test_an_outcome_with_a_number_of_times_leaves_the_rest_to_the_next(
    sqlite_service_url: str, tmp_path: Path
) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        await world.arm("approve", times=2)
        await world.arm("deny")
        ended = []
        for _ in range(3):
            task = await world.open()
            await world.simulator.round()
            ended.append((await world.status(task))["task"]["status"])
        (left,) = (await world.control.get(CONTROL)).json()["armed"]
        assert (left["behaviour"], left["left"]) == ("deny", None)
    assert ended == ["approved", "approved", "denied"]


async def test_cleared_behaviours_do_nothing_more(sqlite_service_url: str, tmp_path: Path, clock: FakeClock) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url, clock=clock) as world:
        await world.arm("approve", after=10)
        task = await world.open()
        await world.simulator.round()
        await world.control.delete(CONTROL)
        clock.advance(60)
        await world.simulator.round()
        assert (await world.status(task))["task"]["status"] == "pending"


async def test_a_moved_clock_moves_every_deadline_of_the_service(
    sqlite_service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url, clock=clock) as world:
        await world.arm("approve", after=3600)
        task = await world.open()
        await world.simulator.round()
        await world.arm("clock-moved", seconds=3600)
        await world.simulator.round()
        shown = await world.status(task)
        assert shown["task"]["status"] == "approved"
        assert shown["result"]["approval"]["approved_at"] == "2026-04-30T21:00:00Z"
        await world.arm("clock-moved", seconds=3600)
        answer = await world.ask(question(), approval=shown["result"]["approval"])
        assert answer["context"]["reason"] == "approval_expired"


async def test_retry_is_answered_as_often_as_armed_and_then_permitted_and_anew_for_the_next_time(
    service_url: str, tmp_path: Path
) -> None:
    async with rehearsing(tmp_path, database=service_url) as world:
        await world.arm("approve")
        await world.arm("reevaluation-retry", times=2, retry_after=7)
        approval = await approved(world)
        for _ in range(2):
            answers = [await world.ask(question(), approval=approval) for _ in range(3)]
            assert [answer["decision"] for answer in answers] == [False, False, True]
            said = answers[0]["context"]
            assert (said["reason"], said["next_action"], said["retry_after"]) == ("grant_pending", "retry", 7)


async def test_request_is_answered_with_an_offer_that_leads_to_another_approval(
    service_url: str, tmp_path: Path
) -> None:
    async with rehearsing(tmp_path, database=service_url) as world:
        await world.arm("approve")
        await world.arm("reevaluation-request", times=1)
        answer = await world.ask(question(), approval=await approved(world))
        assert answer["context"]["next_action"] == "request"
        offer = answer["context"]["access_request"]
        denial = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
        again = await world.submit({**question(), "denial": denial}, key="second")
        await world.simulator.round()
        shown = await world.status(again.json()["task"])
        answer = await world.ask(question(), approval=shown["result"]["approval"])
        assert answer["decision"] is True


async def test_behaviours_of_a_call_come_in_the_order_of_arming(sqlite_service_url: str, tmp_path: Path) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        await world.arm("approve")
        await world.arm("reevaluation-retry", times=1)
        await world.arm("reevaluation-deny", times=1)
        approval = await approved(world)
        answers = [await world.ask(question(), approval=approval) for _ in range(3)]
    assert [each["context"].get("next_action") for each in answers] == ["retry", "none", None]
    assert answers[1]["context"]["reason"] == "policy_denied"


async def test_an_approval_is_really_revoked_before_its_first_presentation(service_url: str, tmp_path: Path) -> None:
    async with rehearsing(tmp_path, database=service_url) as world:
        await world.arm("approve")
        await world.arm("revoke-before-reevaluation", times=1)
        first, second = await approved(world), await approved(world)
        answer = await world.ask(question(), approval=first)
        assert (answer["decision"], answer["context"]["reason"]) == (False, "approval_expired")
        await world.control.delete(CONTROL)
        assert (await world.ask(question(), approval=first))["decision"] is False
        assert (await world.ask(question(), approval=second))["decision"] is True


@pytest.mark.requirement("PDP-62", "PDP-70")
async def test_no_behaviour_turns_a_denial_into_a_permit(sqlite_service_url: str, tmp_path: Path) -> None:
    """Whatever is armed, an approval that does not apply is denied for the reason that it would have elsewhere."""
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        await world.arm("approve")
        approval = await approved(world)
        for behaviour in ("reevaluation-retry", "reevaluation-request", "reevaluation-deny"):
            await world.arm(behaviour, times=100)
        foreign = await world.ask(question(), approval={**approval, "id": "apr_other"})
        assert (foreign["decision"], foreign["context"]["reason"]) == (False, "approval_unverifiable")
        unknown = await world.ask(question("unheard_of"), approval=approval)
        assert unknown["decision"] is False
        assert unknown["context"]["next_action"] == "none"


async def test_the_script_of_a_template_is_followed_without_being_told(service_url: str, tmp_path: Path) -> None:
    async with rehearsing(tmp_path, database=service_url) as world:
        approval = await approved(world, "scripted")
        answers = [await world.ask(question("scripted"), approval=approval) for _ in range(2)]
    assert [answer["decision"] for answer in answers] == [False, True]
    assert answers[0]["context"]["retry_after"] == 3


async def test_a_script_is_ignored_where_no_simulator_is(
    sqlite_service_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url, simulator=False, background=True) as world:
        task = await world.open("scripted")
        assert (await world.status(task))["task"]["status"] == "pending"
        assert world.live.context.rehearsal is None
    assert "scripts_ignored" in capsys.readouterr().out


async def test_what_the_simulator_did_stands_in_the_audit_under_its_name(
    sqlite_service_url: str, tmp_path: Path
) -> None:
    async with rehearsing(tmp_path, database=sqlite_service_url) as world:
        await world.arm("deny")
        task = await world.open()
        await world.simulator.round()
        entry = world.live.context.database.read_now(lambda session: audit.entries_of(session, task["id"]))[-1]
        shown = await world.status(task)
    assert entry.actor == "simulator"
    assert json.loads(entry.detail)["by"] == "simulator"
    assert shown["task"]["display"]["urn:x-arap:decision"] == {"reason": "The simulator was told to deny."}

"""A question about several things at once changes what anybody may decide on, of each of them (ARS-118)."""

import pytest

from arap_service import requests
from arap_service.domain.errors import IneligibleApprover, InputInvalid, StaleVersion
from arap_service.requests import conversation
from tests.pdp import change_rules
from tests.requests.bundles import bundle, decide, handle, rows
from tests.requests.world import GATE, World, person

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("ARS-118")
async def test_answer_about_a_bundle_gives_every_open_item_its_next_version(world: World) -> None:
    """An item that is settled keeps its version, and one that is open cannot be decided on what was seen before."""
    task_id = await bundle(world, "wire_transfer", "quiet")
    await decide(world, task_id, 1)
    settled, seen = await rows(world, task_id)
    shown = await requests.ask(world.ctx, person("ann"), task_id, message="Why both?")
    assert [question.message for question in shown.questions] == ["Why both?"]
    assert "urn:x-arap:input" in (await handle(world, task_id))["links"]
    await requests.answer(world.ctx, GATE, task_id, version=1, given={"answer": "They belong together."})
    after = await rows(world, task_id)
    assert (after[0].version, after[1].version) == (settled.version, seen.version + 2)
    with pytest.raises(StaleVersion):
        await requests.decide(
            world.ctx, person("ann"), task_id, decision="approve", version=seen.version, item=seen.item
        )


async def test_who_may_not_decide_a_request_says_nothing_about_it(world: World) -> None:
    """Somebody whom no step lets decide asks nothing, comments nothing and holds nothing."""
    task_id = await world.pending()
    for attempt in (
        requests.ask(world.ctx, person("zoe"), task_id, message="Why?"),
        requests.comment(world.ctx, person("zoe"), task_id, text="Hm"),
        requests.claim(world.ctx, person("zoe"), task_id),
        requests.release(world.ctx, person("zoe"), task_id),
    ):
        with pytest.raises(IneligibleApprover):
            await attempt
    assert await world.kinds(task_id) == ["task_submitted"]


async def test_reviewer_who_has_voted_may_still_ask(world: World) -> None:
    task_id = await world.pending("payroll")
    await world.decide(task_id, "ann", reason="fine")
    shown = await requests.ask(world.ctx, person("ann"), task_id, message="For which month?")
    assert (shown.questions[0].asked_by, shown.claimed_by) == ("Ann Treasurer", None)


async def test_answer_about_a_bundle_hides_what_any_of_its_items_calls_a_secret(world: World) -> None:
    """Whichever item comes first."""
    change_rules(world.ctx, world.ctx.settings.policy_path, "title: Merger", "title: Merger\n    mask: [iban]")
    for resources in (("wire_transfer", "merge"), ("merge", "wire_transfer")):
        task_id = await bundle(world, *resources)
        await requests.ask(world.ctx, person("ann"), task_id, message="From where?", schema={"type": "object"})
        await requests.answer(
            world.ctx, GATE, task_id, version=1, given={"iban": "DE1", "password": "x", "city": "Köln"}
        )
        (asked,) = (await requests.detail(world.ctx, person("ann"), task_id)).questions
        assert {value.pointer: value.masked for value in asked.answer} == {
            "/iban": True,
            "/password": True,
            "/city": False,
        }


async def test_a_question_whose_schema_is_no_longer_applied_takes_no_answer_and_keeps_nobody_from_deciding(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked of an earlier release, which took schemas that refer to themselves."""
    task_id = await world.pending()
    schema = {"type": "object", "properties": {"again": {"$ref": "#"}}}
    with monkeypatch.context() as earlier:
        earlier.setattr(conversation, "_schema", lambda given: given)
        await requests.ask(world.ctx, person("ann"), task_id, message="From where?", schema=schema)
    with pytest.raises(InputInvalid) as refused:
        await requests.answer(world.ctx, GATE, task_id, version=1, given={"again": {}})
    assert refused.value.extra["errors"] == [{"pointer": "/input", "code": "schema"}]
    assert (await world.decide(task_id, "ann", version=2)).status == "approved"

"""What a decision carries, on the page of a request: hints for reasons, a scope to narrow, values to propose."""

from dataclasses import replace
from html import unescape

import pytest
from fastapi import FastAPI

from arap_service import requests
from arap_service.context import Context
from arap_service.requests.standing_rules import list_rules
from arap_service.settings_parts import DeskSettings
from arap_service.store.people_tables import Person
from arap_service.views import RequestDetail
from tests.requests.world import person
from tests.service import app_for, bearer, http
from tests.web.desk import Browser, add_person, ask, decide

pytestmark = pytest.mark.anyio
HINT = "Name the change, such as CHG-12."
WIDE = ("/context/arguments_hash", "/resource/properties/region")


async def bill(app: FastAPI, context: Context) -> str:
    """A request whose template says everything that one can."""
    arguments = {"amount": 120, "to": "ACME", "pin": "canary-pin"}
    async with http(app, headers=bearer(context, "gate")) as gate:
        return await ask(gate, "pay", arguments, server="bank")


async def stands(context: Context, task_id: str) -> RequestDetail:
    return await requests.detail(context, person("grace"), task_id)


async def test_page_says_what_a_reason_needs_before_and_after_it_was_forgotten(
    app: FastAPI, context: Context, grace: Browser
) -> None:
    task_id = await bill(app, context)
    seen = await grace.get(f"/desk/requests/{task_id}")
    assert f"To approve: {HINT}" in unescape(seen.text)
    assert 'aria-describedby="reason-hint"' in seen.text
    refused = await decide(grace, task_id, "approve", reason="looks fine")
    assert refused.status_code == 422
    assert f"The reason lacks something. {HINT}" in unescape(refused.text)
    assert "looks fine" in refused.text
    assert (await stands(context, task_id)).status == "pending"


async def test_scope_is_told_in_words_and_can_be_narrowed_member_by_member(
    app: FastAPI, context: Context, grace: Browser
) -> None:
    task_id = await bill(app, context)
    seen = await grace.get(f"/desk/requests/{task_id}")
    text = unescape(seen.text)
    assert text.count("Any bill up to 500.") == 2, "among what an approval allows, and where it is given"
    assert "What may be different: the values of the call, resource → region." in text
    assert seen.text.count('type="checkbox"') == seen.text.count(" checked>") == 2
    wish = {"scope": "shown", "vary-1": WIDE[1], "reason": "no change named"}
    again = await decide(grace, task_id, "approve", **wish)
    assert (again.status_code, again.text.count(" checked>")) == (422, 1)
    assert (await decide(grace, task_id, "approve", **(wish | {"reason": "CHG-1"}))).status_code == 303
    approval = (await stands(context, task_id)).approval
    assert approval is not None
    assert approval.may_vary == WIDE[1:]
    after = unescape((await grace.get(f"/desk/requests/{task_id}")).text)
    assert "What may be different: resource → region." in after
    assert "It can be used for what it allows" in after


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"scope": "shown"}, ()), ({}, WIDE), ({"scope": "shown", "vary-0": WIDE[0], "vary-1": WIDE[1]}, WIDE)],
)
async def test_without_a_tick_it_is_exactly_what_was_asked(
    app: FastAPI, context: Context, grace: Browser, fields: dict[str, str], expected: tuple[str, ...]
) -> None:
    task_id = await bill(app, context)
    assert (await decide(grace, task_id, "approve", reason="CHG-1", **fields)).status_code == 303
    approval = (await stands(context, task_id)).approval
    assert approval is not None
    assert approval.may_vary == expected
    text = (await grace.get(f"/desk/requests/{task_id}")).text
    assert ("Exactly this" in text) == (not expected)


async def test_forged_tick_widens_nothing(app: FastAPI, context: Context, grace: Browser) -> None:
    task_id = await bill(app, context)
    forged = {"scope": "shown", "vary-9": "/resource/id"}
    assert (await decide(grace, task_id, "approve", reason="CHG-1", **forged)).status_code == 422
    assert (await stands(context, task_id)).status == "pending"


async def test_denial_proposes_the_values_that_were_changed(app: FastAPI, context: Context, grace: Browser) -> None:
    task_id = await bill(app, context)
    seen = await grace.get(f"/desk/requests/{task_id}")
    assert ('name="propose-0"' in seen.text, "canary-pin" in seen.text) == (True, False)
    fields = {"propose-0": "90", "propose-1": "ACME", "reason": "too much"}
    assert (await decide(grace, task_id, "deny", **fields)).status_code == 303
    async with http(app, headers=bearer(context, "gate")) as gate:
        told = (await gate.get(f"/access/v1/request/{task_id}")).json()["task"]["display"]
    assert told["urn:x-arap:decision"] == {"reason": "too much", "proposed_arguments": {"amount": 90, "to": "ACME"}}
    after = unescape((await grace.get(f"/desk/requests/{task_id}")).text)
    assert "Proposed instead:" in after


async def test_unchanged_values_are_no_proposal(app: FastAPI, context: Context, grace: Browser) -> None:
    task_id = await bill(app, context)
    fields = {"propose-0": "120", "propose-1": "ACME", "reason": "no"}
    assert (await decide(grace, task_id, "deny", **fields)).status_code == 303
    assert (await stands(context, task_id)).votes[0].proposed == ()


@pytest.mark.parametrize(
    ("decision", "value", "message"),
    [
        ("approve", "90", "An approval is for the values that were asked"),
        ("deny", "ninety", "is not of the kind of the one that it replaces"),
    ],
)
async def test_changed_value_is_never_approved_and_keeps_its_kind(
    app: FastAPI, context: Context, grace: Browser, *, decision: str, value: str, message: str
) -> None:
    task_id = await bill(app, context)
    answer = await decide(grace, task_id, decision, **{"propose-0": value, "reason": "CHG-1"})
    assert answer.status_code == 422
    assert message in unescape(answer.text)
    assert f"\n{value}</textarea>" in answer.text
    assert (await stands(context, task_id)).status == "pending"


async def test_reviewer_proposes_a_standing_rule_and_an_administrator_puts_it_into_force(
    app: FastAPI, context: Context, grace: Browser
) -> None:
    task_id = await bill(app, context)
    assert (await decide(grace, task_id, "approve", reason="CHG-1")).status_code == 303
    path = f"/desk/requests/{task_id}"
    seen = await grace.get(path)
    assert "Always decide like this" in seen.text
    assert (await grace.submit(f"{path}/rule", seen=seen, days="31")).status_code == 422
    wish = {"days": "7", "scope": "shown", "vary-0": WIDE[0]}
    assert (await grace.submit(f"{path}/rule", seen=seen, **wish)).status_code == 303
    hers = await grace.get("/desk/rules")
    assert ("Only an administrator may do this." in hers.text, "Put it into force" in hers.text) == (True, False)
    [rule] = (await list_rules(context, person("grace"))).items
    assert (rule.status, rule.days, rule.may_vary) == ("proposed", 7, WIDE[:1])
    assert (await grace.submit(f"/desk/rules/{rule.id}/confirm", seen=hers)).status_code == 403
    desk = DeskSettings(administrators=frozenset({"admins"}))
    other = replace(context, settings=context.settings.model_copy(update={"desk": desk}))
    add_person(context, "boss", name="Boss", groups=("admins",))
    boss = Browser(app_for(other))
    assert (await boss.log_in("boss")).status_code == 303
    seen = await boss.get("/desk/rules")
    assert "Put it into force" in seen.text
    assert (await boss.submit(f"/desk/rules/{rule.id}/confirm", seen=seen)).status_code == 303
    assert (await boss.submit(f"/desk/rules/{rule.id}/confirm", seen=seen)).status_code == 409
    page = (await boss.get("/desk/rules")).text
    assert ("End it now" in page, "nothing is approved by this now" in page) == (True, False)
    context.database.write_now(lambda session: setattr(session.get_one(Person, "grace"), "active", False))
    assert "Grace Hopper may not decide this any more" in (await boss.get("/desk/rules")).text
    context.database.write_now(lambda session: setattr(session.get_one(Person, "grace"), "active", True))
    assert (await grace.submit(f"/desk/rules/{rule.id}/end", seen=hers)).status_code == 303
    assert (await list_rules(context, person("grace"))).items[0].status == "ended"
    assert (await boss.submit(f"/desk/rules/{rule.id}/burn", seen=seen)).status_code == 404
    await boss.client.aclose()

"""Submission of several things: all are verified or nothing is written; what each asks, and what a retry gets."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from sqlmodel import select

from arap_service import requests
from arap_service.domain.errors import (
    ArapError,
    BulkUnsupported,
    CallbackRejected,
    DuplicateRequest,
    ExpiredDenial,
    Forbidden,
    InputInvalid,
    InvalidDenialBinding,
    InvalidRequest,
    NotRequestable,
)
from arap_service.protocol.arap import format_instant
from arap_service.protocol.canonical import TOOL_CALL, arguments_hash, digest
from arap_service.store.tables import IdempotencyKey, JtiUse, Task
from tests.requests.bundles import asked, body_of, bundle, covering, denied, handle, rows, statuses, submit
from tests.requests.world import ARGUMENTS, CALLBACK, GATE, World

pytestmark = pytest.mark.anyio


async def refused(world: World, body: dict[str, Any], *, key: str | None = None) -> ArapError:
    """The error that a submission meets, which leaves nothing behind."""
    with pytest.raises(ArapError) as caught:
        await submit(world, body, key=key)
    assert await world.ctx.database.read(lambda session: session.exec(select(Task)).first()) is None
    assert await world.ctx.database.read(lambda session: session.exec(select(JtiUse)).first()) is None
    assert await world.ctx.database.read(lambda session: session.exec(select(IdempotencyKey)).first()) is None
    return caught.value


@pytest.mark.requirement("ARS-79", "ARS-82")
async def test_items_with_denials_of_their_own_become_one_request_in_whatever_order(world: World) -> None:
    body = await body_of(world, "wire_transfer", "merge", "payroll")
    body["items"] = [body["items"][index] for index in (2, 0, 1)]
    submitted = await submit(world, body)
    assert submitted.status_code == 202
    task = submitted.task
    assert (task["status"], set(task)) == (
        "pending",
        {"id", "status", "status_endpoint", "expires_at", "links", "items"},
    )
    assert task["items"] == [
        {"resource": item["resource"], "action": item["action"], "status": "pending"} for item in body["items"]
    ]
    assert [row.template_id for row in await rows(world, task["id"])] == ["quorum", "transfer", "board"]
    assert await handle(world, task["id"]) == task


@pytest.mark.requirement("ARS-78", "ARS-79")
async def test_one_denial_may_cover_the_whole_bundle_in_its_order_only(world: World) -> None:
    body = await body_of(world, "wire_transfer", "merge", "payroll")
    bare = [{name: item[name] for name in ("resource", "action")} for item in body["items"]]
    body |= {"items": bare, "denial": covering(world, body)}
    assert isinstance(await refused(world, body | {"items": [bare[1], bare[0], bare[2]]}), InvalidDenialBinding)
    assert isinstance(await refused(world, body | {"items": bare[:2]}), InvalidDenialBinding)
    more = {"resource": {"type": "account", "id": "quiet"}, "action": {"name": "open"}}
    assert isinstance(await refused(world, body | {"items": [*bare, more]}), InvalidDenialBinding)
    submitted = await submit(world, body)
    assert len(submitted.task["items"]) == 3
    with pytest.raises(InvalidDenialBinding):  # it is spent, once and for all items
        await submit(world, body | {"display": {"title": "again"}})


@pytest.mark.requirement("ARS-80")
async def test_a_bad_item_refuses_the_whole_submission(world: World) -> None:
    """Also when the denial of the whole bundle would cover that item (ARS-78)."""
    body = await body_of(world, "wire_transfer", "merge", "payroll")
    strange = await denied(world, asked("quiet"))
    closed = {**body["items"][2], "resource": {"type": "account", "id": "quiet"}}
    forged = {**body["items"][2], "denial": {**body["items"][2]["denial"], "binding_token": "forged"}}
    foreign = {**body["items"][2], "denial": strange["denial"]}
    for bad in (closed, forged, foreign):
        assert isinstance(
            await refused(world, body | {"items": [*body["items"][:2], bad]}, key="k"), InvalidDenialBinding
        )
    bare = [{name: item[name] for name in ("resource", "action")} for item in body["items"]]
    mixed = body | {"items": [bare[0], bare[1], forged], "denial": covering(world, body)}
    assert isinstance(await refused(world, mixed), InvalidDenialBinding)
    mixed["items"][2] = body["items"][2]
    assert (await submit(world, mixed)).status_code == 202


@pytest.mark.requirement("ARS-78", "ARS-80")
async def test_an_item_without_any_denial_is_malformed_and_one_without_binding_material_is_refused(
    world: World,
) -> None:
    body = await body_of(world, "wire_transfer", "merge")
    bare = {name: body["items"][1][name] for name in ("resource", "action")}
    fault = await refused(world, body | {"items": [body["items"][0], bare]})
    assert isinstance(fault, InvalidRequest)
    assert fault.extra["pointer"] == "/denial"
    empty = {**bare, "denial": {"expires_at": body["items"][1]["denial"]["expires_at"]}}
    assert isinstance(await refused(world, body | {"items": [body["items"][0], empty]}), InvalidDenialBinding)


@pytest.mark.requirement("ARS-77", "ARS-80")
async def test_malformed_bundles_are_refused_with_a_pointer(world: World) -> None:
    body = await body_of(world, "wire_transfer", "merge")
    first, second = body["items"]
    limit = world.ctx.settings.limits.max_items
    many = [{**first, "resource": {"type": "account", "id": f"a{number}"}} for number in range(limit + 1)]
    spelt = {**first, "denial": second["denial"], "action": {"name": "open"}}
    until = {**first, "requested_access": {"requested_until": 5}}
    for changes, pointer in (
        ({"items": []}, "/items"),
        ({"items": many}, "/items"),
        ({"items": [first, second, spelt]}, "/items/2"),
        ({"items": [second, until]}, "/items/1/requested_access/requested_until"),
        ({"items": [first, {"resource": second["resource"], "denial": second["denial"]}]}, "/items/1/action"),
        ({"items": [{**first, "resource": {"type": "account", "id": "a\x00b"}}]}, "/items/0/resource/id"),
        ({"resource": first["resource"], "action": first["action"]}, "/resource"),
        ({"resource": first["resource"]}, "/resource"),
        ({"action": first["action"]}, "/action"),
    ):
        fault = await refused(world, body | changes)
        assert isinstance(fault, InvalidRequest), changes
        assert fault.extra["pointer"] == pointer


@pytest.mark.requirement("ARS-87")
async def test_switched_off_means_refused_and_never_ignored(world: World) -> None:
    settings = world.ctx.settings.model_copy(update={"bulk": False})
    world = World(replace(world.ctx, settings=settings), world.clock)
    fault = await refused(world, await body_of(world, "wire_transfer", "merge"))
    assert isinstance(fault, BulkUnsupported)
    assert fault.urn == "urn:x-arap:problem:bulk-unsupported"


@pytest.mark.requirement("ARS-86")
async def test_items_that_were_denied_in_different_contexts_cannot_share_a_request(world: World) -> None:
    ours, theirs = asked("wire_transfer"), asked("merge", tenant="rival")
    listed = [await denied(world, ours), await denied(world, theirs)]
    body = {"subject": ours["subject"], "items": listed, "context": ours["context"]}
    assert isinstance(await refused(world, body), InvalidDenialBinding)
    assert isinstance(await refused(world, body | {"context": theirs["context"]}), InvalidDenialBinding)
    # What does not bind may differ, since one of both is shown only.
    later = asked("merge", time="2026-04-30T20:00:07Z")
    assert (await submit(world, body | {"items": [listed[0], await denied(world, later)]})).status_code == 202


@pytest.mark.requirement("ARS-81")
async def test_wishes_of_an_item_go_before_those_for_all(world: World) -> None:
    """The effective values are what the audit keeps and what limits the approval."""
    early, late = (format_instant(world.clock() + timedelta(seconds=seconds)) for seconds in (300, 600))
    body = await body_of(world, "wire_transfer", "merge", requested_access={"requested_until": late, "x.example/a": 1})
    body["items"][1]["requested_access"] = {"requested_until": early, "x.example/b": 2}
    task_id = (await submit(world, body)).task["id"]
    entries = [json.loads(entry.detail) for entry in await world.audit(task_id) if entry.kind == "item_submitted"]
    effective = [
        {"requested_until": late, "x.example/a": 1},
        {"requested_until": early, "x.example/a": 1, "x.example/b": 2},
    ]
    assert [(entry["item"], entry["requested_until"], entry["requested_access_digest"]) for entry in entries] == [
        (item, wanted["requested_until"], digest(wanted)) for item, wanted in enumerate(effective, start=1)
    ]
    first, second = await rows(world, task_id)
    assert first.requested_until is not None
    assert second.requested_until is not None
    assert [format_instant(first.requested_until), format_instant(second.requested_until)] == [late, early]


@pytest.mark.requirement("ARS-105")
async def test_input_that_one_item_lacks_is_named_with_its_place(world: World) -> None:
    body = await body_of(world, "wire_transfer", "form", callback={"endpoint": "https://unknown.example/x"})
    body["context"]["business_justification"] = "x"
    body["items"][1]["requested_access"] = {"days": 6}
    fault = await refused(world, body)
    assert isinstance(fault, InputInvalid)
    assert sorted(error["pointer"] for error in fault.extra["errors"]) == [
        "/context/business_justification",
        "/items/1/requested_access/days",
    ]
    body["context"]["business_justification"] = "because"
    body["items"][1]["requested_access"] = {"days": 5}
    assert isinstance(await refused(world, body), CallbackRejected)  # looked at once the input is good


async def test_each_item_is_a_question_of_its_own_to_the_rules_about_clients(world: World) -> None:
    """ARS-11, step 3: nobody smuggles in an item that he may not ask for alone."""
    body = await body_of(world, "wire_transfer")
    assert isinstance(await refused(world, body | {"subject": {"type": "user", "id": "mallory"}}), Forbidden)


@pytest.mark.requirement("ARS-80")
async def test_an_old_denial_of_one_item_is_an_old_denial_of_all(world: World) -> None:
    first = await denied(world, asked("wire_transfer"))
    world.clock.advance(400)
    body = {"subject": asked()["subject"], "context": asked()["context"]}
    late = body | {"items": [await denied(world, asked("merge")), first]}
    assert isinstance(await refused(world, late), ExpiredDenial)


async def test_a_tool_call_is_shown_with_the_tool_that_it_calls_only(world: World) -> None:
    """X-24, ARS-20: one context carries one call, which no other tool's item may borrow."""
    call = {"server": "bank", "tool": "wire_transfer", "arguments": dict(ARGUMENTS)}
    context = {"arguments_hash": arguments_hash(ARGUMENTS), "server": "bank", TOOL_CALL: call}
    one, other = (
        {**asked(name, **context), "resource": {"type": "tool", "id": name}} for name in ("wire_transfer", "merge")
    )
    own = await denied(world, one)
    body = {
        "subject": one["subject"],
        "context": one["context"],
        "items": [own, await denied(world, asked("payroll", **context))],
    }
    borrowed = {**body["items"][1], "resource": other["resource"]}
    assert isinstance(await refused(world, body | {"items": [own, borrowed]}), InvalidDenialBinding)
    assert (await submit(world, body)).status_code == 202


@pytest.mark.requirement("ARS-39", "ARS-40", "ARS-41")
async def test_a_retry_under_the_same_key_gets_the_same_request_and_another_order_is_another_body(world: World) -> None:
    body = await body_of(world, "wire_transfer", "merge")
    first = await submit(world, body, key="one")
    assert (await submit(world, body, key="one")).body == first.body
    with pytest.raises(DuplicateRequest):
        await submit(world, body | {"items": body["items"][::-1]}, key="one")
    with pytest.raises(InvalidDenialBinding):
        await submit(world, body, key="two")


@pytest.mark.requirement("ARS-35")
async def test_a_token_is_spent_once_whether_alone_or_among_others(world: World) -> None:
    body = await body_of(world, "wire_transfer", "merge")
    alone = {"subject": body["subject"], "context": body["context"], **body["items"][1]}
    await submit(world, body)
    with pytest.raises(InvalidDenialBinding):
        await submit(world, alone)
    fresh = await body_of(world, "wire_transfer", "merge")
    single = {"subject": fresh["subject"], "context": fresh["context"], **fresh["items"][0]}
    assert (await submit(world, single)).status_code == 202
    with pytest.raises(InvalidDenialBinding):
        await submit(world, fresh)


async def by_id(world: World, *resources: str) -> dict[str, Any]:
    """A bundle whose items rest on denials that were recorded without a token."""
    listed = [
        {
            "resource": asked(resource)["resource"],
            "action": asked(resource)["action"],
            "denial": world.denial(evaluation_id=await world.recorded(asked(resource))),
        }
        for resource in resources
    ]
    return {"subject": asked()["subject"], "context": asked()["context"], "items": listed}


@pytest.mark.requirement("ARS-37")
async def test_denials_on_record_make_one_open_request_alone_or_among_others(world: World) -> None:
    body = await by_id(world, "wire_transfer", "merge")
    first = await submit(world, body)
    assert (await submit(world, body)).task["id"] == first.task["id"]
    alone = {"subject": body["subject"], "context": body["context"], **body["items"][1]}
    for other in (alone, body | {"items": body["items"][::-1]}, body | {"items": body["items"][:1]}):
        with pytest.raises(InvalidDenialBinding):
            await submit(world, other)
    fresh = await by_id(world, "payroll", "quiet")
    await submit(world, {"subject": fresh["subject"], "context": fresh["context"], **fresh["items"][1]})
    with pytest.raises(InvalidDenialBinding):
        await submit(world, fresh)


@pytest.mark.requirement("ARS-37", "ARS-49")
async def test_of_many_submissions_at_once_one_makes_a_request(world: World) -> None:
    """On PostgreSQL they run side by side, and no index spans the requests of one and of several."""
    body = await by_id(world, "wire_transfer", "merge")
    alone = {"subject": body["subject"], "context": body["context"], **body["items"][0]}
    made: list[str] = []

    async def attempt(sent: dict[str, Any]) -> None:
        with suppress(InvalidDenialBinding):
            made.append((await submit(world, sent)).task["id"])

    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(attempt, alone if number % 2 else body)
    assert len(set(made)) == 1
    stored = await world.ctx.database.read(lambda session: session.exec(select(Task)).all())
    assert [task.id for task in stored] == [made[0]]


@pytest.mark.requirement("ARS-78")
async def test_a_denial_on_record_covers_no_bundle(world: World) -> None:
    """X-09: what is on record here is one evaluation; a plain one is not even requestable (ARS-12)."""
    body = await body_of(world, "wire_transfer", "merge")
    bare = [{name: item[name] for name in ("resource", "action")} for item in body["items"]]
    evaluation_id = await world.recorded(asked("wire_transfer"))
    recorded = body | {"items": bare, "denial": world.denial(evaluation_id=evaluation_id)}
    assert isinstance(await refused(world, recorded), InvalidDenialBinding)
    plain = world.denial(evaluation_id=world.ctx.keys.mint_evaluation_id("deny"))
    assert isinstance(await refused(world, body | {"items": bare, "denial": plain}), NotRequestable)


@pytest.mark.requirement("ARS-51", "ARS-82")
async def test_rules_may_settle_some_items_at_once_or_all_of_them(world: World) -> None:
    context = {"rating": 5}
    some = await submit(world, await body_of(world, "wire_transfer", "rated", context=context))
    assert (some.status_code, [item["status"] for item in some.task["items"]]) == (202, ["pending", "approved"])
    assert "result" not in some.task["items"][0]
    assert some.task["items"][1]["result"]["mode"] == "reevaluate"
    every = await submit(world, await body_of(world, "rated", context=context))
    assert (every.status_code, await statuses(world, every.task["id"])) == (201, ["approved", "approved"])
    assert every.result is None
    assert await world.kinds(every.task["id"]) == [
        "task_submitted",
        "item_submitted",
        "evaluator_heard",
        "evaluator_heard",
        "item_approved",
        "task_approved",
    ]


@pytest.mark.requirement("ARS-122", "ARS-123")
async def test_the_audit_names_what_all_share_once_and_each_item_with_its_evaluation(world: World) -> None:
    body = await body_of(world, "wire_transfer", "merge")
    task_id = (await submit(world, body)).task["id"]
    entries = await world.audit(task_id)
    assert [(entry.kind, json.loads(entry.detail).get("item")) for entry in entries] == [
        ("task_submitted", None),
        ("item_submitted", 1),
        ("item_submitted", 2),
    ]
    assert [entry.evaluation_id for entry in entries] == [
        None, *(item["denial"]["evaluation_id"] for item in body["items"])
    ]  # fmt: skip
    shared, first, second = (json.loads(entry.detail) for entry in entries)
    assert (shared["items"], shared["subject"], shared["client"]) == (2, {"type": "user", "id": "alice"}, "gate")
    assert [(each["resource"]["id"], each["template"], each["rule"]) for each in (first, second)] == [
        ("wire_transfer", "transfer", "rule-transfer"),
        ("merge", "board", "rule-board"),
    ]


async def test_results_need_the_right_to_results(world: World) -> None:
    """ARS-66, X-12: a status without results for who may see the status only."""
    task_id = await bundle(world, "rated", context={"rating": 5}, callback={"endpoint": CALLBACK})
    poor = replace(GATE, scopes=frozenset({"arap:status"}))
    items = (await requests.status(world.ctx, poor, task_id))["task"]["items"]
    assert [set(item) for item in items] == [{"resource", "action", "status", "links"}]

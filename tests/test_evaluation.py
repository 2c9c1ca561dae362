"""Evaluations alone and in batches, by the use case: AuthZEN "Access Evaluation API", "Access Evaluations API"."""

from collections.abc import AsyncIterator
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from arap_service.context import Context
from arap_service.domain.errors import InvalidRequest
from arap_service.domain.names import MOST_BYTES
from arap_service.evaluation import MOST_EVALUATIONS, evaluate, evaluations
from arap_service.protocol.canonical import TOOL_CALL
from arap_service.store import migrate
from tests import pdp
from tests.clock import FakeClock
from tests.databases import Databases
from tests.pdp import GATE, approved, call_context, claims_of, presenting, question
from tests.protocol import vectors
from tests.service import service_context, settings_for

PERMITTED = {"resource": {"type": "tool", "id": "open_tool"}}
DENIED = {"resource": {"type": "tool", "id": "unknown"}}
REQUESTABLE = {"resource": {"type": "tool", "id": "wire_transfer"}}
SEMANTICS = vectors.load("evaluations-semantics")


@pytest.fixture
async def ctx(databases: Databases, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Context]:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    async with service_context(settings_for(tmp_path, database=url, policy=pdp.POLICY), clock=clock) as opened:
        yield opened


def lengthened(place: str, name: str) -> dict[str, Any]:
    """A question whose member at `place` is `name`."""
    asked = deepcopy(question())
    *members, last = place.split("/")
    reduce(getitem, members, asked)[last] = name
    return asked


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["subject/type", "subject/id", "resource/type", "resource/id", "action/name"])
async def test_a_name_beyond_any_is_an_invalid_request_and_a_long_one_is_not(ctx: Context, place: str) -> None:
    """What could not be kept is refused when it is asked about, and not first when it is requested."""
    for name in ("x" * MOST_BYTES, "é" * (MOST_BYTES // 2)):
        assert (await evaluate(ctx, GATE, lengthened(place, name)))["decision"] is False
    for name in ("x" * (MOST_BYTES + 1), "é" * (MOST_BYTES // 2 + 1)):
        with pytest.raises(InvalidRequest) as refused:
            await evaluate(ctx, GATE, lengthened(place, name))
        assert f"/{place} " in str(refused.value)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "place",
    ["context/agent", "context/server", "context/arguments_hash", f"context/{TOOL_CALL}/tool"],
)
async def test_a_name_in_the_context_beyond_any_is_an_invalid_request(ctx: Context, place: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await evaluate(ctx, GATE, lengthened(place, "x" * (MOST_BYTES + 1)))
    assert f"/{place} " in str(refused.value)


def batch(*entries: dict[str, Any], **members: Any) -> dict[str, Any]:
    defaults = {name: value for name, value in question().items() if name != "resource"}
    return {**defaults, "evaluations": list(entries), **members}


def decisions(answer: dict[str, Any]) -> list[bool]:
    return [result["decision"] for result in answer["evaluations"]]


@pytest.mark.anyio
async def test_every_answer_has_an_identifier_that_tells_its_kind(ctx: Context) -> None:
    permit = await evaluate(ctx, GATE, question("open_tool"))
    deny = await evaluate(ctx, GATE, question("unknown"))
    offer = await evaluate(ctx, GATE, question())
    kinds = [ctx.keys.evaluation_kind(answer["context"]["evaluation_id"]) for answer in (permit, deny, offer)]
    assert kinds == ["permit", "deny", "requestable"]
    assert permit == {"decision": True, "context": {"evaluation_id": permit["context"]["evaluation_id"]}}
    assert deny["context"]["reason"] == "policy_denied"


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["subject", "resource", "action"])
@pytest.mark.requirement("PDP-02")
async def test_a_missing_member_is_an_invalid_request(ctx: Context, name: str) -> None:
    asked = question()
    del asked[name]
    with pytest.raises(InvalidRequest):
        await evaluate(ctx, GATE, asked)


@pytest.mark.anyio
@pytest.mark.requirement("PDP-14")
async def test_numbers_that_nothing_can_bind_are_refused_where_they_would_bind(ctx: Context) -> None:
    for name in ("subject", "resource", "action"):
        for number, fits in ((2**53 - 1, True), (-(2**53), False), (2**53 + 1, False)):
            asked = question("open_tool")
            asked[name] = {**asked[name], "properties": {"n": [number]}}
            if fits:
                assert (await evaluate(ctx, GATE, asked))["decision"] is True
            else:
                with pytest.raises(InvalidRequest):
                    await evaluate(ctx, GATE, asked)
    with pytest.raises(InvalidRequest):
        await evaluate(ctx, GATE, question("open_tool", context=call_context(n=2**53)))
    unbound = call_context(time=2**53, arguments_hash=None)
    unbound[TOOL_CALL] = {**unbound[TOOL_CALL], "arguments": {"n": 2**53}}
    assert (await evaluate(ctx, GATE, question("open_tool", context=unbound)))["decision"] is True


@pytest.mark.anyio
@pytest.mark.requirement("PDP-15")
async def test_null_and_absent_bind_differently(ctx: Context) -> None:
    hashes = set()
    for context in (call_context(), {**call_context(), "project": None}):
        denial = await pdp.denied(ctx, question(context=context))
        hashes.add(claims_of(denial["access_request"]["binding_token"])["binding_hash"])
    assert len(hashes) == 2


@pytest.mark.anyio
@pytest.mark.requirement("PDP-06")
async def test_context_that_is_no_policy_input_changes_nothing(ctx: Context) -> None:
    for tool in ("open_tool", "unknown"):
        asked = question(tool, context={"ip": "192.168.1.1"})
        plain = {name: value for name, value in asked.items() if name != "context"}
        assert (await evaluate(ctx, GATE, asked))["decision"] == (await evaluate(ctx, GATE, plain))["decision"]


@pytest.mark.anyio
@pytest.mark.requirement("PDP-16")
async def test_an_entrys_member_replaces_the_default_whole(ctx: Context) -> None:
    default = {"type": "record", "id": "record-2", "properties": {"status": "archived"}}
    asked = {
        "subject": {"type": "user", "id": "bob", "properties": {"role": "admin"}},
        "action": {"name": "write"},
        "resource": default,
        "evaluations": [
            {},
            {"resource": {"type": "record", "id": "record-2"}},
            {"subject": {"type": "user", "id": "bob"}},
        ],
    }
    assert decisions(await evaluations(ctx, GATE, asked)) == [True, False, False]


@pytest.mark.anyio
@pytest.mark.requirement("PDP-17", "PDP-22")
async def test_results_come_in_the_order_of_the_entries_and_without_a_common_decision(ctx: Context) -> None:
    answer = await evaluations(ctx, GATE, batch(PERMITTED, DENIED, PERMITTED, DENIED))
    assert decisions(answer) == [True, False, True, False]
    assert set(answer) == {"evaluations"}


@pytest.mark.anyio
@pytest.mark.parametrize("empty", [{}, {"evaluations": []}, {"evaluations": [], "options": {}}], ids=str)
@pytest.mark.requirement("PDP-18")
async def test_without_entries_a_batch_is_a_single_evaluation(ctx: Context, empty: dict[str, Any]) -> None:
    answer = await evaluations(ctx, GATE, {**question("open_tool"), **empty})
    assert answer["decision"] is True
    assert "evaluations" not in answer


@pytest.mark.anyio
@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"resource": "x"},
        {"resource": {"type": "tool"}},
        {**PERMITTED, "subject": {"type": "user", "id": 7}},
        {**PERMITTED, "context": []},
        {"resource": {"type": "tool", "id": "open_tool", "properties": {"n": 2**53}}},
    ],
    ids=str,
)
@pytest.mark.requirement("PDP-19")
async def test_an_entry_that_cannot_be_evaluated_is_denied_in_its_place(ctx: Context, entry: dict[str, Any]) -> None:
    answer = await evaluations(ctx, GATE, batch(PERMITTED, entry, PERMITTED))
    assert decisions(answer) == [True, False, True]
    assert answer["evaluations"][1]["context"]["error"]["status"] == 400


@pytest.mark.anyio
@pytest.mark.parametrize("case", SEMANTICS["cases"], ids=lambda case: str(case["semantic"]))
@pytest.mark.requirement("PDP-20", "PDP-21")
async def test_semantics(ctx: Context, case: dict[str, Any]) -> None:
    """`evaluations-semantics.json`."""
    entries = [PERMITTED if permit else DENIED for permit in SEMANTICS["pattern"]]
    options = {} if case["semantic"] is None else {"options": {"evaluations_semantic": case["semantic"]}}
    if "expect" in case:
        assert decisions(await evaluations(ctx, GATE, batch(*entries, **options))) == case["expect"]
    else:
        with pytest.raises(InvalidRequest):
            await evaluations(ctx, GATE, batch(*entries, **options))


@pytest.mark.anyio
@pytest.mark.parametrize(
    "members",
    [
        {"evaluations": {}},
        {"evaluations": None},
        {"evaluations": [PERMITTED, "x"]},
        {"evaluations": [PERMITTED, None]},
        {"options": None},
        {"options": []},
        {"options": {"evaluations_semantic": None}},
        {"options": {"evaluations_semantic": ["execute_all"]}},
        {"evaluations": [PERMITTED] * (MOST_EVALUATIONS + 1)},
    ],
    ids=range(9),
)
@pytest.mark.requirement("PDP-21")
async def test_a_faulty_payload_is_refused_whole(ctx: Context, members: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        await evaluations(ctx, GATE, batch(PERMITTED, **members))


@pytest.mark.anyio
@pytest.mark.requirement("PDP-23")
async def test_each_requestable_entry_has_an_offer_of_its_own(ctx: Context) -> None:
    answer = await evaluations(ctx, GATE, batch(REQUESTABLE, PERMITTED, {"resource": {"type": "tool", "id": "ledger"}}))
    first, open_, third = (result["context"] for result in answer["evaluations"])
    assert "access_request" not in open_
    tokens = [claims_of(context["access_request"]["binding_token"]) for context in (first, third)]
    assert len({token["jti"] for token in tokens}) == 2
    assert [token["resource"]["id"] for token in tokens] == ["wire_transfer", "ledger"]
    assert "access_request" not in answer


@pytest.mark.anyio
@pytest.mark.requirement("PDP-24")
async def test_an_approval_given_as_default_is_judged_entry_by_entry(ctx: Context) -> None:
    """Row R24 of `reevaluation.json`."""
    row = next(row for row in vectors.load("reevaluation") if row["id"] == "R24")
    approval = await approved(ctx, question())
    context = presenting(question(), approval)["context"]
    other = {"resource": {"type": "tool", "id": "form_tool"}}
    answer = await evaluations(ctx, GATE, batch(REQUESTABLE, other, context=context))
    assert decisions(answer) == row["decisions"]
    assert answer["evaluations"][1]["context"]["reason"] == "out_of_scope"

"""Retries: `idempotency.json`, every row, through the real pipeline."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from arap_service import requests, workers
from arap_service.domain.callers import Caller
from arap_service.domain.errors import ArapError
from arap_service.keys import TrustedIssuers
from arap_service.requests import Submitted
from arap_service.requests.intake import MAX_KEY, read_key
from tests.requests.world import GATE, World, machine

pytestmark = pytest.mark.anyio
ROWS = json.loads((Path(__file__).parents[1] / "vectors" / "idempotency.json").read_text(encoding="utf-8"))
OTHER_REQUESTER = machine("gate", sub="other-instance")
Raw = bytes


async def send(world: World, raw: Raw, key: str | None, caller: Any = GATE) -> Submitted:
    return await requests.submit(world.ctx, caller, raw, idempotency_key=key)


def respelt(body: dict[str, Any]) -> Raw:
    """The same value with other spacing and order of members."""
    return json.dumps(dict(reversed(body.items())), indent=3).encode()


async def row_i1(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    return await send(world, raw, "k")


async def row_i2(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    return await send(world, respelt(body), "k")


async def row_i3(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    body["context"]["business_justification"] = "another"
    return await send(world, json.dumps(body).encode(), "k")


async def row_i4(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    return await send(world, raw, "k", OTHER_REQUESTER)


async def row_i5(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    return await send(world, raw, "k2")


async def row_i6(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    return await send(world, raw, None)


async def row_i7(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    world.clock.advance(300 + 3600)
    return await send(world, raw, "k")


async def row_i8(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    trust = replace(world.ctx.trust, binding=TrustedIssuers({}))  # nobody's key verifies any more
    return await send(World(replace(world.ctx, trust=trust), world.clock), raw, "k")


async def row_i9(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    task_id = (await send(world, raw, "k")).task["id"]
    await world.decide(task_id, decision="deny")
    again = await send(world, raw, "k")
    assert again.task["status"] == "denied"
    return again


async def row_i10(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    world.clock.advance(2 * 86400)
    await workers.expire_due(world.ctx)
    assert await workers.purge_due(world.ctx) >= 1
    return await send(world, raw, "k")


async def row_i11(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    world.clock.advance(3 * 86400)
    await workers.expire_due(world.ctx)
    await workers.purge_due(world.ctx)
    return await send(world, raw, "k")


async def row_i12(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    fresh = await world.body()
    broken = json.dumps({**fresh, "denial": {"expires_at": fresh["denial"]["expires_at"]}}).encode()
    with pytest.raises(ArapError):
        await send(world, broken, "k12")
    return await send(world, json.dumps(fresh).encode(), "k12")


async def row_i13(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    fresh = json.dumps(await world.body()).encode()
    got: list[Submitted] = []

    async def one() -> None:
        got.append(await send(world, fresh, "k13"))

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        group.start_soon(one)
    assert got[0].task == got[1].task
    return got[0]


async def row_i14(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    return await send(world, raw, '"k"')


async def row_i15(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    return await send(world, raw, "k" * 300)


async def row_i16(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    assert b'"n": 1}' in raw
    return await send(world, raw.replace(b'"n": 1}', b'"n": 1.0}'), "k")


async def row_i17(world: World, body: dict[str, Any], raw: Raw) -> Submitted:
    policy = replace(world.ctx.policy.current(), clients={})
    withdrawn = replace(world.ctx, policy=type(world.ctx.policy)(policy))
    return await send(World(withdrawn, world.clock), raw, "k")


SECOND: dict[str, Callable[[World, dict[str, Any], Raw], Awaitable[Submitted]]] = {
    name.removeprefix("row_").upper(): function for name, function in globals().items() if name.startswith("row_")
}
NEW_TASK = {"I12", "I13"}


@pytest.mark.requirement("ARS-39", "ARS-40", "ARS-41", "ARS-42", "ARS-44", "ARS-46", "ARS-48", "ARS-49")
@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
async def test_second_attempt(world: World, row: dict[str, Any]) -> None:
    """The first attempt is accepted under the key `k`; the row says what comes second and what it is told."""
    body = await world.body(requested_access={"n": 1})
    raw = json.dumps(body).encode()
    first = await send(world, raw, "k")
    with anyio.fail_after(55):
        if isinstance(row["expect"], str):
            again = await SECOND[row["id"]](world, body, raw)
            assert (again.task["id"] == first.task["id"]) == (row["id"] not in NEW_TASK)
            assert again.status_code == first.status_code
            return
        with pytest.raises(ArapError) as caught:
            await SECOND[row["id"]](world, body, raw)
    status, urn = row["expect"]
    assert (caught.value.status, caught.value.urn) == (status, urn.replace("<P>", "urn:x-arap:problem:"))
    assert first.task["id"] not in repr((caught.value.detail, caught.value.extra))


@pytest.mark.requirement("ARS-47")
async def test_retry_gets_the_present_state_with_the_first_code(world: World) -> None:
    """Catalogue ARS-47: approved meanwhile, so the retry of a 202 has the result, and still is a 202."""
    raw = json.dumps(await world.body()).encode()
    first = await send(world, raw, "k")
    await world.decide(first.task["id"])
    again = await send(world, raw, "k")
    assert (again.status_code, again.task["status"]) == (202, "approved")
    assert again.result is not None
    poor = machine("gate", "arap:submit")
    assert (await send(world, raw, "k", poor)).result is None


@pytest.mark.requirement("ARS-45")
async def test_key_is_kept_a_day_past_the_end(world: World) -> None:
    """Catalogue ARS-45: until `task.expires_at` and 24 hours past the terminal status, whatever comes first."""
    raw = json.dumps(await world.body()).encode()
    first = await send(world, raw, "k")
    await world.decide(first.task["id"], decision="deny")
    world.clock.advance(23 * 3600 + 59 * 60)
    await workers.purge_due(world.ctx)
    assert (await send(world, raw, "k")).task["id"] == first.task["id"]


@pytest.mark.requirement("ARS-42")
async def test_keys_of_two_clients_of_one_principal_are_apart(world: World) -> None:
    """Catalogue ARS-42: scoped to the authenticated caller."""
    other = machine("other-gate", sub="gate")
    first = await world.submit(key="k")
    second = await world.submit(await world.body(caller=other), key="k", caller=other)
    assert first.task["id"] != second.task["id"]


@pytest.mark.requirement("ARS-42")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (machine("gate", sub="a|b"), machine("b|gate", sub="a")),
        (machine("gate", sub="a%7Cb"), machine("gate", sub="a|b")),
        (machine("gate", sub="a%257Cb"), machine("gate", sub="a%7Cb")),
        (machine("gate", iss="https://a.example|b", sub="c"), machine("gate", iss="https://a.example", sub="b|c")),
    ],
)
def test_no_two_callers_own_the_same_keys(one: Caller, other: Caller) -> None:
    """Names may hold the bar that parts them here."""
    for operation in ("submit", "decide"):
        assert one.owner_of(operation) != other.owner_of(operation)
    assert one.owner_of("submit") != one.owner_of("decide")


def test_owner_of_plain_names_is_what_was_stored_before() -> None:
    """Keys outlive a new release."""
    assert machine("gate").owner_of("submit") == "submit|https://approvals.example/issuer|gate|gate"


@pytest.mark.requirement("ARS-44")
@pytest.mark.parametrize(
    ("header", "key"),
    [
        (None, None),
        ("k1", "k1"),
        ('"k1"', "k1"),
        (' "k1" ', "k1"),
        ('"a b"', "a b"),
        (r'"a\"b\\"', 'a"b\\'),
        ("a/b+c=", "a/b+c="),
        ("x" * MAX_KEY, "x" * MAX_KEY),
    ],
)
def test_key_is_read_alike_in_both_spellings(header: str | None, key: str | None) -> None:
    """Catalogue ARS-44, X-15."""
    assert read_key(header) == key


@pytest.mark.requirement("ARS-44")
@pytest.mark.parametrize(
    "header", ["", '""', " ", '"open', "a b", '"a"b"', '"k";p=1', "é", "a\x00", '"a\\x"', "x" * (MAX_KEY + 1)]
)
def test_key_of_another_form_is_refused(header: str) -> None:
    """Catalogue ARS-44: 400, and never a key that two spellings disagree about."""
    with pytest.raises(ArapError) as caught:
        read_key(header)
    assert caught.value.status == 400

"""Submission from the first byte to the stored task: order of the steps, shapes, rights, and what a retry gets."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlmodel import select

from arap_service import requests, workers
from arap_service.domain.callers import Caller
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
    TaskExpired,
)
from arap_service.domain.names import MOST_BYTES
from arap_service.evaluation import evaluate
from arap_service.protocol.arap import parse_instant
from arap_service.store.tables import IdempotencyKey, JtiUse, Task
from tests.clock import FakeClock
from tests.requests.world import CALLBACK, GATE, OTHER_GATE, World, machine, open_world, person, question
from tests.service import CALLBACK_KEY

pytestmark = pytest.mark.anyio


async def refused(world: World, body: Mapping[str, Any] | bytes, **options: Any) -> ArapError:
    """Why a submission is refused; and that nothing was written by it."""
    before = await count(world)
    caller: Caller = options.pop("caller", GATE)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ArapError) as caught:
        await requests.submit(world.ctx, caller, raw, idempotency_key=options.pop("key", None))
    assert await count(world) == before
    return caught.value


async def count(world: World) -> tuple[int, int, int]:
    """How many tasks, keys and spent tokens there are."""

    def read(session: Any) -> tuple[int, int, int]:
        tables = (Task, IdempotencyKey, JtiUse)
        found = [len(session.exec(select(table)).all()) for table in tables]
        return found[0], found[1], found[2]

    return await world.ctx.database.read(read)


@pytest.mark.requirement("ARS-50", "ARS-53", "ARS-54", "ARS-71")
async def test_submission_of_a_fresh_denial_makes_a_pending_task(world: World) -> None:
    """Catalogue ARS-50: 202 with a handle that has an end, a status endpoint and a way to cancel."""
    submitted = await world.submit()
    task_id = submitted.task["id"]
    url = f"https://approvals.example/access/v1/request/{task_id}"
    assert (submitted.status_code, submitted.result) == (202, None)
    assert submitted.body == {
        "task": {
            "id": task_id,
            "status": "pending",
            "status_endpoint": url,
            "expires_at": "2026-05-02T20:00:00Z",  # a day to decide and a day to fetch the result
            "links": {"cancel": f"{url}/cancel"},
        }
    }
    assert await count(world) == (1, 0, 1)


@pytest.mark.requirement("ARS-52")
async def test_handles_are_unguessable(world: World) -> None:
    """Catalogue ARS-52: 128 random bits and nothing that means anything."""
    ids = {(await world.submit()).task["id"] for _ in range(5)}
    assert len(ids) == 5
    for task_id in ids:
        assert len(task_id.removeprefix("task_")) == 22
        assert "alice" not in task_id


@pytest.mark.requirement("ARS-51")
@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        ({"amount": 5, "to": "DE1"}, "approved", 201),
        ({"amount": 2_000_000, "to": "DE1"}, "denied", 201),
        ({"amount": 5, "to": "X"}, "denied", 201),  # one voice in favour, one against: deny wins
        ({"amount": 5, "to": "Y"}, "pending", 202),  # one voice in favour, one holds: people decide
        ({"amount": 500, "to": "DE1"}, "pending", 202),
        ({"to": "DE1"}, "pending", 202),  # a voice that cannot be evaluated holds
    ],
    ids=["approved", "denied", "deny-wins", "hold", "silent", "error-holds"],
)
async def test_evaluators_decide_at_once(world: World, arguments: dict[str, Any], status: str, code: int) -> None:
    """Catalogue ARS-51: a synchronous outcome is 201 with a terminal status and, if approved, a result."""
    submitted = await world.submit(await world.body(question("auto", arguments=arguments)))
    assert (submitted.task["status"], submitted.status_code) == (status, code)
    assert (submitted.result is not None) == (status == "approved")
    if submitted.result is not None:
        assert submitted.result["mode"] == "reevaluate"
        assert parse_instant(submitted.result["approval"]["approved_until"]) == world.clock() + timedelta(seconds=900)
    kinds = await world.kinds(submitted.task["id"])
    assert kinds.count("evaluator_heard") == len(kinds) - 1 - (code == 201)


@pytest.mark.requirement("ARS-02")
async def test_caller_without_the_right_is_refused_before_anything_else(world: World) -> None:
    """Catalogue ARS-02: neither the scope nor the rule for this subject; nothing about the denial is disclosed."""
    body = await world.body()
    assert isinstance(await refused(world, body, caller=machine("gate", "arap:status")), Forbidden)
    assert isinstance(await refused(world, {**body, "subject": {"type": "user", "id": "mallory"}}), Forbidden)
    assert isinstance(await refused(world, body, caller=machine("stranger", "arap:submit")), Forbidden)


@pytest.mark.requirement("ARS-11")
@pytest.mark.parametrize("member", ["subject", "resource", "action", "denial"])
async def test_missing_member_is_an_invalid_request(world: World, member: str) -> None:
    """Catalogue ARS-11: the single form needs all four."""
    body = await world.body()
    del body[member]
    fault = await refused(world, body)
    assert isinstance(fault, InvalidRequest)
    assert fault.extra == {"pointer": f"/{member}"}


@pytest.mark.requirement("ARS-11")
async def test_denial_needs_an_end_and_a_binding(world: World) -> None:
    """Catalogue ARS-11: no `expires_at` is a malformed request, no binding at all an invalid binding."""
    body = await world.body()
    without_end = {**body, "denial": {k: v for k, v in body["denial"].items() if k != "expires_at"}}
    assert isinstance(await refused(world, without_end), InvalidRequest)
    unbound = {**body, "denial": {"expires_at": body["denial"]["expires_at"]}}
    assert isinstance(await refused(world, unbound), InvalidDenialBinding)


@pytest.mark.requirement("ARS-10")
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not json",
        b"[]",
        b'"text"',
        b'{"subject": {"type": "user", "id": "a"}, "subject": {"type": "user", "id": "b"}}',
        b'{"subject": NaN}',
        b"\xff{}",
        b"[" * 100_000,
    ],
    ids=["empty", "text", "array", "string", "duplicate", "nan", "utf8", "depth"],
)
async def test_bytes_that_are_no_submission_are_refused(world: World, raw: bytes) -> None:
    """Step 2: never a 500, and never anything written."""
    assert isinstance(await refused(world, raw), InvalidRequest)


async def test_number_that_nothing_can_bind_is_refused(world: World) -> None:
    """Catalogue PDP-14: an integer beyond 2^53 would be hashed as another one."""
    body = {**await world.body(), "requested_access": {"n": 2**60}}
    fault = await refused(world, body)
    assert isinstance(fault, InvalidRequest)
    assert fault.extra == {"pointer": "/requested_access/n"}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"subject": {"type": "user", "id": "a\x00"}}, "/subject/id"),
        ({"resource": {"type": "\x00", "id": "wire_transfer"}}, "/resource/type"),
        ({"action": {"name": "\x00"}}, "/action/name"),
        ({"context": {"agent": "\x00"}}, "/context/agent"),
        (
            {"context": {"urn:x-arap:tool_call": {"server": "\x00", "tool": "t"}}},
            "/context/urn:x-arap:tool_call/server",
        ),
        ({"subject": {"type": "user", "id": "x" * (MOST_BYTES + 1)}}, "/subject/id"),
        ({"resource": {"type": "tool", "id": "x" * (MOST_BYTES + 1)}}, "/resource/id"),
        ({"context": {"agent": "é" * MOST_BYTES}}, "/context/agent"),
        (
            {"denial": {"evaluation_id": "x" * (MOST_BYTES + 1), "expires_at": "2026-04-30T20:05:00Z"}},
            "/denial/evaluation_id",
        ),
        ({"context": {"urn:x-arap:tool_call": {"server": "s"}}}, "/context/urn:x-arap:tool_call/tool"),
        ({"context": {"urn:x-arap:tool_call": "text"}}, "/context/urn:x-arap:tool_call"),
    ],
)
async def test_name_that_cannot_be_stored_or_call_without_shape_is_refused(
    world: World, change: dict[str, Any], pointer: str
) -> None:
    """The same on both engines, although only one of them cannot store a NUL."""
    fault = await refused(world, {**await world.body(), **change})
    assert isinstance(fault, InvalidRequest)
    assert fault.extra == {"pointer": pointer}


async def test_longest_name_is_kept_and_found(world: World) -> None:
    """A limit that an index could not hold would be none."""
    name = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(32))
    assert len(name) == MOST_BYTES
    submitted = await world.submit(await world.body(question(subject=name, agent=name)))
    detail = await requests.detail(world.ctx, person("ann"), submitted.task["id"])
    assert (detail.subject["id"], detail.agent) == (name, name)


async def test_words_with_nul_are_kept_since_they_are_sealed(world: World) -> None:
    """What is sealed may hold anything that JSON can say."""
    body = await world.body(requested_access={"note": "a\x00b"}, display={"title": "\x00"})
    assert (await world.submit(body)).status_code == 202


@pytest.mark.requirement("ARS-08")
async def test_unknown_members_are_ignored_and_not_given_back(world: World) -> None:
    """Catalogue ARS-08: extension points may carry anything; our handle carries only defined members."""
    body = {
        **await world.body(),
        "requested_access": {"x.example/role": {"deep": [1]}},
        "x.example/more": True,
        "display": {"title": "t"},
    }
    submitted = await world.submit(body)
    assert set(submitted.task) == {"id", "status", "status_endpoint", "expires_at", "links"}


@pytest.mark.requirement("ARS-87")
async def test_several_items_are_refused_visibly(world: World) -> None:
    """Catalogue ARS-87: where they are switched off, never silently ignored."""
    settings = world.ctx.settings.model_copy(update={"bulk": False})
    world = World(replace(world.ctx, settings=settings), world.clock)
    body = await world.body()
    item = {"resource": body.pop("resource"), "action": body.pop("action")}
    assert isinstance(await refused(world, {**body, "items": [item, item]}), BulkUnsupported)


@pytest.mark.requirement("ARS-10")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"context": "no object", "denial": {}}, InvalidRequest),
        ({"subject": {"type": "user", "id": "mallory"}, "denial": {"binding_token": "x"}}, Forbidden),
        ({"denial": {"binding_token": "x", "expires_at": "2000-01-01T00:00:00Z"}}, InvalidDenialBinding),
        ({"resource": {"type": "tool", "id": "payroll"}, "callback": {"endpoint": "http://x"}}, InvalidDenialBinding),
        ({"requested_access": {"requested_until": "never"}, "callback": {"endpoint": "http://x"}}, InputInvalid),
    ],
    ids=["shape-before-binding", "right-before-token", "token-before-expiry", "binding-before-callback", "input-first"],
)
async def test_earlier_fault_is_the_one_that_is_told(
    world: World, fault: dict[str, Any], error: type[ArapError]
) -> None:
    """Catalogue ARS-10: two faults in one body, and the step that comes first answers."""
    body = await world.body()
    denial = {"expires_at": body["denial"]["expires_at"], **fault.get("denial", body["denial"])}
    assert type(await refused(world, {**body, **fault, "denial": denial})) is error


@pytest.mark.requirement("ARS-34", "ARS-36", "ARS-48")
async def test_failed_attempt_spends_neither_token_nor_key(world: World) -> None:
    """Catalogue ARS-36, ARS-48: the corrected retry under the same key and token is accepted."""
    body = await world.body()
    wrong = {**body, "callback": {"endpoint": "https://elsewhere.example/"}}
    assert isinstance(await refused(world, wrong, key="k"), CallbackRejected)
    submitted = await world.submit(body, key="k")
    assert submitted.status_code == 202
    assert await count(world) == (1, 1, 1)


@pytest.mark.requirement("ARS-35", "ARS-38")
async def test_replayed_token_is_refused_without_a_hint(world: World) -> None:
    """Catalogue ARS-38: no task id, no other error than for a wrong binding."""
    body = await world.body()
    submitted = await world.submit(body, key="k")
    fault = await refused(world, body, key="another")
    assert isinstance(fault, InvalidDenialBinding)
    assert (fault.detail, dict(fault.extra)) == (None, {})
    assert submitted.task["id"] not in str(fault)
    later = {**body, "context": {**body["context"], "business_justification": "please"}}
    assert isinstance(await refused(world, later), InvalidDenialBinding)


@pytest.mark.requirement("ARS-35", "ARS-38")
async def test_token_stays_spent_when_its_request_has_been_decided(world: World) -> None:
    """Catalogue ARS-35: until the token's own deadline, not until the end of the task that it was spent on."""
    body = await world.body()
    submitted = await world.submit(body)
    await world.decide(submitted.task["id"], decision="deny")
    fault = await refused(world, body, key="another")
    assert isinstance(fault, InvalidDenialBinding)
    assert (fault.detail, dict(fault.extra)) == (None, {})


@pytest.mark.requirement("ARS-34", "ARS-10")
async def test_replay_after_the_end_is_an_expired_denial(world: World) -> None:
    """Catalogue section 1: replay is looked at after freshness, so a proven but stale binding answers 410."""
    body = await world.body()
    await world.submit(body)
    world.clock.advance(3600)
    assert isinstance(await refused(world, body), ExpiredDenial)


@pytest.mark.requirement("ARS-36", "ARS-49")
async def test_parallel_submissions_of_one_denial_make_one_task(world: World) -> None:
    """Catalogue ARS-36: 20 at once with different keys and the same token; one wins, the others learn nothing."""
    body = await world.body()
    outcomes: list[object] = []

    async def attempt(number: int) -> None:
        try:
            outcomes.append((await world.submit(body, key=f"k{number}")).task["id"])
        except InvalidDenialBinding as fault:
            outcomes.append(type(fault))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(attempt, number)
    assert outcomes.count(InvalidDenialBinding) == 19
    assert await count(world) == (1, 1, 1)


@pytest.mark.requirement("ARS-49")
async def test_parallel_submissions_under_one_key_get_one_task(world: World) -> None:
    """Catalogue ARS-49: 50 at once with the same key; all are told the same handle."""
    body = await world.body()
    ids: list[str] = []

    async def attempt() -> None:
        ids.append((await world.submit(body, key="k")).task["id"])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(attempt)
    assert len(ids) == 50
    assert len(set(ids)) == 1
    assert await count(world) == (1, 1, 1)


class StoppedError(Exception):
    """Stands for the death of the process."""


@pytest.mark.requirement("ARS-47")
async def test_death_around_the_commit_leaves_all_or_nothing(world: World) -> None:
    """Catalogue ARS-47: before the commit nothing is there, after it the retry finds the task; both under one key."""
    body = await world.body()
    for point, rows in (("submit.before_commit", 0), ("submit.after_commit", 1)):

        def die(name: str, point: str = point) -> None:
            if name == point:
                raise StoppedError

        broken = World(replace(world.ctx, checkpoint=die), world.clock)
        with pytest.raises(StoppedError):
            await broken.submit(body, key="k")
        assert await count(world) == (rows, rows, rows)
    submitted = await world.submit(body, key="k")
    assert submitted.status_code == 202
    assert await count(world) == (1, 1, 1)
    assert await world.kinds(submitted.task["id"]) == ["task_submitted"]


@pytest.mark.requirement("ARS-62", "ARS-45", "ARS-46")
async def test_key_outlives_its_task_by_a_day_and_can_then_be_used_anew(world: World) -> None:
    """Catalogue ARS-45, ARS-46 and row I10: the task gone, the key still says so; a day later the key is free."""
    body = await world.body()
    submitted = await world.submit(body, key="k")
    expires_at = parse_instant(submitted.task["expires_at"])
    world.clock.advance((expires_at - world.clock()).total_seconds() - 1)
    assert (await world.submit(body, key="k")).task["id"] == submitted.task["id"]
    await workers.expire_due(world.ctx)
    world.clock.advance(1)
    assert isinstance(await refused(world, body, key="k"), TaskExpired)
    assert await workers.purge_due(world.ctx) == 1
    world.clock.advance(24 * 3600 - 1)
    await workers.purge_due(world.ctx)
    assert isinstance(await refused(world, body, key="k"), TaskExpired)
    world.clock.advance(1)
    await workers.purge_due(world.ctx)
    assert isinstance(await refused(world, body, key="k"), ExpiredDenial)  # I11: processed as new


@pytest.mark.requirement("ARS-105", "ARS-106")
async def test_input_that_breaks_the_schema_is_named_by_place_and_rule(world: World) -> None:
    """Catalogue ARS-105: 422 with pointers, no task, no value in the answer."""
    body = await world.body(question("form"), requested_access={"days": 99})
    body["context"]["business_justification"] = "a"
    fault = await refused(world, body, key="k")
    assert isinstance(fault, InputInvalid)
    assert sorted(fault.extra["errors"], key=lambda error: error["pointer"]) == [
        {"pointer": "/context/business_justification", "code": "minLength"},
        {"pointer": "/requested_access/days", "code": "maximum"},
    ]
    missing = await refused(world, await world.body(question("form")))
    assert missing.extra["errors"] == [{"pointer": "/context", "code": "required"}]
    body["context"]["business_justification"] = "renewal"
    body["requested_access"] = {"days": 5}
    assert (await world.submit(body)).status_code == 202


@pytest.mark.requirement("ARS-108")
@pytest.mark.parametrize(
    ("until", "code"),
    [("2026-04-30T20:00:00Z", "past"), ("2020-01-01T00:00:00Z", "past"), ("tomorrow", "format"), ("", "format")],
)
async def test_impossible_end_of_access_is_refused(world: World, until: str, code: str) -> None:
    """Catalogue ARS-108: a past or unparsable `requested_until` is 422."""
    fault = await refused(world, await world.body(requested_access={"requested_until": until}))
    assert isinstance(fault, InputInvalid)
    assert fault.extra["errors"] == [{"pointer": "/requested_access/requested_until", "code": code}]


@pytest.mark.requirement("ARS-88", "ARS-91", "ARS-92")
@pytest.mark.parametrize(
    "callback",
    [
        {"endpoint": "https://gate.example/callbacks/arap/"},
        {"endpoint": "https://gate.example/callbacks"},
        {"endpoint": "https://other.example/callbacks"},
        {"endpoint": "http://gate.example/callbacks/arap"},
        {"endpoint": CALLBACK, "events": ["approved", "exploded"]},
        {"endpoint": CALLBACK, "events": []},
    ],
    ids=["longer", "prefix", "foreign", "http", "event", "no-event"],
)
async def test_callback_that_is_not_registered_fails_the_submission(world: World, callback: dict[str, Any]) -> None:
    """Catalogue ARS-88, ARS-91: exact and this client's own; nothing is dropped silently and nothing is made."""
    fault = await refused(world, await world.body(callback=callback), key="k")
    assert isinstance(fault, CallbackRejected)


@pytest.mark.requirement("ARS-89", "ARS-91")
async def test_callback_to_an_internal_address_fails_the_submission(
    world_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    """Catalogue ARS-89: registered, yet its name leads inside; only the exact destination can be allowed."""
    inside = "https://internal.example/callback"
    registered = {"endpoints": [inside], "keys": [CALLBACK_KEY]}
    async with open_world(tmp_path, world_url, clock, callbacks={"gate": registered}) as world:
        body = await world.body(callback={"endpoint": inside})
        assert isinstance(await refused(world, body, key="k"), CallbackRejected)
    allowed = {**registered, "allow_destinations": ["internal.example:443"]}
    async with open_world(tmp_path, world_url, clock, callbacks={"gate": allowed}) as world:
        assert (await world.submit(body, key="k")).status_code == 202


@pytest.mark.requirement("ARS-88")
async def test_callback_of_another_client_fails_the_submission(world: World) -> None:
    """Catalogue ARS-88: registered, but for somebody else."""
    body = await world.body(caller=OTHER_GATE, callback={"endpoint": CALLBACK})
    assert isinstance(await refused(world, body, caller=OTHER_GATE), CallbackRejected)


async def test_evaluation_that_was_not_denied_requestably_is_not_requestable(world: World) -> None:
    """See also test_proof; here through the answers that the decision point really gave."""
    for resource in ("open", "closed"):
        asked = question(resource)
        answer = await evaluate(world.ctx, GATE, asked)
        evaluation_id = answer["context"]["evaluation_id"]
        body = {**asked, "denial": world.denial(evaluation_id=evaluation_id)}
        assert isinstance(await refused(world, body), NotRequestable)


@pytest.mark.requirement("ARS-43", "ARS-40")
async def test_other_body_under_the_same_key_is_a_duplicate_request(world: World) -> None:
    """Catalogue ARS-40, ARS-43: 409 by the profile's type; a missing key is allowed."""
    body = await world.body()
    await world.submit(body, key="k")
    fault = await refused(world, {**body, "display": {"title": "other"}}, key="k")
    assert isinstance(fault, DuplicateRequest)
    assert fault.status == 409
    assert (await world.submit()).status_code == 202

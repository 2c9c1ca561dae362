"""First calls. Provenance: SEP-2848 "Denied-but-requestable", "Crash-consistent creation", "At-most-once"; PEP-A, D."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest

from mcp_gate.backend import Accepted, Denial, Permit, Refused
from mcp_gate.creation import Result, RunNow, TaskCreated
from mcp_gate.errors import TaskNotFound, Unavailable
from mcp_gate.lifecycle import Phase
from mcp_gate.limits import Limits
from mcp_gate.mapping import call_digest
from mcp_gate.templates import declared_mapping
from mcp_gate.texts import DEGRADED, DENIED, DISPOSITION, ENVELOPE, IMMEDIATE, OVER_LIMIT
from tests.gate.foreign_backend import ForeignBackend, requestable
from tests.gate.kit import ALICE, FINGERPRINT, Killed, Kit, binding

pytestmark = pytest.mark.anyio


def permit(*_: object) -> Permit:
    return Permit()


def text(answer: object) -> str:
    assert isinstance(answer, Result), answer
    assert answer.body["isError"] is True
    return " ".join(part["text"] for part in answer.body["content"])


@pytest.mark.requirement("PEP-15", "PEP-31")
async def test_a_permitted_call_runs_now_and_leaves_nothing_behind(kit: Kit) -> None:
    """Also when the permit carries a stray access_request."""
    kit.backend.policy = lambda *_: Permit({"access_request": {"binding_token": "x"}})
    assert isinstance(await kit.call(), RunNow)
    assert len(kit.backend.evaluations) == 1
    assert kit.backend.submissions == []


@pytest.mark.requirement("PEP-09")
async def test_a_plain_denial_is_an_error_result_and_no_task(kit: Kit) -> None:
    kit.backend.policy = lambda *_: Denial("policy_denied")
    answer = await kit.call()
    assert text(answer) == DENIED
    assert isinstance(answer, Result)
    assert answer.body["_meta"][ENVELOPE]["remediation"] == "unavailable"
    assert kit.backend.submissions == []
    assert kit.tool.calls == []


@pytest.mark.requirement("PEP-10", "PEP-12", "PEP-11")
async def test_a_requestable_denial_becomes_a_working_task(kit: Kit) -> None:
    created = await kit.call()
    assert isinstance(created, TaskCreated)
    body = created.body
    assert body == {
        "resultType": "task",
        "taskId": created.task_id,
        "status": "working",
        "statusMessage": "Waiting for a decision on this call. The tool has not run.",
        "createdAt": "2026-04-30T20:00:00.000Z",
        "lastUpdatedAt": "2026-04-30T20:00:00.000Z",
        "ttlMs": body["ttlMs"],
        "pollIntervalMs": 5000,
        "_meta": {
            ENVELOPE: {
                "reason": "insufficient_authorization",
                "remediation": "available",
                "remediationHints": [{"type": "task"}],
            },
            IMMEDIATE: body["_meta"][IMMEDIATE],
        },
    }
    assert type(body["ttlMs"]) is int
    assert "has not run" in body["_meta"][IMMEDIATE]
    assert kit.tool.calls == []
    assert (await kit.get(created.task_id))["status"] == "working"


@pytest.mark.requirement("PEP-04", "PEP-05")
async def test_a_client_without_tasks_gets_next_steps_and_nothing_is_submitted(kit: Kit) -> None:
    for _ in range(10):
        answer = await kit.call(tasks=False)
        assert text(answer) == DEGRADED
        assert isinstance(answer, Result)
        assert answer.body["_meta"][ENVELOPE] == {
            "reason": "insufficient_authorization",
            "remediation": "available",
        }
    assert kit.backend.submissions == []
    assert kit.tool.calls == []


@pytest.mark.requirement("PEP-13")
async def test_without_a_decision_nothing_runs(kit: Kit) -> None:
    kit.backend.is_pdp_down = True
    with pytest.raises(Unavailable) as refused:
        await kit.call()
    assert refused.value.code == -32603
    assert kit.backend.submissions == []


@pytest.mark.requirement("PEP-22", "PEP-23")
@pytest.mark.parametrize("denied", [Denial("policy_denied"), requestable()])
async def test_one_denial_among_several_decisions_denies_the_call(kit: Kit, denied: Denial) -> None:
    """A requestable one, too: a call that needs several decisions gets no approval by default."""
    decisions: Iterator[Permit | Denial] = iter([Permit(), denied])  # in the order of the questions
    kit.backend.policy = lambda *_: next(decisions)
    entries = [{"action": {"name": name}, "resource": {"type": "o", "id": "o"}} for name in ("read", "write")]
    bound = binding(mapping=declared_mapping({"evaluations": {"evaluations": entries}}))
    answer = await kit.engine.call(bound, tasks=True, tool_fingerprint=FINGERPRINT)
    assert "did not run" in text(answer)
    assert [asked["action"]["name"] for asked, _ in kit.backend.evaluations] == ["read", "write"]
    assert kit.backend.submissions == []


@pytest.mark.requirement("PEP-22")
async def test_several_permits_let_the_call_run(kit: Kit) -> None:
    kit.backend.policy = permit
    entries = [{"action": {"name": name}, "resource": {"type": "o", "id": "o"}} for name in ("read", "write")]
    bound = binding(mapping=declared_mapping({"evaluations": {"evaluations": entries}}))
    assert isinstance(await kit.engine.call(bound, tasks=True, tool_fingerprint=FINGERPRINT), RunNow)
    assert len(kit.backend.evaluations) == 2


async def test_a_number_without_exact_form_gets_no_approval_and_is_pointed_at(kit: Kit) -> None:
    answer = await kit.call({"to": "acct", "ids": [1, 2**60]})
    assert "/ids/1" in text(answer)
    assert kit.backend.submissions == []
    kit.backend.policy = permit
    assert isinstance(await kit.call({"ids": [1, 2**60]}), RunNow)


@pytest.mark.requirement("PEP-38")
async def test_what_a_denial_demands_is_never_invented(kit: Kit) -> None:
    denial = requestable()
    kit.backend.policy = lambda *_: replace(denial, access_request={"unobtainable": True})
    assert text(await kit.call()) == DENIED
    assert kit.backend.submissions == []


@pytest.mark.requirement("PEP-56", "PEP-61")
async def test_the_intent_with_key_and_body_is_on_disk_before_the_backend_hears_of_it(kit: Kit) -> None:
    seen: list[tuple[str, bytes | None]] = []
    submit = kit.backend.submit

    async def spying(body: bytes, *, key: str) -> Accepted | Refused:
        digests = {name for name, _ in seen}
        assert key not in digests
        task_id = await kit.store.find_open(_digest())
        stored = await kit.stored(str(task_id))
        seen.append((stored.submission.key, stored.submission.body))
        assert stored.task.phase is Phase.INTENT
        assert (stored.submission.key, stored.submission.body) == (key, body)
        assert stored.binding == binding()
        return await submit(body, key=key)

    vars(kit.backend)["submit"] = spying
    await kit.open()
    assert len(seen) == 1


def _digest() -> str:
    return call_digest(binding())


@pytest.mark.requirement("PEP-58")
async def test_the_handle_is_on_disk_when_the_answer_leaves(kit: Kit) -> None:
    task_id = await kit.open()
    again = await kit.restarted()
    try:
        stored = await again.stored(task_id)
        assert stored.submission.handle is not None
        assert stored.submission.handle.task_id == kit.backend.last
        assert (await again.get(task_id))["status"] == "working"
    finally:
        await again.aclose()


@pytest.mark.requirement("PEP-43", "PEP-59")
async def test_a_terminal_answer_to_the_submission_needs_no_poll(kit: Kit) -> None:
    kit.backend.born = {
        "status": "approved",
        "mode": "reevaluate",
        "approval": {"id": "appr-at-once"},
        "approved_until": kit.clock() + timedelta(minutes=15),
    }
    task_id = await kit.open()
    assert await kit.phase(task_id) is Phase.GRANTED
    await kit.step(task_id)
    assert len(kit.tool.calls) == 1
    assert kit.backend.status_reads == []


async def test_a_denial_that_comes_at_once_ends_the_task_at_once(kit: Kit) -> None:
    kit.backend.born = {"status": "denied"}
    task_id = await kit.open()
    got = await kit.get(task_id)
    assert got["status"] == "completed"
    assert got["result"]["_meta"][DISPOSITION] == "denied-not-executed"
    assert kit.backend.status_reads == []


@pytest.mark.requirement("PEP-55", "PEP-63")
async def test_twenty_equal_calls_at_once_are_one_task_and_one_request(kit: Kit) -> None:
    ids: list[str] = []

    async def one() -> None:
        ids.append(await kit.open())

    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one)
    assert len(ids) == 20
    assert len(set(ids)) == 1
    assert len(kit.backend.tasks) == 1
    assert len(kit.backend.submissions) == 1


@pytest.mark.requirement("PEP-63")
async def test_equal_calls_in_two_processes_share_one_task_and_one_key(kit: Kit) -> None:
    other = Kit(kit.url, kit.clock, kit.backend)
    try:
        first, second = await kit.open(), await other.open()
    finally:
        await other.aclose()
    assert first == second
    assert len(kit.backend.tasks) == 1


async def test_a_call_that_is_overtaken_by_an_equal_one_gets_that_ones_task(kit: Kit) -> None:
    """Two processes submit the same intent; the slower one finds the task announced, or even ended."""
    for born in ({}, {"status": "denied"}):
        kit.backend.born = born
        other = Kit(kit.url, kit.clock, kit.backend)
        submit = kit.backend.submit
        faster: list[str] = []

        async def overtaken(body: bytes, *, key: str, submit: Any = submit, to: Any = faster, by: Kit = other) -> Any:
            vars(kit.backend)["submit"] = submit
            to.append(await by.open())
            return await submit(body, key=key)

        vars(kit.backend)["submit"] = overtaken
        created = await kit.call()
        assert isinstance(created, TaskCreated)
        assert created.task_id == faster[0]
        assert created.body["status"] == ("completed" if born else "working")
        assert (IMMEDIATE in created.body["_meta"]) is not bool(born)
        await kit.engine.cancel(created.task_id, ALICE)
        await other.aclose()


@pytest.mark.requirement("PEP-64", "PEP-53")
async def test_another_principal_client_agent_or_argument_is_another_task(kit: Kit) -> None:
    who = [ALICE, replace(ALICE, sub="bob"), replace(ALICE, client_id="web"), replace(ALICE, agent="other")]
    ids = [await kit.open(principal=principal) for principal in who]
    ids.append(await kit.open({"to": "acct-991", "amount": 50_001}))
    assert len(set(ids)) == 5
    kit.backend.approve(next(iter(kit.backend.tasks)))
    for task_id in ids:
        await kit.step(task_id)
    assert [call.task_id for call in kit.tool.calls] == [ids[0]]


@pytest.mark.requirement("PEP-65")
async def test_after_the_end_an_equal_call_is_decided_afresh(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.end("denied")
    await kit.step(task_id)
    asked = len(kit.backend.evaluations)
    kit.backend.policy = lambda *_: Denial("policy_denied")
    assert isinstance(await kit.call(), Result)
    assert len(kit.backend.evaluations) == asked + 1
    kit.backend.policy = None
    second = await kit.open()
    assert second != task_id
    assert len(kit.backend.tasks) == 2


@pytest.mark.requirement("PEP-57", "PEP-63")
async def test_a_lost_answer_is_recovered_by_repeating_the_call(kit: Kit) -> None:
    kit.backend.lose_answers = 1
    with pytest.raises(Unavailable) as refused:
        await kit.call()
    assert "did not run" in refused.value.message
    task_id = await kit.open()
    assert len(kit.backend.tasks) == 1
    (first, body), (second, again) = kit.backend.submissions
    assert (first, body) == (second, again)
    assert await kit.phase(task_id) is Phase.PENDING


async def test_an_intent_is_not_announced_to_anybody(kit: Kit) -> None:
    kit.backend.is_down = True
    with pytest.raises(Unavailable):
        await kit.call()
    task_id = await kit.store.find_open(_digest())
    with pytest.raises(TaskNotFound):
        await kit.get(str(task_id))


async def test_a_refused_submission_is_a_plain_error_result_and_no_task(kit: Kit) -> None:
    kit.backend.refusal = Refused("urn:openid:authzen:access-request:error:not_requestable", 400)
    assert "not accepted" in text(await kit.call())
    assert await kit.store.find_open(_digest()) is None
    kit.backend.refusal = None
    assert await kit.open()


@pytest.mark.requirement("PEP-60")
async def test_joining_an_intent_whose_denial_is_too_old_by_now_uses_the_fresh_one(kit: Kit) -> None:
    kit.backend.is_down = True
    with pytest.raises(Unavailable):
        await kit.call()
    kit.backend.is_down = False
    refused = Refused("urn:openid:authzen:access-request:error:expired_denial", 410)
    submit = kit.backend.submit
    first: list[str] = []

    async def once(body: bytes, *, key: str) -> Accepted | Refused:
        if not first:
            first.append(key)
            return refused
        return await submit(body, key=key)

    vars(kit.backend)["submit"] = once
    await kit.open()
    ((key, body),) = kit.backend.submissions
    assert key not in first
    assert json.loads(body)["denial"]["evaluation_id"].endswith("-2")


@pytest.mark.requirement("PEP-130")
async def test_beyond_its_rate_a_principal_gets_plain_denials(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit(limits=Limits(intents_per_minute=3, open_tasks=100))
    answers = [await kit.call({"amount": number}) for number in range(6)]
    assert [type(answer) for answer in answers] == [TaskCreated] * 3 + [Result] * 3
    assert "wait" in text(answers[-1])
    assert answers[-1] == Result(kit.wording.plain_denial(OVER_LIMIT))
    assert len(kit.backend.submissions) == 3
    assert isinstance(await kit.call(principal=replace(ALICE, sub="bob")), TaskCreated)
    kit.clock.advance(61)
    assert isinstance(await kit.call({"amount": 7}), TaskCreated)


@pytest.mark.requirement("PEP-130")
async def test_open_tasks_are_bounded_and_an_ended_one_makes_room(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit(limits=Limits(open_tasks=2, intents_per_minute=100))
    first = await kit.open({"amount": 1})
    await kit.open({"amount": 2})
    assert isinstance(await kit.call({"amount": 3}), Result)
    await kit.engine.cancel(first, ALICE)
    assert isinstance(await kit.call({"amount": 3}), TaskCreated)


@pytest.mark.requirement("PEP-130")
async def test_parallel_calls_do_not_slip_past_the_bound(kit: Kit) -> None:
    """On PostgreSQL, counting and inserting are one step under a lock per principal."""
    limited = await kit.restarted(limits=Limits(open_tasks=3, intents_per_minute=100))
    answers: list[object] = []

    async def one(number: int) -> None:
        answers.append(await limited.call({"amount": number}))

    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(one, number)
    assert sum(isinstance(answer, TaskCreated) for answer in answers) == 3
    await limited.aclose()


async def test_a_client_that_leaves_in_the_middle_does_not_interrupt_the_creation(kit: Kit) -> None:
    entered, go = anyio.Event(), anyio.Event()
    submit = kit.backend.submit

    async def slow(body: bytes, *, key: str) -> Accepted | Refused:
        entered.set()
        await go.wait()
        return await submit(body, key=key)

    vars(kit.backend)["submit"] = slow
    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            group.start_soon(kit.call)
            await entered.wait()
            group.cancel_scope.cancel()
            go.set()
    task_id = await kit.store.find_open(_digest())
    assert await kit.phase(str(task_id)) is Phase.PENDING


async def test_a_death_right_after_the_intent_has_told_the_backend_nothing(kit: Kit, backend: ForeignBackend) -> None:
    kit.crash_at = "intent.committed"
    with pytest.raises(Killed):
        await kit.call()
    assert backend.submissions == []

"""What owners may ask, what a start owes, and the lifecycle table end to end. SEP-2848; MCP Tasks; PEP-E to PEP-K."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import update

from mcp_gate.backend import Denial, Permit, Refused
from mcp_gate.errors import InvalidParams, TaskNotFound, Unavailable
from mcp_gate.events import Cause
from mcp_gate.execution import Executed, NoResponse, Outcome
from mcp_gate.lifecycle import Ending, Phase
from mcp_gate.limits import Limits
from mcp_gate.mapping import call_digest
from mcp_gate.statements import question_rows
from mcp_gate.tables import outcome
from mcp_gate.tables import task as task_table
from mcp_gate.texts import DISPOSITION, ENVELOPE, Wording
from tests.gate.foreign_backend import CANARY, requestable
from tests.gate.kit import ALICE, BOB, Killed, Kit, binding

pytestmark = pytest.mark.anyio

SEP = json.loads((Path(__file__).parents[1] / "vectors" / "sep-lifecycle.json").read_text())
Scene = Callable[[Kit, str], Awaitable[None]]
STRANGERS = [
    BOB,
    replace(ALICE, client_id="other"),
    replace(ALICE, agent="other"),
    replace(ALICE, iss="https://x.example"),
]


async def _nothing(_kit: Kit, _task_id: str) -> None:
    return


async def _asked(kit: Kit, task_id: str) -> None:
    kit.backend.ask()
    await kit.step(task_id)


def _reevaluated(decision: Denial | Permit) -> Scene:
    async def scene(kit: Kit, task_id: str) -> None:
        kit.backend.approve()
        kit.backend.policy = lambda _, approval: requestable() if approval is None else decision
        await kit.step(task_id)

    return scene


async def _chained_out(kit: Kit, task_id: str) -> None:
    kit.backend.policy = lambda *_: requestable()
    for _ in range(5):
        kit.backend.approve()
        await kit.step(task_id)


def _ran(outcome: Executed | NoResponse) -> Scene:
    async def scene(kit: Kit, task_id: str) -> None:
        kit.tool.answer = outcome
        kit.backend.approve()
        await kit.step(task_id)

    return scene


async def _denied(kit: Kit, task_id: str) -> None:
    kit.backend.end("denied")
    await kit.step(task_id)


async def _expired(kit: Kit, task_id: str) -> None:
    kit.clock.advance(3600)
    await kit.step(task_id)


async def _failed(kit: Kit, task_id: str) -> None:
    kit.backend.end("failed")
    await kit.step(task_id)


async def _cancelled(kit: Kit, task_id: str) -> None:
    await kit.engine.cancel(task_id, ALICE)


SCENES: dict[str, Scene] = {
    "awaiting decision": _nothing,
    "in-task submission input needed": _asked,
    "re-evaluation: retry": _reevaluated(Denial("grant_pending", "retry")),
    "re-evaluation: request": _reevaluated(requestable(2)),
    "allowed and executed once": _ran(Executed({"content": []}, is_error=False)),
    "backend denied or re-evaluation deny/none": _denied,
    "approval or request expired unresolved": _expired,
    "chained-request bound reached": _chained_out,
    "executed, tool errored": _ran(Executed({"content": []}, is_error=True)),
    "claimed, outcome undeterminable": _ran(NoResponse("cut")),
    "JSON-RPC error or backend/infra failure before claim": _failed,
    "cancelled by client or backend": _cancelled,
}


@pytest.mark.requirement("PEP-11", "PEP-88", "PEP-89", "PEP-90", "PEP-119", "PEP-120", "PEP-121", "PEP-122")
@pytest.mark.parametrize("envelopes", [True, False], ids=["with-envelope", "without-envelope"])
@pytest.mark.parametrize("row", SEP, ids=[row["cause"] for row in SEP])
async def test_status_envelope_and_disposition_agree_row_by_row(
    make_kit: Callable[..., Kit], row: dict[str, Any], *, envelopes: bool
) -> None:
    """sep-lifecycle.json; the disposition doesn't depend on the envelope being switched on."""
    kit = make_kit(wording=Wording(envelope=envelopes))
    task_id = await kit.open()
    await SCENES[row["cause"]](kit, task_id)
    got = await kit.get(task_id)
    assert got["status"] == row["status"]
    result = got.get("result", {})
    holder = result or got
    envelope = holder.get("_meta", {}).get(ENVELOPE, {}).get("remediation")
    assert envelope == (row["envelope"] if envelopes else None)
    assert result.get("_meta", {}).get(DISPOSITION) == row["disposition"]
    assert result.get("isError") == row["isError"]
    assert got.get("error", {}).get("code") == row.get("error_code")
    said = " ".join(part["text"] for part in result.get("content", [])) + got["statusMessage"]
    ran = {
        "approved-executed": "ran once",
        "execution-error": "may have had effects",
        "outcome-unknown": "may have run",
    }
    assert ran.get(row["disposition"], "") in said
    assert ("did not run" in said) == (row["status"] in {"failed", "cancelled"} or row["envelope"] == "unavailable")
    if result:
        assert result["resultType"] == "complete"


# Ownership ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("PEP-71", "PEP-134", "PEP-135")
@pytest.mark.parametrize("stranger", STRANGERS)
async def test_a_foreign_task_looks_exactly_like_an_unknown_one(kit: Kit, stranger: Any) -> None:
    task_id = await kit.open()
    kit.backend.ask()
    await kit.step(task_id)
    before = await kit.get(task_id)
    attempts: list[Callable[[str], Awaitable[Any]]] = [
        lambda task: kit.engine.get(task, stranger),
        lambda task: kit.engine.update(
            task, stranger, {"input-1-1": {"action": "accept", "content": {"ticket": "abc"}}}
        ),
        lambda task: kit.engine.update(task, stranger, {"io.mcp-hangar/approval#1": {"action": "accept"}}),
        lambda task: kit.engine.cancel(task, stranger),
    ]
    for attempt in attempts:
        with pytest.raises(TaskNotFound) as foreign:
            await attempt(task_id)
        with pytest.raises(TaskNotFound) as unknown:
            await attempt("tsk_unknown")
        assert (foreign.value.code, foreign.value.message, foreign.value.data) == (
            unknown.value.code,
            unknown.value.message,
            unknown.value.data,
        )
        assert foreign.value.code == -32602
    assert await kit.get(task_id) == before


@pytest.mark.requirement("PEP-71")
@pytest.mark.parametrize("odd", ["", "a\0b", "\ud800", "tsk_\udfff1", "tsk_ä", "tsk_1\n", "x" * 65, "x" * 100_000])
async def test_an_id_that_the_gate_cannot_have_issued_is_not_found(kit: Kit, odd: str) -> None:
    await kit.open()
    attempts: list[Callable[[], Awaitable[Any]]] = [
        lambda: kit.engine.get(odd, ALICE),
        lambda: kit.engine.update(odd, ALICE, {"input-1-1": {"action": "decline"}}),
        lambda: kit.engine.cancel(odd, ALICE),
    ]
    for attempt in attempts:
        with pytest.raises(TaskNotFound):
            await attempt()


@pytest.mark.requirement("PEP-131", "PEP-134")
@pytest.mark.parametrize("also", [{}, {"binding": b"\0"}, {"data_key": b"\0"}])
async def test_whose_a_task_is_cannot_be_changed_in_the_database(kit: Kit, also: dict[str, Any]) -> None:
    """Somebody who can write the columns learns nothing that is sealed, and answers nothing."""
    ended = await kit.open()
    kit.backend.approve()
    await kit.step(ended)
    asked = await kit.open({"amount": 1})
    kit.backend.ask(1, message="SECRET-QUESTION")
    await kit.step(asked)
    await kit.store.database.write(
        lambda connection: connection.execute(update(task_table).values({"sub": "bob", **also}))
    )
    reply = {"input-1-1": {"action": "accept", "content": {"ticket": "INC-7"}}}
    for task_id in (ended, asked):
        if also:  # then nobody can tell any more whose it was
            shown = json.dumps(await kit.get(task_id, BOB))
            assert "Transferred." not in shown
            assert "SECRET-QUESTION" not in shown
            await kit.engine.update(task_id, BOB, reply)
            continue
        for attempt in (
            kit.get(task_id, BOB),
            kit.engine.update(task_id, BOB, reply),
            kit.engine.cancel(task_id, BOB),
        ):
            with pytest.raises(TaskNotFound):
                await attempt
    assert [row.state for row in await kit.store.database.read(lambda c: question_rows(c, asked))] == ["open"]


@pytest.mark.requirement("PEP-121")
@pytest.mark.parametrize(
    ("answer", "is_error", "disposition"),
    [
        (Executed({"content": []}, is_error=False), False, "approved-executed"),
        (Executed({"content": []}, is_error=True), True, "execution-error"),
        (NoResponse("gone"), True, "outcome-unknown"),
    ],
)
async def test_a_result_that_cannot_be_read_any_more_still_agrees_with_its_disposition(
    kit: Kit, answer: Outcome, disposition: str, *, is_error: bool
) -> None:
    task_id = await kit.open()
    kit.backend.approve()
    kit.tool.answer = answer
    await kit.step(task_id)
    await kit.store.database.write(lambda connection: connection.execute(update(outcome).values(result=b"\0")))
    result = (await kit.get(task_id))["result"]
    assert result["isError"] is is_error
    assert result["_meta"] == {DISPOSITION: disposition}
    text = " ".join(part["text"] for part in result["content"])
    assert ("can no longer be read" in text) == (disposition != "outcome-unknown")


@pytest.mark.requirement("PEP-135")
async def test_an_operator_may_let_other_clients_of_the_same_person_in(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit(options={"match_client": False})
    task_id = await kit.open()
    assert (await kit.get(task_id, replace(ALICE, client_id="web", agent="web")))["taskId"] == task_id
    with pytest.raises(TaskNotFound):
        await kit.get(task_id, BOB)


# Cancellation -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("PEP-114", "PEP-115", "PEP-118")
async def test_a_cancelled_task_is_fenced_here_first_and_then_told_to_the_backend(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.is_down = True
    assert await kit.engine.cancel(task_id, ALICE) == {"resultType": "complete"}
    assert (await kit.get(task_id))["status"] == "cancelled"
    await kit.engine.deliver()
    assert kit.backend.cancels == []
    kit.backend.is_down = False
    kit.backend.approve()
    kit.clock.advance(60)
    await kit.engine.deliver()
    await kit.step(task_id)
    assert kit.backend.cancels == [kit.backend.last]
    assert kit.tool.calls == []
    assert (await kit.get(task_id))["status"] == "cancelled"


@pytest.mark.requirement("PEP-115")
async def test_a_backend_that_cannot_cancel_doesnt_matter(kit: Kit) -> None:
    kit.backend.has_cancel = False
    task_id = await kit.open()
    await kit.engine.cancel(task_id, ALICE)
    await kit.engine.deliver()
    kit.backend.approve()
    await kit.step(task_id)
    assert kit.backend.cancels == []
    assert (await kit.task(task_id)).cause is Cause.CLIENT_CANCELLED
    assert kit.tool.calls == []


@pytest.mark.requirement("PEP-114", "PEP-78")
async def test_cancelling_what_has_ended_is_acknowledged_and_changes_nothing(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.approve()
    await kit.step(task_id)
    before = await kit.get(task_id)
    assert await kit.engine.cancel(task_id, ALICE) == {"resultType": "complete"}
    assert await kit.get(task_id) == before


async def test_a_task_cancelled_while_resubmitting_is_recovered_and_cancelled_at_the_backend(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.approve()
    kit.backend.policy = lambda *_: requestable(2)
    kit.backend.lose_answers = 1
    await kit.step(task_id)
    assert await kit.phase(task_id) is Phase.RESUBMITTING
    second = kit.backend.last
    await kit.engine.cancel(task_id, ALICE)
    await kit.engine.deliver()
    assert kit.backend.cancels == [second]
    assert len(kit.backend.tasks) == 2


# Input --------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("PEP-85", "PEP-86")
async def test_answers_are_checked_and_only_outstanding_ones_count(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.ask(1)
    await kit.step(task_id)
    for wrong in (
        "yes",
        {},
        {"action": "shout"},
        {"action": "accept", "content": []},
        {"action": "accept", "content": {"ticket": "x"}},
        {"action": "accept"},
    ):
        with pytest.raises(InvalidParams) as refused:
            await kit.engine.update(task_id, ALICE, {"input-1-1": wrong})
        assert "input-1-1" in refused.value.message
    await kit.engine.update(task_id, ALICE, {"unknown": {"action": "accept", "content": {"ticket": "INC-1"}}})
    assert (await kit.get(task_id))["status"] == "input_required"
    good = {"action": "accept", "content": {"ticket": "INC-7", "amount": 1}}
    await kit.engine.update(task_id, ALICE, {"input-1-1": good})
    await kit.engine.update(task_id, ALICE, {"input-1-1": {"action": "accept", "content": {"ticket": "INC-8"}}})
    await kit.engine.deliver()
    assert kit.backend.answers == [(kit.backend.last, 1, {"ticket": "INC-7", "amount": 1})]
    kit.backend.approve()
    await kit.step(task_id)
    assert kit.tool.calls[0].arguments == {"to": "acct-991", "amount": 50_000}


async def test_a_client_may_decline_and_is_not_asked_the_same_again(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.ask(1)
    await kit.step(task_id)
    await kit.engine.update(task_id, ALICE, {"input-1-1": {"action": "decline"}})
    await kit.step(task_id)
    assert (await kit.get(task_id))["status"] == "working"
    await kit.engine.deliver()
    assert kit.backend.answers == []


async def test_an_answer_that_has_no_utf_8_form_is_refused_whole(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.ask(1)
    await kit.step(task_id)
    for content in ({"ticket": "INC-\ud800"}, {"ticket": "INC-7", "more": "\udfff"}):
        with pytest.raises(InvalidParams):
            await kit.engine.update(task_id, ALICE, {"input-1-1": {"action": "accept", "content": content}})
    assert (await kit.get(task_id))["status"] == "input_required"


async def test_a_question_that_cannot_be_checked_cannot_be_answered(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.ask(1)
    kit.backend.tasks[kit.backend.last]["input"]["schema"]["properties"]["ticket"] = {"type": "string", "pattern": "("}
    await kit.step(task_id)
    with pytest.raises(InvalidParams):
        await kit.engine.update(task_id, ALICE, {"input-1-1": {"action": "accept", "content": {"ticket": "abc"}}})


# ADR-017 ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("GOV-10", "GOV-11", "GOV-12")
async def test_the_caller_cannot_approve_its_own_call_and_nothing_of_its_update_counts(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.ask(1)
    await kit.step(task_id)
    update = {
        "input-1-1": {"action": "accept", "content": {"ticket": "INC-7"}},
        "io.mcp-hangar/approval#1": {"action": "accept", "content": {"approved": True}},
    }
    with pytest.raises(InvalidParams) as refused:
        await kit.engine.update(task_id, ALICE, update)
    assert refused.value.code == -32602
    assert (await kit.get(task_id))["status"] == "input_required"
    await kit.engine.deliver()
    assert kit.backend.answers == []
    assert kit.backend.tasks[kit.backend.last]["status"] == "pending"
    assert kit.tool.calls == []


@pytest.mark.requirement("GOV-13", "GOV-14", "GOV-05", "GOV-06")
async def test_the_typed_pending_approval_is_served_only_when_switched_on_and_declared(
    make_kit: Callable[..., Kit],
) -> None:
    kit = make_kit(options={"serve_approvals": True})
    plain = make_kit()
    task_id = await kit.open()
    for hidden in (await kit.get(task_id), await plain.engine.get(task_id, ALICE, approvals=True)):
        assert "inputRequests" not in hidden
        assert hidden["status"] == "working"
    shown = await kit.engine.get(task_id, ALICE, approvals=True)
    assert shown["status"] == "working"
    (key, value), *others = shown["inputRequests"].items()
    assert (key, others) == ("io.mcp-hangar/approval#1", [])
    asked = kit.backend.evaluations[0][0]["context"]["arguments_hash"]
    assert value["params"]["subject"] == {"mcpServer": "treasury", "tool": "wire_transfer", "argumentsHash": asked}
    assert value["params"]["approvalId"] == task_id
    assert "acct-991" not in json.dumps(value)
    kit.backend.end("denied")
    await kit.step(task_id)
    assert "inputRequests" not in await kit.engine.get(task_id, ALICE, approvals=True)


# Retention ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("PEP-75", "PEP-78", "PEP-79", "PEP-131")
async def test_a_result_is_kept_for_its_retention_and_then_all_of_it_is_gone(kit: Kit) -> None:
    short = await kit.restarted(limits=Limits(pending=timedelta(hours=1), retention=timedelta(hours=2)))
    task_id = await short.open()
    short.clock.advance(3000)
    short.backend.approve(seconds=3600)
    await short.step(task_id)
    ended = await short.task(task_id)
    assert ended.ending is Ending.APPROVED_EXECUTED
    short.clock.advance((ended.created_at - short.clock()).total_seconds() + ended.ttl_ms / 1000 - 1)
    await short.engine.purge()
    assert (await short.get(task_id))["status"] == "completed"
    short.clock.advance(1)
    with pytest.raises(TaskNotFound):
        await short.get(task_id)
    await short.engine.deliver()
    await short.engine.purge()
    assert await short.store.load(task_id) is None
    assert await short.store.handle_of(task_id, 1) is None
    assert "done" in await short.audit(task_id)
    await short.aclose()


@pytest.mark.requirement("PEP-73")
async def test_an_open_task_is_never_purged(kit: Kit) -> None:
    task_id = await kit.open()
    kit.clock.advance(10_000_000)
    await kit.engine.purge()
    assert await kit.phase(task_id) is Phase.PENDING


@pytest.mark.requirement("PEP-131", "PEP-132")
async def test_nothing_that_was_said_in_confidence_lies_readable_in_the_database(
    make_kit: Callable[..., Kit], sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, write-ahead log and program log are searched for canaries in arguments, answer, result and backend data."""
    kit = make_kit(limits=Limits(retention=timedelta(hours=1), pending=timedelta(hours=1)))
    task_id = await kit.open({"password": "canary-argument"})
    kit.backend.ask(1, message="canary-question")
    await kit.step(task_id)
    await kit.engine.update(task_id, ALICE, {"input-1-1": {"action": "accept", "content": {"ticket": "canary-answer"}}})
    kit.tool.answer = Executed({"content": [{"type": "text", "text": "canary-result"}]}, is_error=False)
    kit.backend.approve()
    await kit.step(task_id)
    await kit.engine.deliver()
    assert "canary-result" in json.dumps(await kit.get(task_id))
    secrets = ("canary-argument", "canary-question", "canary-answer", "canary-result", CANARY)
    stored = _bytes_on_disk(sqlite_url)
    assert b"wire_transfer" in stored
    assert [secret for secret in secrets if secret.encode() in stored] == []
    printed = capsys.readouterr()
    assert [secret for secret in secrets if secret in printed.out + printed.err] == []
    kit.clock.advance(100_000)
    await kit.engine.purge()
    assert await kit.store.load(task_id) is None


def _bytes_on_disk(url: str) -> bytes:
    path = url.removeprefix("sqlite:///")
    return b"".join(Path(path + suffix).read_bytes() for suffix in ("", "-wal"))


# Starts -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("PEP-56", "PEP-57", "PEP-58", "PEP-59", "PEP-60")
@pytest.mark.parametrize("point", ["intent.committed", "submit.answered", "handle.stored"])
async def test_a_death_during_creation_leaves_one_request_that_a_repeat_finds(kit: Kit, point: str) -> None:
    """Two hours later, when the denial has long expired."""
    kit.crash_at = point
    with pytest.raises(Killed):
        await kit.call()
    again = await kit.restarted()
    kit.clock.advance(7200 if point == "handle.stored" else 300)
    await again.engine.recover()
    task_id = await again.store.find_open(call_digest(binding()))
    assert task_id is not None
    if point != "handle.stored":
        await again.engine.step(task_id)
        assert await again.phase(task_id) is Phase.INTENT
        with pytest.raises(TaskNotFound):
            await again.get(task_id)
        assert await again.open() == task_id
    assert len(kit.backend.tasks) == 1
    assert len({key for key, _ in kit.backend.submissions}) == 1
    kit.backend.approve()
    await again.step(task_id)
    assert len(kit.tool.calls) == 1
    await again.aclose()


@pytest.mark.requirement("PEP-59")
@pytest.mark.parametrize("is_down", [False, True])
async def test_an_intent_that_nobody_repeats_is_cancelled_at_the_backend(kit: Kit, *, is_down: bool) -> None:
    """Also when the backend is down at the time: its cancellation recovers the handle later."""
    kit.crash_at = "submit.answered"
    with pytest.raises(Killed):
        await kit.call()
    again = await kit.restarted()
    task_id = await again.store.find_open(call_digest(binding()))
    assert task_id is not None
    kit.backend.is_down = is_down
    await again.engine.recover()
    kit.clock.advance(599)
    await again.engine.step(task_id)
    assert await again.phase(task_id) is Phase.INTENT
    kit.clock.advance(1)
    await again.engine.step(task_id)
    assert (await again.task(task_id)).cause is Cause.ORPHANED
    await again.engine.deliver()
    kit.backend.is_down = False
    kit.clock.advance(60)
    await again.engine.deliver()
    assert kit.backend.cancels == [kit.backend.last]
    assert len(kit.backend.tasks) == 1
    kit.backend.approve()
    await again.step(task_id)
    assert kit.tool.calls == []
    with pytest.raises(TaskNotFound):
        await again.get(task_id)
    await again.aclose()


@pytest.mark.requirement("PEP-60")
async def test_after_the_horizon_a_key_is_never_used_again(kit: Kit) -> None:
    """The backend may have forgotten it, and would take a repeat for a new request."""
    kit.backend.lose_answers = 1
    with pytest.raises(Unavailable):
        await kit.call()
    kit.clock.advance(86_400)
    kit.backend.keys.clear()
    again = await kit.restarted()
    task_id = await again.store.find_open(call_digest(binding()))
    assert task_id is not None
    fresh = await again.open()
    assert fresh != task_id
    assert (await again.task(task_id)).cause is Cause.ORPHANED
    await again.engine.deliver()
    assert len(kit.backend.tasks) == 2
    assert kit.backend.cancels == []
    kit.backend.approve()
    kit.backend.policy = lambda *_: requestable(3)
    kit.backend.lose_answers = 1
    await again.step(fresh)
    kit.clock.advance(86_400)
    sent = len(kit.backend.submissions)
    await again.step(fresh)
    assert (await again.task(fresh)).cause is Cause.SUBMISSION_LIMIT
    assert len(kit.backend.submissions) == sent
    await again.aclose()


async def test_an_intent_that_is_past_the_horizon_is_given_up_without_a_word(kit: Kit) -> None:
    kit.backend.is_down = True
    with pytest.raises(Unavailable):
        await kit.call()
    kit.backend.is_down = False
    task_id = await kit.store.find_open(call_digest(binding()))
    kit.clock.advance(86_400)
    await kit.engine.step(str(task_id))
    assert (await kit.task(str(task_id))).cause is Cause.ORPHANED
    assert kit.backend.submissions == []


@pytest.mark.requirement("PEP-60")
async def test_an_intent_whose_denial_the_backend_no_longer_takes_is_closed_as_denied(kit: Kit) -> None:
    kit.backend.is_down = True
    with pytest.raises(Unavailable):
        await kit.call()
    kit.backend.is_down = False
    kit.backend.refusal = Refused("urn:openid:authzen:access-request:error:expired_denial", 410)
    again = await kit.restarted()
    task_id = await again.store.find_open(call_digest(binding()))
    assert task_id is not None
    await again.engine.recover()
    await again.engine.step(task_id)
    task = await again.task(task_id)
    assert (task.ending, task.cause) == (Ending.DENIED_NOT_EXECUTED, Cause.SUBMISSION_REFUSED)
    await again.aclose()


async def test_an_intent_that_a_call_is_still_submitting_is_left_to_it(kit: Kit) -> None:
    entered, go = anyio.Event(), anyio.Event()
    submit = kit.backend.submit

    async def slow(body: bytes, *, key: str) -> Any:
        entered.set()
        await go.wait()
        return await submit(body, key=key)

    vars(kit.backend)["submit"] = slow
    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            group.start_soon(kit.open)
            await entered.wait()
            task_id = await kit.store.find_open(call_digest(binding()))
            await kit.step(str(task_id))
            go.set()
    assert len(kit.backend.submissions) == 1
    assert await kit.phase(str(task_id)) is Phase.PENDING


@pytest.mark.requirement("PEP-59", "PEP-101")
@pytest.mark.parametrize("point", ["grant.stored", "submit.answered", "handle.stored"])
async def test_a_death_while_chaining_loses_and_doubles_nothing(kit: Kit, point: str) -> None:
    task_id = await kit.open()
    kit.backend.approve()
    kit.backend.policy = lambda *_: requestable(2)
    kit.crash_at = point
    with pytest.raises(Killed):
        await kit.step(task_id)
    again = await kit.restarted()
    await again.engine.recover()
    await again.step(task_id)
    assert len(kit.backend.tasks) == 2
    assert (await again.task(task_id)).generation == 2
    kit.backend.policy = None
    kit.backend.approve()
    await again.step(task_id)
    assert len(kit.tool.calls) == 1
    await again.aclose()


# Callbacks ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("PEP-94", "PEP-95")
async def test_a_callback_wakes_its_own_task_and_is_believed_in_nothing_else(kit: Kit) -> None:
    task_id = await kit.open()
    backend_id = kit.backend.last
    state = kit.backend.tasks[backend_id]["state"]
    assert await kit.engine.callback(state=state, backend_task_id=backend_id)
    assert list(kit.engine._poller._woken) == [task_id]
    await kit.step(task_id)
    assert kit.backend.status_reads == [backend_id]
    assert kit.tool.calls == []
    kit.engine._poller._woken.clear()
    assert not await kit.engine.callback(state="forged", backend_task_id=backend_id)
    assert not await kit.engine.callback(state=state, backend_task_id="areq-of-somebody-else")
    assert not await kit.engine.callback(state=None, backend_task_id="areq-of-somebody-else")
    assert kit.engine._poller._woken == {}
    assert await kit.engine.callback(state=None, backend_task_id=backend_id)


async def test_a_callback_that_comes_before_the_handle_finds_its_intent(kit: Kit) -> None:
    kit.backend.lose_answers = 1
    with pytest.raises(Unavailable):
        await kit.call()
    state = kit.backend.tasks[kit.backend.last]["state"]
    assert await kit.engine.callback(state=state, backend_task_id=kit.backend.last)


async def test_a_nonce_counts_once(kit: Kit) -> None:
    duty = kit.engine._core.duty
    until = kit.clock() + timedelta(minutes=10)
    assert await duty.use_nonce("n-1", expires_at=until)
    assert not await duty.use_nonce("n-1", expires_at=until)
    assert await duty.use_nonce("n-2", expires_at=until)
    for odd in ("x" * 255, "x" * 100_000, "a\0b", "\ud800"):  # whatever a sender may choose
        assert await duty.use_nonce(odd, expires_at=until)
        assert not await duty.use_nonce(odd, expires_at=until)


async def test_a_callback_that_names_what_no_database_holds_is_about_nothing(kit: Kit) -> None:
    await kit.open()
    for odd in ("a\0b", "\ud800", "x" * 100_000):
        assert not await kit.engine.callback(state=odd, backend_task_id=odd)
        assert not await kit.engine.callback(state=None, backend_task_id=odd)


async def test_the_engine_runs_a_task_from_call_to_result_by_itself(kit: Kit) -> None:
    """The loop, the wake-ups and the outbox together, on the real clock of the event loop."""
    stop, ran = anyio.Event(), anyio.Event()
    kit.tool.during = ran.set
    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            group.start_soon(kit.engine.run, stop)
            task_id = await kit.open()
            kit.backend.approve()
            await kit.engine.callback(state=None, backend_task_id=kit.backend.last)
            await ran.wait()
            stop.set()
    assert (await kit.get(task_id))["result"]["_meta"][DISPOSITION] == "approved-executed"

"""Input before submission. Provenance: SEP-2848 "Collecting submission input"; PEP-F; X-11."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from arap_service.protocol.sealing import KeyRing
from mcp_gate import tables
from mcp_gate.asking import ACTIONS, KEY, STATE, InputNeeded, Offered, StateRefused, answer_of
from mcp_gate.backend import Denial, Permit
from mcp_gate.creation import Answer, Result, RunNow, TaskCreated
from mcp_gate.errors import InvalidParams, Unavailable
from mcp_gate.lifecycle import Ending, Phase
from mcp_gate.limits import Limits
from mcp_gate.mapping import CallBinding, Principal
from mcp_gate.texts import DEGRADED, FORM_NEEDED, INPUT_REFUSED, INPUT_UNASKED
from tests.gate.foreign_backend import CANARY, requestable
from tests.gate.kit import ALICE, BOB, FINGERPRINT, RING, TRANSFER, Kit, binding
from tests.gate.test_inputs import schema_of

pytestmark = pytest.mark.anyio

SCHEMA = schema_of({"justification": {"type": "string", "minLength": 5}})
ANSWER = {"action": "accept", "content": {"justification": "quarter end"}}
ABLE = Offered(can_be_asked=True)


def demanding(schema: dict[str, Any] = SCHEMA) -> Callable[..., Permit | Denial]:
    """A policy whose denials demand input, each with artifacts of its own; what is approved is permitted."""
    numbers = iter(range(1, 100))

    def policy(_: Mapping[str, Any], approval: Mapping[str, Any] | None) -> Permit | Denial:
        return Permit() if approval else replace(requestable(next(numbers)), request_schema=schema)

    return policy


async def call(kit: Kit, offered: Offered = ABLE, bound: CallBinding | None = None, *, tasks: bool = True) -> Answer:
    return await kit.engine.call(bound or binding(), tasks=tasks, tool_fingerprint=FINGERPRINT, offered=offered)


async def ask(kit: Kit, bound: CallBinding | None = None) -> str:
    """A first call that is answered with a question; its requestState."""
    answer = await call(kit, ABLE, bound)
    assert isinstance(answer, InputNeeded), answer
    return str(answer.body["requestState"])


def retry(state: str, response: Mapping[str, Any] = ANSWER) -> Offered:
    return Offered(can_be_asked=True, state=state, responses={KEY: response})


def text(answer: Answer) -> str:
    assert isinstance(answer, Result), answer
    assert answer.body["isError"] is True
    return str(answer.body["content"][0]["text"])


async def rows(kit: Kit) -> dict[str, int]:
    """How many rows each table holds."""

    def count(connection: Any) -> dict[str, int]:
        return {name: len(connection.execute(select(table)).all()) for name, table in tables.metadata.tables.items()}

    return await kit.store.database.read(count)


@pytest.mark.requirement("PEP-80", "PEP-81", "PEP-84")
async def test_needed_input_is_asked_for_before_anything_durable_exists(kit: Kit) -> None:
    kit.backend.policy = demanding()
    before = await rows(kit)
    answer = await call(kit)
    assert isinstance(answer, InputNeeded)
    assert set(answer.body) == {"resultType", "inputRequests", "requestState"}
    assert answer.body["resultType"] == "input_required"
    request = answer.body["inputRequests"][KEY]
    assert request["method"] == "elicitation/create"
    assert request["params"]["requestedSchema"] == {
        "type": "object",
        "properties": {"justification": {"type": "string", "minLength": 5}},
        "required": ["justification"],
    }
    assert await rows(kit) == before
    assert kit.backend.submissions == []


@pytest.mark.requirement("PEP-38", "PEP-82", "PEP-86")
async def test_the_answer_is_submitted_with_the_call_and_the_tool_never_sees_it(kit: Kit) -> None:
    kit.backend.policy = demanding(schema_of({"justification": {"type": "string"}}, {"amount": {"type": "integer"}}))
    state = await ask(kit)
    content = {"justification": "quarter end", "amount": 7, "to": "acct-evil", "agent": "somebody"}
    created = await call(kit, retry(state, {"action": "accept", "content": content}))
    assert isinstance(created, TaskCreated)
    ((_, body),) = kit.backend.submissions
    sent = json.loads(body)
    assert sent["question"]["context"] == {**kit.backend.evaluations[0][0]["context"], "justification": "quarter end"}
    assert sent["requested"] == {"amount": 7}
    kit.backend.approve()
    await kit.step(created.task_id)
    assert [ran.arguments for ran in kit.tool.calls] == [TRANSFER]
    assert "justification" not in kit.backend.evaluations[-1][0]["context"]


@pytest.mark.requirement("PEP-54")
async def test_what_a_catalog_offers_is_not_asked_for_as_free_text(kit: Kit) -> None:
    """The gate resolves no catalog, so it submits no value of one; catalog companion, "PEP Processing Rules"."""
    plain = demanding()

    def with_catalogs(asked: Mapping[str, Any], approval: Mapping[str, Any] | None) -> Permit | Denial:
        denial = plain(asked, approval)
        assert isinstance(denial, Denial)
        return replace(denial, access_request={**(denial.access_request or {}), "request_catalogs_url": CANARY})

    kit.backend.policy = plain
    state = await ask(kit)
    kit.backend.policy = with_catalogs
    assert text(await call(kit)) == FORM_NEEDED
    assert text(await call(kit, retry(state))) == FORM_NEEDED
    assert kit.backend.submissions == []
    with pytest.raises(StateRefused):  # the answers are spent
        await call(kit, retry(state))


@pytest.mark.requirement("PEP-84")
async def test_a_late_answer_is_submitted_under_a_fresh_denial(kit: Kit) -> None:
    kit.backend.policy = demanding()
    state = await ask(kit)
    kit.clock.advance(3000)  # the denial that was asked under ended after 300 seconds
    assert isinstance(await call(kit, retry(state)), TaskCreated)
    assert len(kit.backend.evaluations) == 2
    ((_, body),) = kit.backend.submissions
    assert json.loads(body)["denial"]["access_request"]["binding_token"] == f"token-{CANARY}-2"


@pytest.mark.requirement("PEP-82", "PEP-83")
@pytest.mark.parametrize(
    "other",
    [
        binding({**TRANSFER, "amount": 1}),
        binding(principal=BOB),
        binding(principal=replace(ALICE, client_id="other")),
        binding(principal=replace(ALICE, agent="other")),
        binding(principal=Principal(ALICE.iss, ALICE.sub, ALICE.client_id, ALICE.agent, {"sub": "delegate"})),
        replace(binding(), tool="wire_anything"),
        replace(binding(), server="elsewhere"),
        binding({"ids": [2**60]}),
    ],
)
async def test_an_answer_counts_for_the_call_and_the_caller_that_were_asked(
    make_kit: Callable[..., Kit], other: CallBinding
) -> None:
    kit = make_kit()
    kit.backend.policy = demanding()
    state = await ask(kit)
    evaluated = len(kit.backend.evaluations)
    with pytest.raises(StateRefused):
        await call(kit, retry(state), other)
    assert len(kit.backend.evaluations) == evaluated
    assert kit.backend.submissions == []
    assert isinstance(await call(kit, retry(state)), TaskCreated)


@pytest.mark.requirement("PEP-83")
async def test_a_state_is_good_for_one_use(kit: Kit) -> None:
    kit.backend.policy = demanding()
    state = await ask(kit)
    assert isinstance(await call(kit, retry(state)), TaskCreated)
    with pytest.raises(StateRefused):
        await call(kit, retry(state))
    kit.backend.end("denied")  # the call has no open task any more, so that it would be asked about again
    await kit.step((await kit.engine._core.duty.due(kit.clock() + timedelta(days=1)))[0])
    with pytest.raises(StateRefused):
        await call(kit, retry(state))
    assert len(kit.backend.submissions) == 1


@pytest.mark.requirement("PEP-83")
async def test_a_used_state_runs_nothing_either_when_the_call_is_permitted_meanwhile(kit: Kit) -> None:
    kit.backend.policy = demanding()
    state = await ask(kit)
    kit.backend.policy = lambda *_: Permit()
    assert isinstance(await call(kit, retry(state)), RunNow)
    with pytest.raises(StateRefused):
        await call(kit, retry(state))
    assert kit.backend.submissions == []


@pytest.mark.requirement("PEP-83")
async def test_an_altered_expired_or_foreign_state_is_refused(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit(limits=Limits(input=timedelta(minutes=5)))
    kit.backend.policy = demanding()
    state = await ask(kit)
    sealed = bytearray(base64.urlsafe_b64decode(state.removeprefix(STATE)))
    sealed[-1] ^= 1
    elsewhere = KeyRing({"k1": b"x" * 32}, "k1").seal(b"{}", aad="request_state")
    forged = [bytes(sealed), elsewhere, RING.seal(b"{}", aad="gate_task.binding"), b"", b"no"]
    for wrong in [STATE + base64.urlsafe_b64encode(bad).decode() for bad in forged] + [STATE + "é", STATE + "a"]:
        with pytest.raises(StateRefused) as caught:
            await call(kit, retry(wrong))
        assert (caught.value.code, caught.value.message) == (-32602, "Invalid or expired requestState")
    kit.clock.advance(300)
    with pytest.raises(StateRefused):
        await call(kit, retry(state))
    assert kit.backend.submissions == []
    assert len(kit.backend.evaluations) == 1


@pytest.mark.requirement("PEP-83", "PEP-126")
async def test_a_state_and_a_question_show_nothing_of_the_call_or_the_backend(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit()
    leaking = {"type": "string", "title": f"token-{CANARY}-1", "description": f"see eval-{CANARY}-1"}
    kit.backend.policy = demanding(schema_of({"justification": leaking}))
    answer = await call(kit)
    assert isinstance(answer, InputNeeded)
    wire = json.dumps(answer.body)
    opened = base64.urlsafe_b64decode(str(answer.body["requestState"]).removeprefix(STATE))
    assert CANARY not in wire
    assert b"acct-991" not in opened
    assert b"alice" not in opened


@pytest.mark.requirement("PEP-86")
@pytest.mark.parametrize(
    "response",
    [
        {"action": "accept", "content": {"justification": "no"}},
        {"action": "accept", "content": {}},
        {"action": "accept"},
        {"action": "accept", "content": []},
        {"action": "accept", "content": {"justification": 5}},
        {"action": "approve"},
        {},
        "accept",
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_may_be_corrected(
    make_kit: Callable[..., Kit], response: Any
) -> None:
    kit = make_kit()
    kit.backend.policy = demanding()
    state = await ask(kit)
    with pytest.raises(InvalidParams) as caught:
        await call(kit, retry(state, response))
    assert not isinstance(caught.value, StateRefused)
    assert kit.backend.submissions == []
    assert isinstance(await call(kit, retry(state)), TaskCreated)


async def test_an_answer_that_would_take_too_long_to_check_is_refused(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit()
    looking_around = {"properties": {"context": {"properties": {"justification": {"pattern": "(?=q)"}}}}}
    kit.backend.policy = demanding({**SCHEMA, "allOf": [looking_around] * 1_001})
    state = await ask(kit)
    with pytest.raises(InvalidParams, match="cannot be checked") as caught:
        await call(kit, retry(state))
    assert not isinstance(caught.value, StateRefused)
    assert kit.backend.submissions == []


async def test_a_round_without_the_answer_asks_again_with_a_state_of_its_own(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit()
    kit.backend.policy = demanding()
    state = await ask(kit)
    again = await call(kit, Offered(can_be_asked=True, state=state))
    assert isinstance(again, InputNeeded)
    with pytest.raises(StateRefused):
        await call(kit, retry(state))
    assert isinstance(await call(kit, retry(str(again.body["requestState"]))), TaskCreated)


@pytest.mark.parametrize("action", sorted(ACTIONS - {"accept"}))
async def test_a_caller_who_declines_gets_a_final_denial(make_kit: Callable[..., Kit], action: str) -> None:
    kit = make_kit()
    kit.backend.policy = demanding()
    state = await ask(kit)
    assert text(await call(kit, retry(state, {"action": action}))) == INPUT_REFUSED
    assert kit.backend.submissions == []
    with pytest.raises(StateRefused):
        await call(kit, retry(state))


async def test_a_client_that_cannot_be_asked_is_told_and_nothing_is_submitted(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit()
    kit.backend.policy = demanding()
    assert text(await call(kit, Offered())) == INPUT_UNASKED
    assert text(await call(kit, ABLE, tasks=False)) == DEGRADED
    assert kit.backend.submissions == []


@pytest.mark.requirement("PEP-38")
async def test_what_no_form_can_ask_for_is_left_to_the_backends_own_form(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit()
    kit.backend.policy = demanding(schema_of({"lines": {"type": "array", "items": {"type": "object"}}}))
    assert text(await call(kit)) == FORM_NEEDED
    assert kit.backend.submissions == []


@pytest.mark.requirement("PEP-63")
async def test_a_repeat_of_the_call_finds_its_task_instead_of_asking_again(kit: Kit) -> None:
    kit.backend.policy = demanding()
    created = await call(kit, retry(await ask(kit)))
    assert isinstance(created, TaskCreated)
    for offered in (ABLE, Offered()):
        again = await call(kit, offered)
        assert isinstance(again, TaskCreated)
        assert again.task_id == created.task_id
    assert len(kit.backend.submissions) == 1


async def test_a_submission_whose_answer_was_lost_is_joined_by_the_next_call(kit: Kit) -> None:
    """Crash-consistent creation holds for answered calls as well (PEP-82)."""
    kit.backend.policy = demanding()
    kit.backend.lose_answers = 1
    state = await ask(kit)
    with pytest.raises(Unavailable):
        await call(kit, retry(state))
    with pytest.raises(StateRefused):
        await call(kit, retry(state))
    assert isinstance(await call(kit), TaskCreated)
    (first, second) = kit.backend.submissions
    assert first == second


async def test_answers_to_a_form_that_changed_meanwhile_are_asked_for_anew(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit()
    kit.backend.policy = demanding()
    state = await ask(kit)
    kit.backend.policy = demanding(schema_of({"justification": {"type": "string"}, "ticket": {"type": "string"}}))
    again = await call(kit, retry(state))
    assert isinstance(again, InputNeeded)
    content = {"justification": "quarter end", "ticket": "T-1"}
    state = str(again.body["requestState"])
    assert isinstance(await call(kit, retry(state, {"action": "accept", "content": content})), TaskCreated)


async def test_answers_that_are_no_longer_needed_are_not_submitted(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit()
    kit.backend.policy = demanding()
    state = await ask(kit)
    kit.backend.policy = lambda *_: requestable(9)
    assert isinstance(await call(kit, retry(state)), TaskCreated)
    assert b"quarter end" not in kit.backend.submissions[0][1]


async def test_a_state_of_the_tools_own_is_none_of_the_gates(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit()
    kit.backend.policy = demanding()
    assert isinstance(await call(kit, retry("a state of the tool")), InputNeeded)
    kit.backend.policy = lambda *_: Permit()
    assert isinstance(await call(kit, retry("a state of the tool")), RunNow)


@pytest.mark.requirement("PEP-102")
async def test_a_chained_request_takes_the_answers_that_were_given_once(kit: Kit) -> None:
    kit.backend.policy = demanding()
    created = await call(kit, retry(await ask(kit)))
    assert isinstance(created, TaskCreated)
    kit.backend.approve()
    fresh = replace(requestable(50), request_schema=SCHEMA)
    kit.backend.policy = lambda *_: fresh if len(kit.backend.tasks) == 1 else Permit()
    restarted = await kit.restarted()  # the answers are in the database, sealed
    await restarted.step(created.task_id)
    assert await restarted.phase(created.task_id) is Phase.PENDING
    second = json.loads(kit.backend.submissions[1][1])
    assert second["question"]["context"]["justification"] == "quarter end"
    assert second["denial"]["access_request"]["binding_token"] == f"token-{CANARY}-50"
    await restarted.aclose()


@pytest.mark.requirement("PEP-38")
async def test_a_chained_request_that_needs_other_input_is_a_denial(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit()
    kit.backend.policy = demanding()
    created = await call(kit, retry(await ask(kit)))
    assert isinstance(created, TaskCreated)
    kit.backend.approve()
    other = replace(requestable(50), request_schema=schema_of({"ticket": {"type": "string"}}))
    kit.backend.policy = lambda *_: other
    await kit.step(created.task_id)
    assert (await kit.task(created.task_id)).ending is Ending.DENIED_NOT_EXECUTED
    assert len(kit.backend.submissions) == 1
    assert kit.tool.calls == []


async def test_a_state_is_understood_by_every_gate_that_shares_database_and_keys(kit: Kit) -> None:
    kit.backend.policy = demanding()
    state = await ask(kit)
    other = Kit(kit.url, kit.clock, kit.backend)
    assert isinstance(await call(other, retry(state)), TaskCreated)
    with pytest.raises(StateRefused):
        await call(kit, retry(state))
    await other.aclose()


def test_an_answer_to_a_question_whose_schema_cannot_be_applied_is_refused() -> None:
    with pytest.raises(InvalidParams, match="cannot be answered"):
        answer_of("k", {"action": "accept", "content": {}}, schema={"$ref": "https://elsewhere.example"})

"""What the local backend decides, beyond the duties of every backend. Provenance: design section 8."""

from typing import Any

import pytest

from mcp_gate.backend import Accepted, BackendUnavailable, DecisionPointUnavailable, Denial, Permit, Refused
from mcp_gate.database import Database
from mcp_gate.local.backend import LocalBackend
from mcp_gate.mapping import Principal
from tests.clock import FakeClock
from tests.gate.kit import ALICE, BOB, RING
from tests.gate.local.desk import LocalDesk, local, question, vote

pytestmark = pytest.mark.anyio


async def approved(desk: LocalDesk) -> dict[str, Any]:
    """An approval of `wire` with the amount 1, by alice."""
    asked = desk.requestable()
    denial: Any = await desk.backend.evaluate(asked)
    accepted = await desk.backend.submit(desk.backend.submission_body(asked, denial), key="kit-key-1")
    assert isinstance(accepted, Accepted)
    await desk.know_asker()
    await desk.decide(accepted.handle.task_id, vote())
    status = await desk.backend.status(accepted.handle)
    assert status.approval is not None
    return dict(status.approval)


async def test_what_no_rule_names_is_denied(desk: LocalDesk) -> None:
    for asked in (question("unheard_of"), question("wires", amount=1), question("WIRE", amount=1)):
        assert await desk.backend.evaluate(asked) == Denial("not_permitted")


async def test_a_rule_about_methods_is_not_about_tools_of_that_name(desk: LocalDesk) -> None:
    assert await desk.backend.evaluate(question("tools/list")) == Denial("not_permitted")
    plain: dict[str, Any] = {"subject": {"type": "user", "id": "alice"}, "resource": {"type": "mcp_server", "id": "x"}}
    assert await desk.backend.evaluate({**plain, "action": {"name": "tools/list"}, "context": {}}) == Permit()
    read = await desk.backend.evaluate({**plain, "action": {"name": "resources/read"}, "context": {}})
    assert read == Denial("not_permitted")


@pytest.mark.parametrize(
    "asked",
    [
        question("wire", principal=BOB, amount=1),
        question("wire", principal=Principal(ALICE.iss, ALICE.sub, ALICE.client_id, "another-agent"), amount=1),
        question("wire", amount=True),
        question("wire", amount=1, memo="more"),
    ],
    ids=["another subject", "another agent", "another type", "another argument"],
)
async def test_an_approval_is_for_exactly_what_was_approved(desk: LocalDesk, asked: dict[str, Any]) -> None:
    approval = await approved(desk)
    assert isinstance(await desk.backend.evaluate(desk.requestable(), approval=approval), Permit)
    assert isinstance(await desk.backend.evaluate(asked, approval=approval), Denial)


async def test_a_tightened_rule_overrides_an_approval(desk: LocalDesk) -> None:
    approval = await approved(desk)
    strict = LocalBackend(
        local(rules=[{"tools": ["*"], "decision": "deny"}]), desk.database, RING, clock=desk.clock, new_id=str
    )
    assert await strict.evaluate(desk.requestable(), approval=approval) == Denial("not_permitted")


async def test_arguments_without_an_exact_form_cannot_be_requested(desk: LocalDesk) -> None:
    decision = await desk.backend.evaluate(question("wire", amount=2**60))
    assert decision == Denial("arguments_without_exact_form")
    refused = await desk.backend.submit(b'{"v":1,"question":{"action":{"name":"x"}}}', key="kit-key-1")
    assert isinstance(refused, Refused)


async def test_a_wish_for_other_access_is_not_submitted(desk: LocalDesk) -> None:
    denial: Any = await desk.backend.evaluate(desk.requestable())
    with pytest.raises(ValueError, match="as it is"):
        desk.backend.submission_body(desk.requestable(), denial, requested_access={"seconds": 5})


async def test_the_reason_of_a_denial_is_told_and_that_of_an_approval_is_not(desk: LocalDesk) -> None:
    asked = desk.requestable()
    denial: Any = await desk.backend.evaluate(asked)
    accepted = await desk.backend.submit(desk.backend.submission_body(asked, denial), key="kit-key-1")
    assert isinstance(accepted, Accepted)
    await desk.deny(accepted.handle)
    assert (await desk.backend.status(accepted.handle)).decision_text == "looked at it"


async def test_a_cancelled_approval_permits_nothing(desk: LocalDesk) -> None:
    approval = await approved(desk)
    await desk.backend.cancel(await _handle(desk, approval))
    assert isinstance(await desk.backend.evaluate(desk.requestable(), approval=approval), Denial)


async def test_requests_are_forgotten_after_their_retention(desk: LocalDesk) -> None:
    approval = await approved(desk)
    handle = await _handle(desk, approval)
    desk.clock.advance(2_592_001)
    asked = desk.requestable(2)
    denial: Any = await desk.backend.evaluate(asked)
    await desk.backend.submit(desk.backend.submission_body(asked, denial), key="kit-key-2")
    assert (await desk.backend.status(handle)).gone


@pytest.mark.requirement("PEP-131")
async def test_a_gate_that_nobody_uses_forgets_too(desk: LocalDesk) -> None:
    handle = await _handle(desk, await approved(desk))
    backend = await desk.restarted()
    assert isinstance(backend, LocalBackend)
    desk.clock.advance(2_592_000)
    await backend.forget()
    assert (await backend.status(handle)).status == "approved"
    desk.clock.advance(1)
    await backend.forget()
    assert (await backend.status(handle)).gone


async def test_without_its_database_nothing_is_approved(clock: FakeClock, sqlite_url: str) -> None:
    """Fail closed: what cannot be looked up is no permit, and says that it may be tried again."""
    database = Database.open(sqlite_url)
    desk = LocalDesk(database, clock)
    approval = await approved(desk)
    handle = await _handle(desk, approval)
    other_keys = LocalBackend(desk.local, database, type(RING)({"k1": b"x" * 32}, "k1"), clock=clock, new_id=str)
    with pytest.raises(DecisionPointUnavailable):
        await other_keys.evaluate(desk.requestable(), approval=approval)
    with pytest.raises(BackendUnavailable):
        await other_keys.status(handle)
    assert isinstance(await other_keys.evaluate(desk.refused()), Denial)
    await database.aclose()


async def _handle(desk: LocalDesk, approval: dict[str, Any]) -> Any:
    asked = desk.requestable()
    denial: Any = await desk.backend.evaluate(asked)
    accepted = await desk.backend.submit(desk.backend.submission_body(asked, denial), key="kit-key-1")
    assert isinstance(accepted, Accepted)
    assert accepted.handle.task_id == approval["id"]
    return accepted.handle

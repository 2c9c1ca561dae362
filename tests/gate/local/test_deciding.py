"""Who may decide a local request, and that it is decided once. Provenance: design section 8; GOV-09, GOV-10."""

from typing import Any

import anyio
import pytest

from mcp_gate.backend import Accepted, Handle
from mcp_gate.database import Database
from mcp_gate.local.deciding import NotDecided, Vote
from mcp_gate.mapping import Principal
from tests.clock import FakeClock
from tests.gate.kit import ALICE
from tests.gate.local.desk import SECRET, LocalDesk, local, question, vote

pytestmark = pytest.mark.anyio


async def opened(desk: LocalDesk, *, key: str = "kit-key-1", principal: Principal = ALICE) -> Handle:
    """A pending request whose asker the gate knows."""
    asked = question("wire", principal=principal, amount=1)
    denial: Any = await desk.backend.evaluate(asked)
    accepted = await desk.backend.submit(desk.backend.submission_body(asked, denial), key=key)
    assert isinstance(accepted, Accepted)
    desk.asker = principal
    await desk.know_asker(key)
    return accepted.handle


async def test_an_approver_whom_the_rule_names_decides(desk: LocalDesk) -> None:
    handle = await opened(desk)
    decided = await desk.decide(handle.task_id, vote())
    assert (decided.status, decided.decided_by, decided.reason) == ("approved", "rita", "looked at it")
    assert decided.approved_until is not None
    assert (decided.approved_until - desk.clock()).total_seconds() == 900


@pytest.mark.requirement("GOV-09")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        (vote("rita", secret="guess"), "name and secret"),
        (vote("rita", secret=""), "name and secret"),
        (vote("rita", secret=f"{SECRET} otto"), "name and secret"),
        (vote("nobody", secret="\ud800"), "name and secret"),
        (vote("otto"), "do not name this approver"),
        (vote(reason=""), "1 to 2000"),
        (vote(reason="x" * 2001), "1 to 2000"),
        (vote(decision="deny", reason=None), "needs a reason"),
    ],
)
async def test_nobody_else_decides(desk: LocalDesk, given: Vote, why: str) -> None:
    """Each refusal changes nothing."""
    handle = await opened(desk)
    with pytest.raises(NotDecided, match=why):
        await desk.decide(handle.task_id, given)
    assert (await desk.backend.status(handle)).status == "pending"


@pytest.mark.requirement("GOV-10", "GOV-12")
@pytest.mark.parametrize(
    ("principal", "approver"),
    [
        (Principal("https://issuer.example", "rita", "desktop", None), "rita"),
        (Principal("https://issuer.example", " Rita ", "desktop", None), "rita"),
        (Principal("https://issuer.example", "alice", "desktop", None), "adele"),
        (Principal("https://issuer.example", "bob", "rita", None), "rita"),
        (Principal("https://issuer.example", "bob", "desktop", "rita"), "rita"),
        (Principal("https://issuer.example", "bob", "ALICE", None), "adele"),
        (Principal("https://issuer.example", "\uff32ita", "desktop", None), "rita"),
        (Principal("https://issuer.example", "bob", "desktop", None, {"sub": "rita"}), "rita"),
        (Principal("https://issuer.example", "bob", "desktop", None, {"sub": "x", "act": {"sub": "alice"}}), "adele"),
    ],
    ids=[
        "himself",
        "in another spelling",
        "under another name",
        "as client",
        "as agent",
        "client under another name",
        "in another form of Unicode",
        "acting for him",
        "acting through somebody",
    ],
)
async def test_the_caller_his_client_and_his_agent_never_decide(
    desk: LocalDesk, principal: Principal, approver: str
) -> None:
    handle = await opened(desk, principal=principal)
    for decision in ("approve", "deny"):
        with pytest.raises(NotDecided, match="nobody decides what he asked for"):
            await desk.decide(handle.task_id, vote(approver, decision))
    assert (await desk.backend.status(handle)).status == "pending"


async def test_a_request_whose_asker_is_not_known_is_decided_by_nobody(desk: LocalDesk) -> None:
    handle = await opened(desk)
    await desk.know_asker("another-key")
    with pytest.raises(NotDecided, match="no longer knows who asked"):
        await desk.decide(handle.task_id, vote())


async def test_the_rules_of_the_moment_of_deciding_count(desk: LocalDesk) -> None:
    handle = await opened(desk)
    rules = [{"tools": ["wire"], "decision": "request", "approvers": ["otto"]}]
    desk.local = local(rules=rules)
    with pytest.raises(NotDecided, match="do not name this approver"):
        await desk.decide(handle.task_id, vote("rita"))
    assert (await desk.decide(handle.task_id, vote("otto"))).decided_by == "otto"


async def test_of_two_decisions_at_once_one_counts(desk: LocalDesk) -> None:
    handle = await opened(desk)
    told: list[str] = []

    async def give(decision: str) -> None:
        try:
            told.append((await desk.decide(handle.task_id, vote(decision=decision))).status)
        except NotDecided:
            told.append("refused")

    async with anyio.create_task_group() as group:
        for decision in ("approve", "deny") * 4:
            group.start_soon(give, decision)
    assert told.count("refused") == 7
    (won,) = set(told) - {"refused"}
    assert (await desk.backend.status(handle)).status == won


async def test_nothing_is_decided_at_or_after_the_deadline(desk: LocalDesk) -> None:
    handle = await opened(desk)
    desk.clock.advance(86_400)
    with pytest.raises(NotDecided, match="expired already"):
        await desk.decide(handle.task_id, vote())
    assert (await desk.backend.status(handle)).status == "expired"


async def test_what_is_sealed_is_not_in_the_database_in_clear(sqlite_url: str, clock: FakeClock) -> None:
    """Arguments and reasons; on SQLite, whose file can be read."""
    database = Database.open(sqlite_url)
    desk = LocalDesk(database, clock)
    asked = question("wire", memo="canary-argument")
    denial: Any = await desk.backend.evaluate(asked)
    accepted = await desk.backend.submit(desk.backend.submission_body(asked, denial), key="kit-key-1")
    assert isinstance(accepted, Accepted)
    await desk.know_asker()
    await desk.decide(accepted.handle.task_id, vote(reason="canary-reason"))
    await database.aclose()
    file = anyio.Path(sqlite_url.removeprefix("sqlite:///"))
    stored = b"".join(
        [await path.read_bytes() async for path in file.parent.glob(f"{file.name}*") if await path.is_file()]
    )
    assert accepted.handle.task_id.encode() in stored
    assert b"canary" not in stored

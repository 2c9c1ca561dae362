"""Storms: many rounds of races over real stores, on both database engines, in an order that a seed decides.

Two processes' worth of service or gate work on one database at once; after each round whatever the rules promise must
hold, whoever was faster. `make deep` runs this file; `ARAP_STORM_SEED` and `ARAP_STORM_ROUNDS` repeat a run.
Catalogue ARS-49, ARS-55, ARS-56, ARS-114, PEP-55, PEP-66, PEP-108, PEP-116; design.md section 9.
"""

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from sqlmodel import col, select

from arap_service import requests, workers
from arap_service.domain.callers import Caller
from arap_service.domain.errors import (
    IneligibleApprover,
    InvalidTaskState,
    StaleVersion,
)
from arap_service.store.tables import Approval, Delivery, Task, Vote
from mcp_gate import migrate as gate_migrate
from mcp_gate.backend import Denial, Permit
from mcp_gate.creation import TaskCreated
from mcp_gate.execution import Executed, NoResponse, Outcome, ReceivedError
from mcp_gate.lifecycle import Phase
from mcp_gate.limits import Limits
from tests.clock import FakeClock
from tests.databases import Databases, Kind
from tests.gate.foreign_backend import ForeignBackend, requestable
from tests.gate.kit import ALICE, Kit, Tool
from tests.requests.conftest import prepare
from tests.requests.world import CALLBACK, GATE, RISK_ENGINE, World, open_world, question

pytestmark = pytest.mark.anyio

SEED = int(os.environ.get("ARAP_STORM_SEED", "1"))
ROUNDS = int(os.environ.get("ARAP_STORM_ROUNDS", "25"))
ENDS = frozenset({"task_approved", "task_denied", "task_cancelled", "task_expired"})
DISPOSITION = "io.modelcontextprotocol/tool-approval-disposition"
RATES = {
    "requestable_denials_per_minute": 10**6,
    "submissions_per_minute": 10**6,
    "open_requests_per_client": 10**6,
}

DECIDERS: Mapping[str, Sequence[str | Caller]] = {
    "wire_transfer": ("ann", "bob", RISK_ENGINE),
    "merge": ("lea", "mo"),
    "payroll": ("ann", "bob", "carl"),
}

Act = Callable[[], Awaitable[object]]


async def together(chance: Random, acts: Sequence[Act]) -> None:
    """All acts at once, each beginning after as many turns as chance gives it."""

    async def begin(turns: int, act: Act) -> None:
        for _ in range(turns):
            await checkpoint()
        await act()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for act in acts:
                group.start_soon(begin, chance.randrange(40), act)


# The service --------------------------------------------------------------------------------------------------------


@pytest.fixture
def world_url(engine_kind: Kind, databases: Databases) -> Iterator[str]:
    url = databases.copy_of(engine_kind, "world", prepare)
    yield url
    databases.drop(url)


async def test_of_racing_decisions_one_wins_and_the_record_tells_which(
    world_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    """Approvals, denials, withdrawals, deadlines and retries at once, through two processes on one database."""
    chance, ends = Random(SEED), Counter[str]()  # noqa: S311  # a storm that can be repeated
    async with (
        open_world(tmp_path, world_url, clock, limits=RATES) as one,
        open_world(tmp_path, world_url, clock, limits=RATES) as other,
    ):
        for number in range(ROUNDS):
            ends[await decision_round(chance, (one, other), number)] += 1
    assert ends.keys() <= {"pending", "approved", "denied", "cancelled", "expired"}
    assert ROUNDS < 25 or len(ends) >= 4, f"the storm was too one-sided to prove anything: {ends}"


async def decision_round(chance: Random, worlds: Sequence[World], number: int) -> str:
    one = worlds[0]
    resource = chance.choice(("wire_transfer", "merge", "payroll"))
    body = await one.body(question(resource), callback={"endpoint": CALLBACK, "state": number})
    key, ids = f"storm-{number}", set[str]()

    async def submit(world: World) -> None:
        ids.add(str((await world.submit(body, key=key)).task["id"]))

    await together(chance, [partial(submit, chance.choice(worlds)) for _ in range(chance.randint(1, 4))])
    (task_id,) = ids  # ARS-49
    deadline = (await one.task(task_id)).pending_until

    async def faced(act: Act) -> None:
        with suppress(InvalidTaskState, StaleVersion, IneligibleApprover):  # somebody else was faster, and said so
            await act()

    def any_act() -> Act:
        world = chance.choice(worlds)
        kind = chance.choice(("approve", "approve", "approve", "deny", "cancel", "expire", "retry"))
        if kind == "cancel":
            return partial(faced, lambda: requests.cancel(world.ctx, GATE, task_id, None))
        if kind == "expire":
            return lambda: workers.expire_due(replace(world.ctx, clock=lambda: deadline))
        if kind == "retry":
            return partial(submit, world)
        who = chance.choice(DECIDERS[resource])
        return partial(faced, lambda: world.decide(task_id, who, kind, reason="So it was."))

    await together(chance, [any_act() for _ in range(chance.randint(2, 7))])
    assert ids == {task_id}
    return await judged(one, task_id, resource)


async def judged(world: World, task_id: str, resource: str) -> str:
    """The status of a task about which everything agrees."""

    def read(session: Any) -> tuple[Task, list[Vote], list[Approval], list[Delivery]]:
        def rows(table: Any) -> list[Any]:
            return list(session.exec(select(table).where(col(table.task_id) == task_id)))

        return session.get(Task, task_id), rows(Vote), rows(Approval), rows(Delivery)

    task, votes, approvals, deliveries = await world.ctx.database.read(read)
    kinds = await world.kinds(task_id)  # which verifies the chain as well
    is_open = task.status == "pending"
    assert [kind for kind in kinds if kind in ENDS] == ([] if is_open else [f"task_{task.status}"])
    assert len(approvals) == (task.status == "approved")
    assert [delivery.event for delivery in deliveries] == ([] if is_open else [task.status])
    assert kinds.count("vote_cast") == len(votes) == len({(vote.step_id, vote.voter) for vote in votes})
    if task.status == "approved":
        approved = {vote.voter for vote in votes if vote.decision == "approve"}
        assert len(approved) >= {"wire_transfer": 1, "merge": 2, "payroll": 2}[resource]  # ARS-114, ARS-116
    return task.status


# The gate -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def gate_url(engine_kind: Kind, databases: Databases) -> Iterator[str]:
    url = databases.copy_of(engine_kind, "gate", gate_migrate.upgrade)
    yield url
    databases.drop(url)


ANSWERS: Mapping[str, Outcome] = {
    "approved-executed": Executed({"content": []}, is_error=False),
    "execution-error": ReceivedError(-32000, "broken"),
    "outcome-unknown": NoResponse("connection_lost"),
}


async def test_of_racing_steps_and_cancels_a_tool_runs_at_most_once(gate_url: str, clock: FakeClock) -> None:
    """Equal calls, steps, cancellations and every fate of a request at once, through two gates on one database."""
    chance, ends = Random(SEED), Counter[str]()  # noqa: S311  # a storm that can be repeated
    backend, tool, roomy = ForeignBackend(clock), Tool(), Limits(open_tasks=10**6, intents_per_minute=10**6)
    kits = [Kit(gate_url, clock, backend, tool, limits=roomy) for _ in range(2)]
    try:
        for number in range(ROUNDS):
            ends[await execution_round(chance, kits, number)] += 1
    finally:
        for kit in kits:
            await kit.aclose()
    assert ROUNDS < 25 or len(ends) >= 4, f"the storm was too one-sided to prove anything: {ends}"


async def execution_round(chance: Random, kits: Sequence[Kit], number: int) -> str:
    backend, tool, ids = kits[0].backend, kits[0].tool, set[str]()
    asked = len(backend.keys)
    standing = chance.choice((Permit(), Permit(), Permit(), Denial("policy_denied"), Denial(next_action="retry")))
    backend.policy = lambda _question, approval: requestable() if approval is None else standing
    backend.lose_answers = 0
    tool.answer = chance.choice([*ANSWERS.values()])
    ran = len(tool.calls)

    async def call(kit: Kit) -> None:
        created = await kit.call({"number": number})
        assert isinstance(created, TaskCreated)
        ids.add(created.task_id)

    await together(chance, [partial(call, chance.choice(kits)) for _ in range(chance.randint(1, 4))])
    (task_id,) = ids  # PEP-55, PEP-63
    assert len(backend.keys) == asked + 1
    match chance.choice(("approved", "approved", "approved", "denied", "cancelled", "failed", "pending")):
        case "approved":
            backend.approve()
        case fate:
            backend.end(fate)

    cancelling = chance.choice((0.0, 0.1, 0.3))

    def any_act() -> Act:
        kit = chance.choice(kits)
        if chance.random() < cancelling:
            return lambda: kit.engine.cancel(task_id, ALICE)
        return partial(kit.get, task_id) if chance.random() < 0.2 else partial(kit.step, task_id)

    await together(chance, [any_act() for _ in range(chance.randint(2, 7))])
    for _ in range(40):
        if await kits[0].phase(task_id) is Phase.DONE:
            break
        kits[0].clock.advance(300)
        await together(chance, [partial(kit.step, task_id) for kit in kits])
    await kits[0].step(task_id)  # what has ended stays ended
    return await agreed(kits[0], task_id, calls=[done.task_id for done in tool.calls[ran:]])


async def agreed(kit: Kit, task_id: str, *, calls: list[str]) -> str:
    """How a task ended, which must agree with what the tool was asked to do."""
    seen = await kit.get(task_id)
    ending = seen["status"] if seen["status"] != "completed" else seen["result"]["_meta"][DISPOSITION]
    if ending in ANSWERS:
        assert calls == [task_id]  # PEP-66
        assert kit.tool.answer == ANSWERS[ending]
    else:
        assert ending in {"denied-not-executed", "cancelled", "failed"}
        assert calls == []  # PEP-116, PEP-118
    return str(ending)

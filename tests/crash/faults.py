"""What befalls a gate at a named point, other than death: it freezes and comes back late, or its database is away.

While it is frozen another gate on the same database goes on, either one that starts then and sees to everything at
once, or one that was there before and waits for the lease. Both must be true however the two race: the tool runs at
most once, and both gates tell the same end.
"""

import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import anyio

from mcp_gate.client import Disposition, disposition
from tests.crash.processes import Server, locked, until
from tests.crash.world import GATE_DATABASE, Story, service_of
from tests.databases import Databases
from tests.patience import pause

Fault = Literal["frozen", "frozen past the lease", "without its database"]
FAULTS: tuple[Fault, ...] = ("frozen", "frozen past the lease", "without its database")
EXECUTED, UNKNOWN = Disposition.APPROVED_EXECUTED, Disposition.OUTCOME_UNKNOWN
LEASE_SECONDS, EXECUTION_SECONDS, BUSY_SECONDS = 5, 4, 0.5
AWAY_SECONDS = 2.0
SHORT: Mapping[str, str] = MappingProxyType(
    {
        "MCP_GATE_LIMITS__LEASE_SECONDS": str(LEASE_SECONDS),
        "MCP_GATE_LIMITS__EXECUTION_SECONDS": str(EXECUTION_SECONDS),
        "MCP_GATE_BACKEND__TIMEOUT_SECONDS": str(LEASE_SECONDS / 3),
    }
)
# The point, how often the tool has run in the end, and what the agent is told: when a gate freezes there until its
# claim is over, and when its database is away for a while that is shorter than a claim.
FROZEN = {
    "intent.committed": (1, EXECUTED),
    "submit.answered": (1, EXECUTED),
    "handle.stored": (1, EXECUTED),
    "grant.stored": (1, EXECUTED),
    "claim.before_commit": (1, EXECUTED),
    "claim.committed": (0, UNKNOWN),
    "invoke.started": (0, UNKNOWN),
    "invoke.returned": (1, UNKNOWN),
    "outcome.stored": (1, EXECUTED),
    "report.before_send": (1, EXECUTED),
}
# What runs is not forgotten when the database is back; what had not begun then, does not begin any more.
WITHOUT_DATABASE = {**FROZEN, "invoke.started": (1, EXECUTED), "invoke.returned": (1, EXECUTED)}


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault at one point; `passage` says the how-manieth time that the point is passed."""

    fault: Fault
    point: str
    passage: int = 1

    @property
    def armed(self) -> dict[str, str]:
        """The environment of the gate that it befalls."""
        return {"MCP_GATE_STOP_AT": f"{self.point}:{self.passage}"}

    @property
    def end(self) -> tuple[int, Disposition]:
        """How the only call ends."""
        return (WITHOUT_DATABASE if self.fault == "without its database" else FROZEN)[self.point]


def surroundings(story: Story) -> dict[str, str]:
    """What both gates of the story are started with."""
    url = story.gate.environment[GATE_DATABASE]
    patient = f"{url}?timeout={BUSY_SECONDS}" if url.startswith("sqlite") else url
    return {**SHORT, GATE_DATABASE: patient}


async def ends_as_it_must(story: Story, trouble: Trouble, databases: Databases) -> bool:
    """Tell the story with one fault, check everything that must be true at its end, and say as `befall` does."""
    seen: list[Disposition] = []

    async def finish() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(story.approve)
            seen.append(await end_of(story))

    async with service_of(story):
        is_exact = await befall(story, trouble, databases, finish)
        request = await story.only_request(reported=seen[0].value)
        assert request["status"] == "approved"
        ran = await story.executions()
        assert ran <= 1
        assert ran == 1 or seen[0] is not EXECUTED
        assert not is_exact or (ran, seen[0]) == trouble.end
    assert story.broken_chains() == {}
    return is_exact


async def befall(
    story: Story, trouble: Trouble, databases: Databases, finish: Callable[[], Coroutine[Any, Any, None]]
) -> bool:
    """Start the gates, let the fault come and pass while `finish` brings the agents' calls to their end.

    Returns whether it came just at the point; a process that froze with a transaction open is let go on a little.
    """
    url = story.gate.environment[GATE_DATABASE]
    await story.gate.start({**surroundings(story), **trouble.armed})
    if trouble.fault == "frozen past the lease":
        await story.other.start(surroundings(story))
        await hold_still(story.other, url, databases)
    async with anyio.create_task_group() as group:
        group.start_soon(finish)
        await story.gate.stopped_itself()
        is_exact = not databases.in_transaction(url)
        if trouble.fault == "without its database":
            await lose_database(story.gate, url, databases)
        else:
            if not is_exact:
                await hold_still(story.gate, url, databases)
            await come_late(story)
    for gate in (story.gate, story.other):
        if gate.process is not None:
            await says_it_too(story, gate)
            await gate.end()
    return is_exact


async def come_late(story: Story) -> None:
    """Let the other gate go on, and the frozen one when its lease and its claims are over."""
    over = time.monotonic() + max(LEASE_SECONDS, EXECUTION_SECONDS) + 1
    if story.other.process is None:
        await story.other.start(surroundings(story))
    else:
        story.other.thaw()
    await until(lambda: time.monotonic() > over, "lease and claims are over")
    # Else the late gate could end a task of which its client never heard, whose repeated call would be a new one.
    await until(lambda: all(agent.records.all() for agent in story.agents), "every agent has its task")
    story.gate.thaw()


async def hold_still(server: Server, url: str, databases: Databases) -> None:
    """Freeze a process at a moment at which it keeps nobody from writing."""
    while True:
        server.thaw()
        await pause()
        server.freeze()
        if not databases.in_transaction(url):
            return


async def lose_database(gate: Server, url: str, databases: Databases) -> None:
    """Let a frozen gate go on without its database, and give that back after a while."""
    over = time.monotonic() + AWAY_SECONDS
    with ExitStack() as away:
        if not url.startswith("sqlite"):
            away.enter_context(databases.cut(url))
            gate.thaw()
        elif databases.in_transaction(url):  # its own, and it ends that when it goes on
            gate.thaw()
            away.enter_context(locked(url))
        else:
            away.enter_context(locked(url))
            gate.thaw()
        await until(lambda: time.monotonic() > over, "the database has been away for a while")


async def says_it_too(story: Story, gate: Server) -> None:
    """Every gate that lives tells the same end of every task."""
    for agent in story.agents:
        for record in agent.records.all():
            async with agent.connected(gate) as (client, extension):
                seen = await extension.get(client.session, record.task_id)
            assert (seen.status, record.status) == ("completed", "completed"), f"{gate.name} says {seen.status}"


async def end_of(story: Story) -> Disposition:
    """How the call of this agent ends, whichever gate it asks."""
    found = disposition(await story.ask())
    assert found is not None
    return found

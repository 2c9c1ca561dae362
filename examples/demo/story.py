"""What every story shares: starting the servers, following one call to its end, and saying when a story went wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import httpx2
from mcp import types

from examples.demo.agent import Agent
from examples.demo.console import Narrator
from examples.demo.decisions import Decider, Wish
from examples.demo.supervisor import Supervisor
from examples.demo.world import World, command, prepare_service
from mcp_gate.client import CreatedTask, TaskState, disposition

PROBE_SECONDS: Final = 1.0


class StoryFailed(AssertionError):
    """The story did not go as it must."""


def require(held: bool, text: str) -> None:  # noqa: FBT001 - reads like an assertion
    """End the story with `text` unless `held`.

    Raises:
        StoryFailed: It does not hold.
    """
    if not held:
        raise StoryFailed(text)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a story needs to be told."""

    world: World
    narrator: Narrator
    supervisor: Supervisor
    decider: Decider
    seen: "States"

    def start_service(self) -> None:
        """Prepare and start the approval service."""
        self.narrator.step("preparing the approval service: database, reviewer account")
        prepare_service(self.world)
        self.narrator.step("starting the approval service")
        serve = [command("arap"), "serve", "--config", str(self.world.path("service.yaml")), "--die-with-stdin"]
        self.supervisor.start("service", serve, ready=answers(f"{self.world.identifier}/readyz"))
        self.narrator.done(f"the approval service is up at {self.world.identifier}")


@dataclass(slots=True)
class States:
    """Tells each change of a task's state once."""

    narrator: Narrator
    _last: dict[str, str] = field(default_factory=dict)

    def hear(self, state: TaskState | CreatedTask) -> None:
        """A state of a task, as the agent sees it."""
        if self._last.get(state.task_id) != state.status:
            self._last[state.task_id] = state.status
            self.narrator.step(f"tasks/get → {state.status}: {state.status_message or ''}")


def answers(url: str) -> Callable[[], bool]:
    """Whether an HTTP GET of `url` is answered with 200."""

    def probe() -> bool:
        try:
            return httpx2.get(url, timeout=PROBE_SECONDS, trust_env=False).status_code == 200
        except httpx2.HTTPError:
            return False

    return probe


def text_of(result: types.CallToolResult) -> str:
    """The text that the model reads."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def expect_result(answer: object) -> str:
    """The text of a plain tool result.

    Raises:
        StoryFailed: It became a task instead.
    """
    if not isinstance(answer, types.CallToolResult):
        raise StoryFailed("a plain result was expected, and the call became a task")
    return text_of(answer)


def is_error(answer: object) -> bool:
    """Whether a plain tool result reports an error."""
    return isinstance(answer, types.CallToolResult) and bool(answer.is_error)


async def follow(
    stage: Stage, agent: Agent, tool: str, arguments: dict[str, object], *, wish: Wish
) -> types.CallToolResult:
    """Make a call that needs approval, have it decided, and return what became of it.

    Raises:
        StoryFailed: The call did not become a task.
    """
    created = await agent.call(tool, arguments)
    require(isinstance(created, CreatedTask), f"{tool} should have become a task")
    assert isinstance(created, CreatedTask)  # noqa: S101 - for the type checker; the line above decides
    stage.narrator.done(f"{tool} did not run; the agent got a task at once: {created.task_id}")
    record = agent.records.find(created.task_id)
    require(record is not None, "the task id should be on disk")
    stage.narrator.step(
        f"its id is on disk in {shown(stage.world.path('tasks'))}, so a restart of the agent loses nothing"
    )
    async with anyio.create_task_group() as group:
        group.start_soon(stage.decider.decide, wish)
        result = await agent.wait(created.task_id)
        group.cancel_scope.cancel()
    stage.narrator.done(f"the task has ended: {disposition(result)}")
    return result


def shown(path: Path) -> str:
    """A path as it is best typed: relative to where the user is, when that is above it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)

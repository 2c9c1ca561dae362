"""`python -m examples.demo`: tell a story with real servers on this machine, and leave nothing running.

Status 0 when the story went as it must, 1 when it did not, 2 when it could not begin, 130 after Ctrl-C.
"""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Final

import anyio
from rich.console import Console

from arap_service.directory import DirectoryInvalid
from arap_service.store.database import StoreUnavailable
from examples.demo import git_story, treasury_story
from examples.demo.console import Narrator
from examples.demo.decisions import Automated, NothingToDecide, Person
from examples.demo.story import Stage, States, StoryFailed
from examples.demo.supervisor import StartFailed, Supervisor, end_with_parent
from examples.demo.world import AlreadyRunning, Cast, World, held

ROOT: Final = Path(__file__).parent.parent.parent
OK, FAILED, NOT_BEGUN, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True, slots=True)
class Story:
    """A story that can be told."""

    cast: Cast
    set_up: Callable[[Stage], None]
    tell: Callable[[Stage], Awaitable[None]]
    title: str


STORIES: Final[Mapping[str, Story]] = {
    "git": Story(git_story.CAST, git_story.set_up, git_story.tell, "An agent wants to commit"),
    "treasury": Story(
        treasury_story.CAST, treasury_story.set_up, treasury_story.tell, "An agent wants to transfer $50,000"
    ),
}


def main() -> int:
    """Parse the command line and tell the story."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--auto", action="store_true", help="let the automated resolver decide (make demo AUTO=1)")
    parser.add_argument("--story", choices=sorted(STORIES), default="git", help="which story (make demo STORY=…)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo", help="where the story's files are made")
    parser.add_argument("--end-with-parent", action="store_true", help="end when the process that started this ends")
    options = parser.parse_args()
    narrator = Narrator(Console(), now=lambda: datetime.now().astimezone())
    signal.signal(signal.SIGTERM, _interrupt)
    if options.end_with_parent:
        end_with_parent(os.getppid(), end=lambda: os.kill(os.getpid(), signal.SIGTERM))
    folder = options.folder.resolve() / options.story
    try:
        with held(folder):
            return _tell(STORIES[options.story], folder, narrator, auto=options.auto)
    except AlreadyRunning as error:
        narrator.failed(str(error))
        return NOT_BEGUN
    except KeyboardInterrupt:
        narrator.step("interrupted; nothing is left running")
        return INTERRUPTED


def _tell(story: Story, folder: Path, narrator: Narrator, *, auto: bool) -> int:
    world = World.invent(folder, story.cast)
    decider = (Automated if auto else Person)(world, narrator)
    with Supervisor(world.path("logs")) as supervisor, narrator.chapter(story.title):
        narrator.step(f"everything of this run is in {folder}")
        stage = Stage(world, narrator, supervisor, decider, States(narrator))
        try:
            # Outside the event loop, so that Ctrl-C ends it at once.
            with narrator.chapter("Setting the stage"):
                story.set_up(stage)
            anyio.run(_told, story, stage)
        except (StartFailed, StoreUnavailable, DirectoryInvalid) as error:
            narrator.failed(str(error))
            return NOT_BEGUN
        except (StoryFailed, NothingToDecide) as error:
            narrator.failed(f"{str(error).removesuffix('.')}. The servers' logs are in {world.path('logs')}")
            return FAILED
    narrator.done("the story is over; nothing is left running")
    return OK


async def _told(story: Story, stage: Stage) -> None:
    """Tell it, and unpack what task groups wrap around the one thing that went wrong."""
    try:
        await story.tell(stage)
    except BaseExceptionGroup as group:
        known = group.subgroup(
            (StoryFailed, NothingToDecide, StartFailed, StoreUnavailable, DirectoryInvalid, subprocess.SubprocessError)
        )
        if known is None:
            raise
        raise _first(known) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

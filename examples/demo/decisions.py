"""Who decides in the story: a person at the desk, or the automated resolver over REST.

The resolver uses the published client library and nothing else; a person is told where to go and what to look for.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import anyio

from arap_service.client import AsyncResolver
from examples.demo.console import Narrator
from examples.demo.world import RESOLVER, World

REMIND_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.2
LOOK_LIMIT: Final = 30.0


class NothingToDecide(RuntimeError):
    """The request did not reach the resolver's queue."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the story wants decided: what the resolver does, and what the person is told."""

    decision: Literal["approve", "deny"]
    reason: str | None
    look_at: str


class Decider(Protocol):
    """Brings a decision about."""

    async def decide(self, wish: Wish) -> None:
        """See to it that the one open request is decided as wished; is cancelled once it is."""


class Person:
    """Somebody at the desk: told once, reminded while the story waits."""

    def __init__(self, world: World, narrator: Narrator) -> None:
        self._world = world
        self._narrator = narrator

    async def decide(self, wish: Wish) -> None:
        """Say where to go, and remind until somebody has gone there."""
        do = "approve it" if wish.decision == "approve" else f"deny it with a reason, such as “{wish.reason}”"
        self._narrator.box(
            "Your turn",
            [
                f"Open      {self._world.desk}",
                f"Log in    {self._world.cast.reviewer}",
                f"Password  {self._world.password}",
                "",
                f"Look at   {wish.look_at}",
                f"Then      {do}.",
                "",
                "The story goes on by itself. Ctrl-C ends it and leaves nothing running.",
            ],
        )
        while True:
            await anyio.sleep(REMIND_SECONDS)
            self._narrator.step(f"still waiting for a decision at {self._world.desk} (Ctrl-C ends the demonstration)")


class Automated:
    """The automated resolver: reads its queue and decides over REST."""

    def __init__(self, world: World, narrator: Narrator) -> None:
        self._world = world
        self._narrator = narrator

    async def decide(self, wish: Wish) -> None:
        """Find the open request, say what it reads there, and decide."""
        async with AsyncResolver(self._world.identifier, auth=self._world.credentials(RESOLVER)) as resolver:
            request = await self._open_request(resolver)
            self._narrator.step(f"the automated resolver reads: {request['effect']}")
            await resolver.decide(request["id"], wish.decision, version=request["version"], reason=wish.reason)
        verb = "approved" if wish.decision == "approve" else f"denied it: {wish.reason}"
        self._narrator.done(f"the automated resolver {verb}")

    async def _open_request(self, resolver: AsyncResolver) -> dict[str, Any]:
        with anyio.move_on_after(LOOK_LIMIT):
            while True:
                async for row in resolver.queue(status="pending", mine=True):
                    return await resolver.get(row["id"])
                await anyio.sleep(LOOK_SECONDS)
        raise NothingToDecide("no request reached the automated resolver's queue")

"""Reads what waits for this resolver, scores it, and approves, denies or leaves it to a human with a remark.

It decides through the published client alone, as the identity that the rules name. Whom it may decide for is judged by
the service. What it has looked at it remembers only while it runs; a second look would come to the same.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from arap_service.client import AsyncResolver, Conflict
from examples.risk_engine.scoring import Score, score


class Engine:
    """One risk engine; `known` are the payees that were paid before."""

    def __init__(self, resolver: AsyncResolver, *, known: Collection[str], clock: Callable[[], datetime]) -> None:
        self._resolver = resolver
        self._known = set(known)
        self._clock = clock
        self._left: set[str] = set()

    async def run(self) -> None:
        """Decide until cancelled."""
        mark: str | None = None
        while True:
            answer = await self._resolver.wait(mark)
            mark = answer["after"]
            await self.round()

    async def round(self) -> list[tuple[str, Score]]:
        """Look at everything that waits and was not left to a human; what was looked at, with its score."""
        rows = [row["id"] async for row in self._resolver.queue(mine=True)]
        return [(request_id, await self._look(request_id)) for request_id in rows if request_id not in self._left]

    async def _look(self, request_id: str) -> Score:
        request = await self._resolver.get(request_id)
        amount, payee = _transfer(request)
        found = score(amount, payee, known=self._known, at=self._clock())
        if found.verdict == "human":
            self._left.add(request_id)
            await self._resolver.comment(request_id, f"{found.sentence} A human being should look at it.")
            return found
        try:
            version = request["version"]
            # What was scored is this one transfer, so nothing wider is approved, however wide the rules allow it.
            exactly = () if found.verdict == "approve" else None
            await self._resolver.decide(
                request_id, found.verdict, version=version, reason=found.sentence, may_vary=exactly
            )
        except Conflict:
            return found  # somebody was faster, or it has changed: the next round sees what it is now
        if found.verdict == "approve":
            self._known.add(payee)
        return found


def _transfer(request: dict[str, Any]) -> tuple[int | None, str]:
    values = {value["pointer"]: value for value in request["arguments"] if not value["masked"]}
    amount = values.get("/amount", {}).get("text", "")
    payee = values.get("/to", {})
    if not request["complete"]:
        amount = ""  # these are not proven to be the arguments that would be approved
    # What looks like something else than it is counts as a payee that nobody knows.
    name = "" if payee.get("suspicious", True) else str(payee["text"])
    return (int(amount) if amount.isascii() and amount.isdigit() and len(amount) < 16 else None), name

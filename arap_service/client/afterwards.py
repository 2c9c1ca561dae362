"""What a client does after decisions: standing rules and the reviews of emergencies, for both kinds of client.

The calls and their documents are those of the API; nothing is decided here. See design.md sections 4 and 6.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Literal

from arap_service.client import calls
from arap_service.client.calls import Call, Document

RuleStatus = Literal["proposed", "active", "expired", "ended"]
ReviewState = Literal["open", "overdue", "closed"]
Outcome = Literal["justified", "unjustified"]


class Afterwards(ABC):
    """The part of a synchronous client; each call raises as every other does."""

    @abstractmethod
    def _answer(self, call: Call) -> Document:
        """What the service answers."""

    def standing_rules(self, *, status: RuleStatus | None = None) -> Iterator[Document]:
        """Standing rules and proposals, the newest first, over all pages."""
        yield from self._pages("standing-rules", {"status": status})

    def propose_rule(
        self, request_id: str, *, item: int | None = None, may_vary: Sequence[str] = (), days: int | None = None
    ) -> Document:
        """Propose to approve the like of an approved request at once; nothing is in force by that."""
        return self._answer(calls.propose(request_id, item, may_vary, days))

    def confirm_rule(self, rule_id: str) -> Document:
        """Put a proposal into force, as an administrator who neither made it nor is served by it."""
        return self._answer(calls.change("standing-rules", rule_id, "confirm"))

    def end_rule(self, rule_id: str) -> Document:
        """End a rule or a proposal at once."""
        return self._answer(calls.change("standing-rules", rule_id, "end"))

    def emergency_reviews(self, *, state: ReviewState | None = None) -> Iterator[Document]:
        """Emergencies that were used, the one whose review is due first before the others, over all pages."""
        yield from self._pages("emergency-reviews", {"state": state})

    def close_review(self, approval_id: str, outcome: Outcome, *, note: str) -> Document:
        """Close a review with what was found."""
        return self._answer(calls.change("emergency-reviews", approval_id, "close", {"outcome": outcome, "note": note}))

    def _pages(self, what: str, filters: dict[str, str | None]) -> Iterator[Document]:
        cursor: str | None = None
        while True:
            page = self._answer(calls.listing(what, cursor, filters))
            yield from page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return


class AsyncAfterwards(ABC):
    """The same of an asynchronous client."""

    @abstractmethod
    async def _answer(self, call: Call) -> Document:
        """What the service answers."""

    async def standing_rules(self, *, status: RuleStatus | None = None) -> AsyncIterator[Document]:
        """See `Afterwards.standing_rules`."""
        async for each in self._pages("standing-rules", {"status": status}):
            yield each

    async def propose_rule(
        self, request_id: str, *, item: int | None = None, may_vary: Sequence[str] = (), days: int | None = None
    ) -> Document:
        """See `Afterwards.propose_rule`."""
        return await self._answer(calls.propose(request_id, item, may_vary, days))

    async def confirm_rule(self, rule_id: str) -> Document:
        """See `Afterwards.confirm_rule`."""
        return await self._answer(calls.change("standing-rules", rule_id, "confirm"))

    async def end_rule(self, rule_id: str) -> Document:
        """See `Afterwards.end_rule`."""
        return await self._answer(calls.change("standing-rules", rule_id, "end"))

    async def emergency_reviews(self, *, state: ReviewState | None = None) -> AsyncIterator[Document]:
        """See `Afterwards.emergency_reviews`."""
        async for each in self._pages("emergency-reviews", {"state": state}):
            yield each

    async def close_review(self, approval_id: str, outcome: Outcome, *, note: str) -> Document:
        """See `Afterwards.close_review`."""
        return await self._answer(
            calls.change("emergency-reviews", approval_id, "close", {"outcome": outcome, "note": note})
        )

    async def _pages(self, what: str, filters: dict[str, str | None]) -> AsyncIterator[Document]:
        cursor: str | None = None
        while True:
            page = await self._answer(calls.listing(what, cursor, filters))
            for each in page["items"]:
                yield each
            cursor = page.get("next_cursor")
            if cursor is None:
                return

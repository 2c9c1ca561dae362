"""Opens a ticket for each request that waits for this resolver, and decides as the ticket is resolved.

The reference of a ticket is the id of its request, so the adapter keeps nothing of its own: killed and started again it
finds its tickets. What a ticket says is decided as the adapter's identity, which the rules name; whether it counts is
judged by the service. A request that ends elsewhere has its ticket closed.
"""

from typing import Any, Final

import httpx2

from arap_service.client import AsyncResolver, Conflict

DECISIONS: Final = {"approved": "approve", "rejected": "deny"}


class Adapter:
    """One adapter between a service and a ticket server."""

    def __init__(self, resolver: AsyncResolver, tickets: httpx2.AsyncClient) -> None:
        self._resolver = resolver
        self._tickets = tickets
        self._followed: set[str] = set()

    async def round(self) -> None:
        """Open what is missing, decide what is resolved, and close what has ended elsewhere."""
        waiting = {row["id"] async for row in self._resolver.queue(mine=True)}
        for request_id in sorted(waiting):
            await self._follow(request_id)
        for request_id in sorted(self._followed - waiting):
            await self._close(request_id)
        self._followed = waiting

    async def _follow(self, request_id: str) -> None:
        request = await self._resolver.get(request_id)
        ticket = await self._called("PUT", request_id, {"title": request["effect"]})
        if ticket["state"] == "closed":
            await self._resolver.comment(request_id, f"Ticket {ticket['number']} was closed without a decision.")
        decision = DECISIONS.get(ticket["state"])
        if decision is None:
            return
        reason = f"Ticket {ticket['number']}: {ticket['note'] or 'no note'}"
        try:
            if decision == "approve":
                # The ticket tells of this one thing, so nothing wider is approved.
                await self._resolver.decide(
                    request_id, "approve", version=request["version"], reason=reason, may_vary=()
                )
            else:
                await self._resolver.decide(request_id, "deny", version=request["version"], reason=reason)
        except Conflict:
            return  # it has changed since it was read: the next round reads it again

    async def _close(self, request_id: str) -> None:
        request = await self._resolver.get(request_id)
        note = f"The request was {request['status']}."
        await self._called("PATCH", request_id, {"state": "closed", "note": note})

    async def _called(self, method: str, request_id: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._tickets.request(method, f"/tickets/{request_id}", json=body)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

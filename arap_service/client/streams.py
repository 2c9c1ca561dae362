"""Reads a stream of server-sent events for the resolver's client: what an event is, and where to go on from.

Opening, authenticating and coming back are the client's own matter.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

import httpx2

Document = dict[str, Any]
READ_SECONDS: Final = 35.0
"""The service says something every ten seconds; whoever hears nothing for so long is not connected."""


@dataclass(slots=True)
class Place:
    """How far a stream was read; `id` goes into Last-Event-ID."""

    id: str | None

    def request(self, client: httpx2.Client | httpx2.AsyncClient) -> httpx2.Request:
        """The request that goes on from here."""
        headers = {"Accept": "text/event-stream"} | ({} if self.id is None else {"Last-Event-ID": self.id})
        return client.build_request("GET", "/events", headers=headers, timeout=httpx2.Timeout(10.0, read=READ_SECONDS))

    def read(self, sent: httpx2.ServerSentEvent) -> Document | None:
        """The event with its `id`, None for a mere sign of life; remembers how far it is."""
        self.id = sent.id or self.id
        if not sent.data:
            return None
        try:
            told = json.loads(sent.data)
        except ValueError:
            return None
        return {**told, "id": self.id} if isinstance(told, dict) else None

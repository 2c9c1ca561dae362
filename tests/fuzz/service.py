"""A service to call at random: it listens on loopback in a thread of its own, and limits no rate."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.clock import FakeClock
from tests.fuzz.machine import Callers, Explorer, Found, Headers
from tests.live import serving
from tests.peers import POLICY, question
from tests.service import GATE_SCOPES, RESOLVER_SCOPES, bearer, client

CLIENTS: Final = (
    client("gate", *GATE_SCOPES, "authzen:search", "arap:catalog"),
    client("resolver", *RESOLVER_SCOPES, "admin", "audit:read"),
    client("status-only", "arap:status"),
)
QUESTIONS: Final = (question(), question(60, tool="small_transfer"), question(77))
_OFTEN: Final = 10**6
_RATES: Final = {
    "submissions_per_minute": _OFTEN,
    "polls_per_minute": _OFTEN,
    "requestable_denials_per_minute": _OFTEN,
    "open_requests_per_client": _OFTEN,
    "catalog_calls_per_minute": _OFTEN,
}
_START_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Target:
    """A running service: where it listens, how it describes itself, and the headers of its clients."""

    url: str
    document: dict[str, Any]
    headers: Mapping[str, Headers]

    def explore(self, *, calls: int, seed: int, document: dict[str, Any] | None = None) -> Found:
        """Call it; by another `document` than its own, what it does is compared with that."""
        callers = Callers(self._proper, ({}, {"Authorization": "Bearer x"}, self.headers["status-only"]))
        explorer = Explorer(self.url, callers, QUESTIONS)
        return explorer.explore(document or self.document, calls=calls, seed=seed)

    def _proper(self, path: str) -> Headers:
        return self.headers["resolver" if path.startswith(("/resolver", "/metrics")) else "gate"]


@contextmanager
def target(folder: Path, *, database: str) -> Iterator[Target]:
    """Serve on `database`, whose tables exist already, as long as the context lasts."""
    runs = _Runs(folder, database)
    thread = threading.Thread(target=runs.run, daemon=True)
    thread.start()
    if not runs.ready.wait(_START_SECONDS):
        raise RuntimeError("the service did not start")
    try:
        document = httpx2.get(f"{runs.url}/openapi.json").json()
        yield Target(runs.url, document, runs.headers)
    finally:
        runs.loop.call_soon_threadsafe(runs.ended.set)
        thread.join(_START_SECONDS)


class _Runs:
    """The thread of the service, and what others need to know of it."""

    def __init__(self, folder: Path, database: str) -> None:
        self._folder = folder
        self._database = database
        self.ready = threading.Event()
        self.url = ""
        self.headers: dict[str, Headers] = {}
        self.loop: asyncio.AbstractEventLoop
        self.ended: asyncio.Event

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self.loop, self.ended = asyncio.get_running_loop(), asyncio.Event()
        issuer = {"enabled": True, "clients": CLIENTS}
        async with serving(
            self._folder,
            database=self._database,
            policy=POLICY,
            clock=FakeClock(),
            background=False,
            builtin_issuer=issuer,
            limits=_RATES,
        ) as live:
            live.streams.is_closing = True  # a stream says where it stands and ends, so that a call of it ends too
            self.url = live.url
            self.headers = {known["client_id"]: bearer(live.context, known["client_id"]) for known in CLIENTS}
            self.ready.set()
            await self.ended.wait()

"""A service to call at random: it listens on loopback in a thread of its own, and limits no rate."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2

from arap_service.auditing.checkpoints import notary_of
from arap_service.context import Context
from arap_service.store import deliveries
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Identity, Membership, Person
from tests.clock import FakeClock
from tests.fuzz.machine import Callers, Explorer, Found, Headers
from tests.fuzz.rules import POLICY
from tests.live import Live, serving
from tests.service import CALLBACK_KEY, GATE_SCOPES, RESOLVER_SCOPES, bearer, client

CLIENTS: Final = (
    client("gate", *GATE_SCOPES, "authzen:search", "arap:catalog"),
    client("resolver", *RESOLVER_SCOPES, "admin", "audit:read"),
    client("on-call", *RESOLVER_SCOPES),
    client("operator", "admin"),
    client("status-only", "arap:status"),
)
CALLBACK: Final = "http://127.0.0.1:9/callbacks/arap"
_OFTEN: Final = 10**6
_RATES: Final = {
    "submissions_per_minute": _OFTEN,
    "polls_per_minute": _OFTEN,
    "requestable_denials_per_minute": _OFTEN,
    "open_requests_per_client": _OFTEN,
    "catalog_calls_per_minute": _OFTEN,
}
_START_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Target:
    """A running service: where it listens, how it describes itself, and the headers of its clients."""

    url: str
    document: dict[str, Any]
    headers: Mapping[str, Headers]
    meanwhile: Callable[[], None]

    def explore(
        self,
        *,
        calls: int,
        seed: int,
        may_go_on: Callable[[], bool] = lambda: True,
        document: dict[str, Any] | None = None,
    ) -> Found:
        """Call it; by another `document` than its own, what it does is compared with that."""
        callers = Callers(self._proper, self.headers, ({}, {"Authorization": "Bearer x"}, self.headers["status-only"]))
        explorer = Explorer(self.url, callers, CALLBACK, self.meanwhile)
        is_own = document is None
        return explorer.explore(document or self.document, calls=calls, seed=seed, may_go_on=may_go_on, story=is_own)

    def _proper(self, path: str) -> Headers:
        if path.startswith("/issuer"):
            return {}  # its clients say there who they are
        is_reviewers = path.startswith(("/resolver", "/metrics")) and not path.endswith("/executions")
        return self.headers["resolver" if is_reviewers else "gate"]


@contextmanager
def target(folder: Path, *, database: str) -> Iterator[Target]:
    """Serve on `database`, whose tables exist already, as long as the context lasts."""
    runs = _Runs(folder, database)
    thread = threading.Thread(target=runs.run, daemon=True)
    thread.start()
    if not runs.ready.wait(_START_SECONDS):
        raise RuntimeError("the service did not start")
    try:
        document = httpx2.get(f"{runs.url}/openapi.json", timeout=_START_SECONDS).json()
        yield Target(runs.url, document, runs.headers, runs.meanwhile)
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
        self._context: Context

    def meanwhile(self) -> None:
        """Sign a checkpoint, and have the receiver of the last delivery say that it is gone."""
        asyncio.run_coroutine_threadsafe(self._meanwhile(), self.loop).result(_START_SECONDS)

    async def _meanwhile(self) -> None:
        def lose(session: WriteSession) -> None:
            [latest] = deliveries.deliveries_page(session, status=None, task_id=None, after=None, limit=1)
            deliveries.silence(session, latest, now=self._context.clock())

        await notary_of(self._context).sign()
        await self._context.database.write(lose)

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
            callbacks={
                "gate": {"endpoints": [CALLBACK], "keys": [CALLBACK_KEY], "allow_destinations": ["127.0.0.1:9"]}
            },
            limits=_RATES,
        ) as live:
            live.streams.is_closing = True  # a stream says where it stands and ends, so that a call of it ends too
            self.url, self._context = live.url, live.context
            self.headers = {known["client_id"]: bearer(live.context, known["client_id"]) for known in CLIENTS}
            await live.context.database.write(partial(_appoint, live))
            self.ready.set()
            await self.ended.wait()


def _appoint(live: Live, session: WriteSession) -> None:
    """Have a client be a person who is on call, since only people decide in an emergency."""
    session.add(Person(id="on-call", name="Olga On Call", created_at=live.context.clock()))
    session.flush()
    session.add(Identity(iss=f"{live.url}/issuer", sub="on-call", person_id="on-call"))
    session.add(Membership(person_id="on-call", group_name="on-call"))

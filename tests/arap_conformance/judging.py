"""What the suite says of a service in this process, its deployment's hands in memory and its callbacks over HTTP."""

import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from http.client import HTTPConnection
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2

from arap_service.conformance.catalogue import CHECKS
from arap_service.conformance.running import Run
from blackbox_kit.choosing import chosen_of
from blackbox_kit.model import Outcome, Verdict
from tests.arap_conformance.memory import MemoryClient
from tests.arap_conformance.signatures import Json
from tests.arap_conformance.subject import PlainService
from tests.arap_conformance.subjects import PlainHands, control


async def deliver(endpoint: str, headers: Json, notice: Json) -> bool:
    """Tell a callback on this machine; whether it was taken."""
    place = urlsplit(endpoint)
    if place.hostname != "127.0.0.1" or place.scheme != "http":
        return False

    def told() -> bool:
        with closing(HTTPConnection(place.hostname or "", place.port, timeout=5)) as way:
            way.request("POST", place.path, json.dumps(notice), {"Content-Type": "application/json", **headers})
            return way.getresponse().status < 300

    return await anyio.to_thread.run_sync(told)


async def judged(
    service: PlainService, *only: str, hands: type[PlainHands] = PlainHands, **changes: Any
) -> tuple[Outcome, ...]:
    """What the suite, or what is named of it, says of a service; `changes` are those of the control file."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    service.deliver = deliver
    service.callbacks.setdefault("pep", {f"http://{listen}/callbacks/plain"})

    @asynccontextmanager
    async def http() -> AsyncIterator[httpx2.AsyncClient]:
        yield cast("httpx2.AsyncClient", MemoryClient(service))

    changes = ({} if "callbacks" in service.parts else {"callbacks": None}) | changes
    run = Run(hands(service, control(service.base, listen=listen, **changes)), service.base, http=http)
    with anyio.fail_after(100):
        return await run.all(chosen_of(CHECKS, only, prefix="arap-"), lambda _: None)


def told(outcomes: Sequence[Outcome], *verdicts: Verdict) -> dict[str, str]:
    """The checks with one of these verdicts, and why."""
    return {one.check.id.removeprefix("arap-"): one.note for one in outcomes if one.verdict in verdicts}

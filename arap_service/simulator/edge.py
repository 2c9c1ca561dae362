"""The door of a simulator: marks every answer, notes what enforcement points do, and lets endpoints misbehave.

The outermost layer of the application. Answers of the protocol's endpoints are held until they are complete, so that
one can be thrown away after everything was committed. See docs/simulator.md.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arap_service.domain.behaviours import Act, Endpoint
from arap_service.simulator.calling_back import DECOY_PATH
from arap_service.simulator.core import Simulator
from arap_service.simulator.observing import facts_of, place

HEADER: Final = (b"x-arap-simulator", b"on")
ABORT: Final = "arap.abort"
"""The ASGI extension whose member `cut` is a function that cuts the connection of a request."""
CLIENT: Final = "arap.client_id"
"""Where authentication leaves the client's id in the scope."""
INSTEAD: Final = frozenset({"rate-limited", "server-error", "cut"})
"""The behaviours that keep a request from the application."""
_MOST_BYTES: Final = 4_194_304
_JSON: Final = (b"content-type", b"application/json")


@dataclass(slots=True)
class _Answer:
    """An answer that has not been sent yet."""

    status: int
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: bytes) -> str | None:
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == name), None)

    def with_body(self, body: bytes) -> "_Answer":
        kept = [(name, value) for name, value in self.headers if name.lower() != b"content-length"]
        return _Answer(self.status, [*kept, (b"content-length", str(len(body)).encode())], body)

    async def send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


@dataclass(slots=True)
class _Sent:
    """A copy of what the application read of a request's body, up to a bound."""

    receive: Receive
    body: bytes = b""

    async def __call__(self) -> Message:
        message = await self.receive()
        if message["type"] == "http.request" and len(self.body) < _MOST_BYTES:
            self.body += message.get("body", b"")
        return message

    async def drain(self) -> None:
        """Read the body although nobody wants it, so that it can be compared with another."""
        while len(self.body) < _MOST_BYTES and (await self()).get("more_body"):
            pass


class SimulatorEdge:
    """An ASGI application around another; `base_path` is what all our paths stand under."""

    def __init__(self, app: ASGIApp, simulator: Simulator, *, base_path: str = "") -> None:
        self._app = app
        self._simulator = simulator
        self._base = base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or misbehave."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if not path.startswith("/.well-known/"):
            path = path.removeprefix(self._base)
        elif path.endswith(self._base):
            path = path.removesuffix(self._base)
        found = place(scope["method"], path)
        marked = _marking(send)
        if found is not None:
            await self._exchange(scope, receive, marked, *found)
        elif path.startswith(DECOY_PATH):
            await self._decoy(path.removeprefix(DECOY_PATH), marked)
        else:
            await self._app(scope, receive, marked)

    async def _exchange(self, scope: Scope, receive: Receive, send: Send, endpoint: Endpoint, task: str | None) -> None:
        simulator, started = self._simulator, self._simulator.clock.real()
        act, sent = simulator.program.fault_of(endpoint), _Sent(receive)
        # Counted from here, so that a delay does not grow with the time that the answer takes by itself.
        due = simulator.clock() + timedelta(seconds=0 if act is None else act.after)
        answer = _instead(act)
        if act is not None and act.name in INSTEAD:
            await sent.drain()
        else:
            answer = await _collected(self._app, scope, sent)
            answer = await self._spoilt(answer, act, endpoint, due=due)
        is_cut = answer is None or (act is not None and act.name == "lost-answer")
        self._note(scope, sent.body, answer, endpoint, task, act=act, started=started, is_cut=is_cut)
        if answer is None or is_cut:
            await _cut(scope, receive, send)
        else:
            await answer.send(send)

    async def _spoilt(self, answer: _Answer, act: Act | None, endpoint: Endpoint, *, due: datetime) -> _Answer:
        match None if act is None else act.name:
            case "slow":
                await self._simulator.until(due)
            case "garbage":
                garbled = answer.with_body(b'{"task": {"id": "task_')
                garbled.status = 200
                return garbled
            case "wrong-type":
                return answer.with_body(_mistyped(answer.body, endpoint))
        return answer

    def _note(
        self,
        scope: Scope,
        sent: bytes,
        answer: _Answer | None,
        endpoint: Endpoint,
        task: str | None,
        *,
        act: Act | None,
        started: datetime,
        is_cut: bool,
    ) -> None:
        headers = {} if answer is None else {"retry-after": answer.header(b"retry-after") or ""}
        key = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"idempotency-key"), None)
        body = b"" if answer is None else answer.body
        facts = facts_of(endpoint, sent=sent, answered=body, headers=headers, key=key)
        self._simulator.notebook.note(
            what=endpoint.value,
            at=started,
            answered_at=self._simulator.clock.real(),
            status=None if answer is None or is_cut else answer.status,
            client=scope.get(CLIENT),
            task=facts.pop("task", None) or task,
            fault=None if act is None else act.name,
            facts=facts,
        )

    async def _decoy(self, task: str, send: Send) -> None:
        now = self._simulator.clock.real()
        self._simulator.notebook.note(what="decoy", at=now, answered_at=now, status=404, task=task[:64])
        await _Answer(404, [_JSON, (b"content-length", b"2")], b"{}").send(send)


def _marking(send: Send) -> Send:
    async def marked(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), HEADER]}
        await send(message)

    return marked


async def _collected(app: Callable[..., Awaitable[None]], scope: Scope, receive: Receive) -> _Answer:
    answer, pieces = _Answer(500), []

    async def collect(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], list(message.get("headers", ()))
        else:
            pieces.append(message.get("body", b""))

    await app(scope, receive, collect)
    answer.body = b"".join(pieces)
    return answer


def _instead(act: Act | None) -> _Answer | None:
    """The answer that is given without asking the application, if it is one of those."""
    match None if act is None else act.name:
        case "rate-limited" if act is not None:
            return _Answer(429, [(b"retry-after", str(act.retry_after).encode()), (b"content-length", b"0")])
        case "server-error" if act is not None:
            return _Answer(act.status, [(b"content-length", b"0")])
        case _:
            return None


def _mistyped(body: bytes, endpoint: Endpoint) -> bytes:
    try:
        value = json.loads(body)
    except ValueError:
        return body
    if endpoint is Endpoint.EVALUATION:
        value = {**value, "decision": "true"}
    elif isinstance(value.get("task"), dict):
        value = {**value, "task": {**value["task"], "status": "granted"}}
    return json.dumps(value).encode()


async def _cut(scope: Scope, receive: Receive, send: Send) -> None:
    extension = (scope.get("extensions") or {}).get(ABORT)
    if extension is None:  # another server than ours: an answer that ends in the middle is the nearest thing
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1024")]})
        return
    extension["cut"]()
    with anyio.move_on_after(5):
        while (await receive())["type"] != "http.disconnect":
            pass

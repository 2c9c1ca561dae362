"""Carries one JSON-RPC message to a server and everything that comes back: Streamable HTTP and stdio, raw dicts only.

Nothing is validated here, and nothing raises but `NoAnswer`: what a broken server does is for the checks to judge.
"""

import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import anyio
import anyio.abc
import httpx2

from blackbox_kit.causes import cause_of
from blackbox_kit.processes import killed
from blackbox_kit.reading import json_of
from mcp_gate.conformance.model import Json

LONGEST_ANSWER: Final = 16_000_000
CUT_SECONDS: Final = 1.0
GONE: Final = "the server's process has ended"


class NoAnswer(Exception):
    """No JSON-RPC answer came; the text says what did, `status` the HTTP status, if there was one."""

    def __init__(self, text: str, *, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


FAILURES: Final = (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, OverflowError, ExceptionGroup)
Restarter = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Reply:
    """Everything that came back for one message: the answer, and what the server sent before it."""

    answer: Json
    before: tuple[Json, ...] = ()
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """One way to a server."""

    async def ask(self, message: Json, *, headers: Mapping[str, str], seconds: float) -> Reply:
        """Send a request and wait for its answer.

        Raises:
            NoAnswer: Within `seconds` there was none.
        """

    async def tell(self, message: Json, *, headers: Mapping[str, str], seconds: float) -> None:
        """Send a notification.

        Raises:
            NoAnswer: It could not be sent.
        """

    async def restart(self, by: Restarter | None) -> bool | None:
        """Have the server killed and started again; None where nothing can, False where it was not seen to be killed.

        Raises:
            NoAnswer: There was no connection to see it by.
        """


class HttpTransport:
    """Streamable HTTP: every message is a POST, answered by JSON or by a stream of events."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url

    async def ask(self, message: Json, *, headers: Mapping[str, str], seconds: float) -> Reply:
        """Post it, and read until its answer."""
        read: list[Json] = []
        try:
            with anyio.fail_after(seconds):
                async with self._http.stream(
                    "POST", self._url, json=message, headers={**_ACCEPT, **headers}
                ) as response:
                    async for one in _messages(response):
                        read.append(one)
                        if _is(one.get("id"), message.get("id")) and "method" not in one:
                            break
                    status, got = response.status_code, dict(response.headers)
        except TimeoutError:
            raise NoAnswer(f"nothing came within {seconds:g} s") from None
        except FAILURES as error:
            raise NoAnswer(f"the exchange with {self._url} failed: {cause_of(error)}") from None
        answer = _answer(read, message.get("id"))
        if answer is None:
            raise NoAnswer(f"HTTP {status} without a JSON-RPC answer", status=status)
        return Reply(answer, tuple(one for one in read if one is not answer), status, got)

    async def tell(self, message: Json, *, headers: Mapping[str, str], seconds: float) -> None:
        """Post it; whatever is answered."""
        try:
            with anyio.fail_after(seconds):
                await self._http.post(self._url, json=message, headers={**_ACCEPT, **headers})
        except (TimeoutError, *FAILURES) as error:
            raise NoAnswer(f"the notification could not be sent: {cause_of(error)}") from None

    async def restart(self, by: Restarter | None) -> bool | None:
        """Somebody else runs the server; a process that is killed cuts the connections that it has."""
        if by is None:
            return None
        place = urlsplit(self._url)
        port = place.port or (443 if place.scheme == "https" else 80)
        try:
            with anyio.fail_after(CUT_SECONDS * 10):
                line = await anyio.connect_tcp(place.hostname or "", port)
        except (TimeoutError, *FAILURES) as error:
            raise NoAnswer(f"no connection to {self._url} before the restart: {cause_of(error)}") from None
        try:
            await by()
            return await _is_cut(line)
        finally:
            await anyio.aclose_forcefully(line)


async def _is_cut(line: anyio.abc.SocketStream) -> bool:
    with anyio.move_on_after(CUT_SECONDS):
        try:
            while True:
                await line.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, OSError):
            return True
    return False


_ACCEPT: Final = {"accept": "application/json, text/event-stream"}


async def _messages(response: httpx2.Response) -> AsyncIterator[Json]:
    is_stream = "text/event-stream" in response.headers.get("content-type", "")
    async for raw in _events(response) if is_stream else _body(response):
        if (one := _parsed(raw)) is not None:
            yield one


async def _body(response: httpx2.Response) -> AsyncIterator[bytes]:
    raw = bytearray()
    async for piece in response.aiter_bytes():
        raw += piece
        if len(raw) > LONGEST_ANSWER:
            return
    yield bytes(raw)


async def _events(response: httpx2.Response) -> AsyncIterator[bytes]:
    data: list[str] = []
    size = 0
    async for line in response.aiter_lines():
        size += len(line)
        if size > LONGEST_ANSWER:
            return
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            yield "\n".join(data).encode()
            data = []
    if data:
        yield "\n".join(data).encode()


def _parsed(raw: bytes) -> Json | None:
    value = json_of(raw)
    return value if isinstance(value, dict) else None


def _is(id_: object, wanted: object) -> bool:
    """Whether two ids are one; 1, 1.0 and true are three."""
    return type(id_) is type(wanted) and id_ == wanted


def _answer(read: Sequence[Json], id_: object) -> Json | None:
    """The first that is the answer to this id; an error that names no id is one if it is an error of JSON-RPC."""
    for one in read:
        if "method" in one or not ("result" in one or "error" in one):
            continue
        error = one.get("error")
        if _is(one.get("id"), id_) or (one.get("id") is None and isinstance(error, dict) and "code" in error):
            return one
    return None


class StdioTransport:
    """A child process that speaks on its standard input and output; one message a line."""

    def __init__(self, command: Sequence[str], group: anyio.abc.TaskGroup) -> None:
        self._command = list(command)
        self._group = group
        self._process: anyio.abc.Process | None = None
        self._waiting: dict[Any, anyio.Event] = {}
        self._answers: dict[Any, Json] = {}
        self._unasked: list[Json] = []
        self._ended = anyio.Event()

    async def start(self) -> None:
        """Start the process.

        Raises:
            NoAnswer: It cannot be started.
        """
        try:
            self._process = await anyio.open_process(
                self._command, stderr=subprocess.DEVNULL, start_new_session=os.name == "posix"
            )
        except OSError as error:
            raise NoAnswer(f"the server cannot be started: {cause_of(error)}") from None
        self._ended = anyio.Event()
        self._group.start_soon(self._read, self._process, self._ended)

    async def stop(self) -> None:
        """Kill it and everything that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        await killed(process)
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            await self._ended.wait()
        with anyio.CancelScope(shield=True):
            await process.aclose()

    async def restart(self, by: Restarter | None) -> bool | None:
        """Kill it as a crash would, and start it again; nobody else has to, and nobody else is believed."""
        del by
        await self.stop()
        await self.start()
        return True

    async def ask(self, message: Json, *, headers: Mapping[str, str], seconds: float) -> Reply:
        """Write it, and wait for its answer."""
        del headers
        came = self._waiting[message["id"]] = anyio.Event()
        try:
            await self.tell(message, headers={}, seconds=seconds)
            with anyio.fail_after(seconds):
                await came.wait()
        except TimeoutError:
            raise NoAnswer(f"nothing came within {seconds:g} s") from None
        finally:
            del self._waiting[message["id"]]
        answer = self._answers.pop(message["id"], None)
        before, self._unasked = tuple(self._unasked), []
        if answer is None:
            raise NoAnswer(GONE)
        return Reply(answer, before)

    async def tell(self, message: Json, *, headers: Mapping[str, str], seconds: float) -> None:
        """Write it."""
        del headers
        process = self._process
        if process is None or process.stdin is None or self._ended.is_set():
            raise NoAnswer(GONE)
        try:
            with anyio.fail_after(seconds):
                await process.stdin.send(json.dumps(message).encode() + b"\n")
        except (TimeoutError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise NoAnswer(f"the message could not be written ({type(error).__name__})") from None

    async def _read(self, process: anyio.abc.Process, ended: anyio.Event) -> None:
        left = b""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            if process.stdout is not None:
                async for piece in process.stdout:
                    *lines, left = (left + piece).split(b"\n")
                    for line in lines:
                        self._take(line)
                    if len(left) > LONGEST_ANSWER:
                        break
        ended.set()
        for came in self._waiting.values():
            came.set()

    def _take(self, line: bytes) -> None:
        one = _parsed(line)
        if one is None:
            return
        asked = [id_ for id_ in self._waiting if _is(one.get("id"), id_)] if "method" not in one else []
        if not asked:
            self._unasked.append(one)
            return
        came = self._waiting[asked[0]]
        self._answers[asked[0]] = one
        came.set()


class Nowhere:
    """The transport of checks that need no server."""

    async def ask(self, message: Json, *, headers: Mapping[str, str], seconds: float) -> Reply:
        """Say that there is none."""
        del message, headers, seconds
        raise NoAnswer("no server was given")

    async def tell(self, message: Json, *, headers: Mapping[str, str], seconds: float) -> None:
        """Say that there is none."""
        del message, headers, seconds
        raise NoAnswer("no server was given")

    async def restart(self, by: Restarter | None) -> bool | None:
        """There is nothing to start."""
        del by
        return None


@asynccontextmanager
async def http_transport(url: str, *, token: str | None) -> AsyncIterator[HttpTransport]:
    """Streamable HTTP with a bearer token, if there is one; the environment's proxies are not used."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    # Every exchange has a bound of its own.
    # A connection for each request: one that a restart has cut would fail whoever takes it next.
    alone = httpx2.Limits(max_keepalive_connections=0)
    async with httpx2.AsyncClient(headers=headers, limits=alone, trust_env=False, timeout=None) as http:
        yield HttpTransport(http, url)


@asynccontextmanager
async def stdio_transport(command: Sequence[str]) -> AsyncIterator[StdioTransport]:
    """A process of its own, killed at the end."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        transport = StdioTransport(command, group)
        try:
            await transport.start()
            yield transport
        except Exception as error:  # noqa: BLE001 - raised again below, but not as one of a group
            failure = error
        finally:
            await transport.stop()
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure

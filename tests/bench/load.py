"""Load over HTTP/1.1 on connections that are kept open, and how long the answers took.

Two generators: wrk, where it is installed, repeats one request with the least disturbance of the servers on the same
machine; our own client sends different requests, and stands in for wrk where there is none. Both count only answers of
2xx and refuse a round in which anything else came back.
"""

import asyncio
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.bench.figures import Load, quantile

_SCRIPT: Final = """\
wrk.method = "POST"
wrk.body = {body}
{headers}
done = function(summary, latency, requests)
  local faults = summary.errors
  io.write(string.format("measured %d %d %f %f %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    faults.status + faults.connect + faults.read + faults.write + faults.timeout))
end
"""


class LoadFailed(Exception):
    """An answer was no success, or there was none."""


@dataclass(frozen=True, slots=True)
class Post:
    """A POST request to `url`."""

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_bytes(self) -> bytes:
        """The request as it goes over the wire."""
        parts = urlsplit(self.url)
        lines = [
            f"POST {parts.path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Content-Type: application/json",
            f"Content-Length: {len(self.body)}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return "\r\n".join((*lines, "", "")).encode("ascii") + self.body


Repeat = Callable[[Post, float], Load]


def repeater(connections: int) -> tuple[str, Repeat]:
    """The name of the best generator that is here, and what sends one request over and over for some seconds."""
    if shutil.which("wrk"):
        return "wrk", lambda post, seconds: _wrk(post, seconds, connections=connections)
    return "own client", lambda post, seconds: drive(repeat(post), connections=connections, seconds=seconds)


def _wrk(post: Post, seconds: float, *, connections: int) -> Load:
    headers = {"Content-Type": "application/json", **post.headers}
    script = _SCRIPT.format(
        body=json.dumps(post.body.decode("ascii")),  # JSON of plain text is a Lua string too
        headers="\n".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(text)}" for name, text in headers.items()),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "post.lua"
        path.write_text(script, encoding="ascii")
        command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s", str(path), post.url]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 30).stdout
    measured = next(line.split() for line in said.splitlines() if line.startswith("measured "))
    requests, microseconds, p50, p99, faults = (float(word) for word in measured[1:])
    if faults or not requests:
        raise LoadFailed(f"{faults:.0f} of {requests:.0f} answers of {post.url} were no success")
    return Load(int(requests), microseconds / 1e6, p50 / 1000, p99 / 1000)


def drive(posts: Iterable[Post], *, connections: int, seconds: float | None = None) -> Load:
    """Send the posts, all to one server, on so many connections at once, until they or the seconds are used up.

    Raises:
        LoadFailed: An answer was no success, or a connection was lost.
    """
    return asyncio.run(_drive(iter(posts), connections=connections, seconds=seconds))


async def _drive(posts: Iterator[Post], *, connections: int, seconds: float | None) -> Load:
    loop = asyncio.get_running_loop()
    first = next(posts)
    address = urlsplit(first.url)
    end = None if seconds is None else time.perf_counter() + seconds
    waiting = [first]

    def next_request() -> bytes | None:
        if end is not None and time.perf_counter() >= end:
            return None
        post = waiting.pop() if waiting else next(posts, None)
        return None if post is None else post.as_bytes()

    clients = [_Client(next_request, done=loop.create_future()) for _ in range(connections)]
    for client in clients:
        await loop.create_connection(partial(_itself, client), str(address.hostname), address.port or 80)
    began = time.perf_counter()
    for client in clients:
        client.send()
    async with asyncio.timeout((seconds or 0) + 120):
        await asyncio.gather(*(client.done for client in clients))
    took = time.perf_counter() - began
    times = [spent for client in clients for spent in client.times]
    return Load(len(times), took, quantile(times, 0.50) * 1000, quantile(times, 0.99) * 1000)


class _Client(asyncio.Protocol):
    """One connection that sends its next request when the answer to the last one is complete."""

    def __init__(self, next_request: Callable[[], bytes | None], *, done: asyncio.Future[None]) -> None:
        self.times: list[float] = []
        self.done = done
        self._next = next_request
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self) -> None:
        assert self._transport is not None
        request = self._next()
        if request is None:
            self._transport.close()
            self.done.set_result(None)
            return
        self._began = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator or len(body) < _length(bytes(head)):
            return
        self.times.append(time.perf_counter() - self._began)
        if not head.startswith(b"HTTP/1.1 2"):
            self._fail(f"the answer was {head.splitlines()[0].decode('ascii', 'replace')}")
            return
        self._received.clear()
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("the server closed the connection")

    def _fail(self, text: str) -> None:
        if not self.done.done():
            self.done.set_exception(LoadFailed(text))


def _itself(client: _Client) -> _Client:
    return client


def _length(head: bytes) -> int:
    for line in head.splitlines():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise LoadFailed("the answer does not say how long it is")

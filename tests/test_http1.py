"""The bound on request heads, and the parser's own strictness, over a real socket.

RFC 9110 section 5.4 lets a server bound the header section; RFC 9112 section 6.3 wants ambiguous lengths refused.
"""

import socket

import anyio
import pytest
import uvicorn
from anyio.abc import SocketStream
from starlette.types import Receive, Scope, Send

from arap_service.http1 import MOST_HEAD_BYTES, BoundedHttp
from arap_service.serving import Server, bound

pytestmark = pytest.mark.anyio
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


async def length_of_body(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers how many bytes it was sent."""
    del scope
    length, more = 0, True
    while more:
        message = await receive()
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    text = str(length).encode()
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


async def answer_to(*pieces: bytes) -> bytes:
    """What comes back on one connection for what is sent in pieces, up to one whole answer or the end."""
    ready = anyio.Event()
    with bound("127.0.0.1:0") as listening, anyio.fail_after(20):
        config = uvicorn.Config(length_of_body, http=BoundedHttp, log_config=None, lifespan="off")
        server = Server(config, announce=ready.set)
        async with anyio.create_task_group() as group:
            group.start_soon(server._serve, [listening])
            await ready.wait()
            async with await anyio.connect_tcp(*listening.getsockname()) as stream:
                received = await _exchange(stream, pieces)
            server.should_exit = True
    return received


async def _exchange(stream: SocketStream, pieces: tuple[bytes, ...]) -> bytes:
    received = b""
    try:
        for piece in pieces:
            await stream.send(piece)
        while not received.partition(b"\r\n\r\n")[2]:
            received += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        pass
    return received


async def test_head_without_an_end_is_refused() -> None:
    answer = await answer_to(HEAD, b"X-Long: ", *[b"a" * 16_384] * 64)
    assert answer.startswith(b"HTTP/1.1 400 ") or answer == b""  # closed with unread bytes, it may be lost on the way


async def test_many_headers_are_refused_like_one_long_one() -> None:
    answer = await answer_to(HEAD, *[b"X-Many: aaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 512] * 64)
    assert answer.startswith(b"HTTP/1.1 400 ") or answer == b""


async def test_large_body_is_no_head() -> None:
    size = 16 * MOST_HEAD_BYTES
    length = f"Content-Length: {size}\r\n\r\n".encode()
    answer = await answer_to(HEAD, length, *[b"b" * 65_536] * (size // 65_536))
    assert answer.endswith(f"\r\n\r\n{size}".encode())


async def test_head_in_pieces_is_read() -> None:
    answer = await answer_to(b"POST / HT", b"TP/1.1\r\nHo", b"st: localhost\r\nContent-Length: 2\r\n\r", b"\nok")
    assert answer.endswith(b"\r\n\r\n2")


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Content-Length: +2\r\n",
        b"X-Folded: a\r\n b\r\nContent-Length : 2\r\n",
    ],
)
async def test_ambiguous_length_is_refused(headers: bytes) -> None:
    answer = await answer_to(HEAD + headers + b"\r\nok")
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_answers_are_not_held_back_for_the_callers_kernel() -> None:
    """A head and a body in two packets cost 40 ms where Nagle's algorithm meets delayed acknowledgements."""
    with bound("127.0.0.1:0") as listening, socket.create_connection(listening.getsockname()[:2]):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0

"""An error counts as received if and only if a JSON-RPC error object arrived (design section 8: outcome-unknown)."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus
from mcp import types
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from mcp_gate.origin import NotReceived
from mcp_gate.settings_tools import Upstream as UpstreamSettings
from mcp_gate.upstream import Upstream
from tests.gate.live import serving
from tests.gate.upstream_server import add_tools

pytestmark = pytest.mark.anyio

Answer = Callable[[dict[str, Any]], Response]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Upstream]:
    upstream = Upstream(UpstreamSettings(url=url), name="gate")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            await group.start(upstream.run)
            yield upstream
            group.cancel_scope.cancel()


def calling(tool: str, **arguments: object) -> types.CallToolRequest:
    return types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(arguments)))


def json_body(message: object, *, status: int = 200) -> Response:
    return Response(json.dumps(message), status_code=status, media_type="application/json")


def scripted(answer: Answer) -> Starlette:
    """A server of the 2026 protocol in raw messages; `answer` has the last word on `tools/call`."""

    async def handle(request: Request) -> Response:
        message = await request.json()
        if message["method"] == "tools/call":
            return answer(message)
        results: dict[str, dict[str, Any]] = {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
            "tools/list": {"tools": []},
        }
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **results[message["method"]]}
        return json_body({"jsonrpc": "2.0", "id": message["id"], "result": result})

    return Starlette(routes=[Route("/mcp", handle, methods=["POST"])])


def error_of(message: dict[str, Any], *, request_id: object = ...) -> dict[str, Any]:
    shown = message["id"] if request_id is ... else request_id
    return {"jsonrpc": "2.0", "id": shown, "error": {"code": -32000, "message": "theirs", "data": {"kept": True}}}


def events(*chunks: str) -> Response:
    async def body() -> AsyncIterator[str]:
        for chunk in chunks:
            yield chunk

    return StreamingResponse(body(), media_type="text/event-stream")


async def outcome(answer: Answer) -> MCPError:
    async with serving(scripted(answer)) as base, connected(f"{base}/mcp") as upstream:
        with pytest.raises(MCPError) as caught:
            await upstream.call(calling("t"))
    return caught.value


RECEIVED: dict[str, Answer] = {
    "json": lambda message: json_body(error_of(message)),
    "json with status 400": lambda message: json_body(error_of(message), status=400),
    "event": lambda message: events(f"event: message\ndata: {json.dumps(error_of(message))}\n\n"),
    "event in pieces": lambda message: events(
        ": ping\r\n\r\nevent: message\r\nda", f"ta: {json.dumps(error_of(message))}", "\r\n\r\n"
    ),
}


@pytest.mark.parametrize("name", RECEIVED)
async def test_an_error_object_from_the_upstream_was_received(name: str) -> None:
    error = await outcome(RECEIVED[name])
    assert not isinstance(error, NotReceived)
    assert (error.code, error.message, error.data) == (-32000, "theirs", {"kept": True})


NOT_RECEIVED: dict[str, Answer] = {
    "a proxy's error page": lambda _: Response("<h1>Bad gateway</h1>", status_code=502, media_type="text/html"),
    "an error without a body": lambda _: Response(status_code=500),
    "no content": lambda _: Response(status_code=202),
    "not found": lambda _: Response("nothing here", status_code=404),
    "a redirect": lambda _: Response(status_code=307, headers={"location": "https://elsewhere.example/mcp"}),
    "another content type": lambda _: Response("ok", media_type="text/plain"),
    "broken json": lambda _: Response('{"jsonrpc": "2.0", "err', media_type="application/json"),
    "a stream that ends early": lambda _: events(": ping\n\n"),
    "an error about another request": lambda message: events(
        f"data: {json.dumps(error_of(message, request_id='other'))}\n\n"
    ),
    "refused before the id was read": lambda message: json_body(error_of(message, request_id=None), status=400),
    "a problem document": lambda _: json_body({"error": "invalid_token"}, status=401),
}


@pytest.mark.parametrize("name", NOT_RECEIVED)
async def test_what_our_own_side_makes_up_was_not_received(name: str) -> None:
    assert isinstance(await outcome(NOT_RECEIVED[name]), NotReceived)


async def test_a_client_still_learns_why_its_message_was_not_read() -> None:
    error = await outcome(NOT_RECEIVED["refused before the id was read"])
    assert (error.code, error.message, error.data) == (-32000, "theirs", {"kept": True})


async def test_a_real_server_over_http_answers_results_and_errors(tmp_path: Path) -> None:
    server: MCPServer[Any] = MCPServer("upstream")
    add_tools(server, tmp_path / "effects")
    async with serving(server.streamable_http_app()) as base, connected(f"{base}/mcp") as upstream:
        result = await upstream.call(calling("read", account="a1"))
        with pytest.raises(MCPError) as caught:
            await upstream.call(calling("refuse", code=-32050))
    assert result["structuredContent"] == {"account": "a1", "cents": 1200}
    assert "_meta" not in result
    assert (caught.value.code, caught.value.data) == (-32050, {"why": "test"})


async def test_a_server_that_went_away_did_not_answer(tmp_path: Path) -> None:
    server: MCPServer[Any] = MCPServer("upstream")
    add_tools(server, tmp_path / "effects")
    stop, stopped = anyio.Event(), anyio.Event()

    async def serve(*, task_status: TaskStatus[str]) -> None:
        async with serving(server.streamable_http_app()) as base:
            task_status.started(base)
            await stop.wait()
        stopped.set()

    async with anyio.create_task_group() as group:
        base = await group.start(serve)
        async with connected(f"{base}/mcp") as upstream:
            stop.set()
            await stopped.wait()
            with pytest.raises(NotReceived):
                await upstream.call(calling("read", account="a1"))

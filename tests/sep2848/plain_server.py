"""The hand-written gate over streamable HTTP, answering with JSON or with events, and its verbs as URLs.

Also servers that are no servers: one that says nothing, one that says nonsense, one that wants a token.
"""

import json
from pathlib import Path
from typing import Any

import anyio
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.sep2848.plain_gate import PlainGate
from tests.sep2848.subjects import CALLS, QUICK, VERBS


def app(gate: PlainGate) -> Starlette:
    """The gate at `/mcp`; the bearer token is the principal's name."""

    async def mcp(request: Request) -> Response:
        scheme, _, principal = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not principal:
            return Response(status_code=401)
        message = json.loads(await request.body())
        sent = await gate.answer(message, principal=principal)
        if not sent:
            return Response(status_code=202)
        if len(sent) > 1 or message["method"] == "tasks/get":
            events = "".join(f"event: message\ndata: {json.dumps(one)}\n\n" for one in sent)
            return Response(": hello\n\n" + events, media_type="text/event-stream")
        return JSONResponse(sent[0], status_code=400 if "error" in sent[0] else 200)

    async def control(request: Request) -> Response:
        verb, marker = request.path_params["verb"], request.query_params.get("marker", "")
        if verb == "restart":
            gate.restart()
            if (served := getattr(request.app.state, "served", None)) is not None:
                served.cut()
            return PlainTextResponse("")
        return PlainTextResponse(str(getattr(gate, verb)(marker)))

    return Starlette(routes=[Route("/mcp", mcp, methods=["POST"]), Route("/control/{verb}", control, methods=["POST"])])


def control_file(folder: Path, base: str, **changes: Any) -> Path:
    """A control file whose verbs are URLs and whose tokens are files."""
    for name in ("alice", "bob"):
        (folder / name).write_text(name + "\n")
    document = {
        "calls": CALLS,
        "verbs": {verb: {"post": f"{base}/control/{verb}?marker={{marker}}"} for verb in VERBS},
        "tokens": {"first": {"file": "alice"}, "second": {"file": "bob"}},
        "hidden": {"artifacts": ["binding-7f3a"], "people": ["Carol"]},
        "seconds": QUICK | {"end": 5, "settle": 0.1},
    }
    path = folder / "control.yaml"
    path.write_text(yaml.safe_dump(document | changes))
    return path


def silent() -> Starlette:
    """Takes requests and never answers one."""

    async def wait(_: Request) -> Response:
        await anyio.sleep_forever()
        return Response()

    return Starlette(routes=[Route("/mcp", wait, methods=["POST"])])


def babbling() -> Starlette:
    """Answers everything with what is no JSON-RPC."""

    async def babble(_: Request) -> Response:
        return PlainTextResponse("<html>welcome</html>")

    return Starlette(routes=[Route("/mcp", babble, methods=["POST"])])


def absurd() -> Starlette:
    """Declares everything, and answers everything else with results of the wrong types."""

    async def answer(request: Request) -> Response:
        asked = json.loads(await request.body())
        extensions: Any = {"io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/tool-approval": {}}
        result: Any = [None, {"status": 7, "result": "x"}, "y"]
        match asked.get("method"):
            case "server/discover":
                result = {"capabilities": {"extensions": extensions}}
            case "tools/call":
                result = {"resultType": "task", "taskId": "t" * 40, "_meta": [], "statusMessage": 3, "ttlMs": "x"}
            case "tasks/get":
                result = {
                    "status": "completed",
                    "result": {"content": 5, "_meta": 4},
                    "inputRequests": [1],
                    "ttlMs": {},
                }
        return JSONResponse({"jsonrpc": "2.0", "id": asked.get("id"), "result": result})

    return Starlette(routes=[Route("/mcp", answer, methods=["POST"])])

"""Serves the floors: what the same server, store and SDK do without what we add. `python -m tests.bench.serve NAME …`.

Every floor ends when its standard input does.
"""

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import uvicorn
from fastapi import FastAPI
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp

from arap_service import audit
from arap_service.http1 import BoundedHttp
from arap_service.store import tasks
from arap_service.store.database import Database, WriteSession
from arap_service.store.tables import Delivery
from mcp_gate.extension import Gate
from mcp_gate.settings import load_settings


def empty() -> ASGIApp:
    """An endpoint of FastAPI that does nothing and answers what an evaluation answers."""
    app = FastAPI()

    @app.post("/")
    async def answer() -> dict[str, bool]:
        return {"decision": True}

    return app


def unit(url: str) -> ASGIApp:
    """The bare unit of work of the store: compare and set, audit entry, outbox row, commit."""
    database = Database.open(url)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await database.aclose()

    app = FastAPI(lifespan=lifespan)

    @app.post("/{task_id}")
    async def end(task_id: str) -> dict[str, bool]:
        return {"ended": await database.write(lambda session: _end(session, task_id))}

    return app


def _end(session: WriteSession, task_id: str) -> bool:
    now = datetime.now(UTC)
    ended = tasks.end_task(session, task_id, seen=1, to="cancelled", at=now, by="bench")
    if ended is None:
        return False
    audit.append(session, task_id, kind="cancelled", actor="bench", detail={"status": "cancelled"}, now=now)
    session.add(
        Delivery(
            id=f"msg_{task_id}",
            task_id=task_id,
            client_id=ended.client_id,
            endpoint="https://gate.example/callbacks/arap",
            event="task.cancelled",
            created_at=now,
            next_at=now,
            body_sealed=b"b" * 256,
        )
    )
    session.on_commit("deliveries")
    return True


def mcp(config: str | None = None) -> ASGIApp:
    """The SDK's server with its small tools, behind the gate that `config` describes, if any."""
    gate = None if config is None else Gate(load_settings(Path(config)))
    server = tools(gate)
    if gate is not None:
        gate.bind(server)
    return server.streamable_http_app()


def tools(gate: Gate | None = None) -> MCPServer[object]:
    """The server that is called: one tool that anybody may call, two that need approval."""
    server: MCPServer[object] = MCPServer(
        "bench", extensions=[] if gate is None else [gate], lifespan=None if gate is None else gate.lifespan()
    )

    @server.tool()
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool()
    async def transfer(amount: int, to: str) -> str:
        """Move money, if it may."""
        return f"{amount} to {to}"

    @server.tool()
    async def start(port: int, number: int) -> str:
        """Tell a port of this machine when call `number` began, by the clock that all its processes share."""
        began = time.monotonic_ns()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(f"{number} {began}".encode(), ("127.0.0.1", port))
        return str(began)

    return server


APPS: Final[dict[str, Callable[..., ASGIApp]]] = {"empty": empty, "unit": unit, "mcp": mcp}


def main(name: str, *arguments: str) -> None:
    """Serve `name` on the port that is the first argument; `tools` speaks over stdio instead."""
    if name == "tools":
        tools().run("stdio")
        return
    port, *rest = arguments
    app = APPS[name](*rest)
    config = uvicorn.Config(
        app, port=int(port), http=BoundedHttp, log_config=None, access_log=False, server_header=False, lifespan="on"
    )
    server = uvicorn.Server(config)
    threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
    server.run()


def _end_with_stdin(server: uvicorn.Server) -> None:
    # Not through sys.stdin: this thread would hold its lock when the process ends, and Python aborts then.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    server.should_exit = True


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Nothing of a call reaches the log, whatever libraries have to say about it (PEP-131)."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import structlog

from mcp_gate.logs import Reticent, configure_logging, outline
from tests.gate.gateways import ROOT
from tests.gate.world import META, VERSION

pytestmark = pytest.mark.anyio

CANARY = "canary-DE89370400440532013000"


@pytest.fixture
def logged() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A library's logger whose records are formatted as the commands do."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Reticent())
    logger = logging.getLogger("somebodys.library")
    logger.addHandler(handler)
    logger.propagate = False
    yield logger, stream
    logger.removeHandler(handler)
    logger.propagate = True


def fail() -> None:
    raise ExceptionGroup(f"group {CANARY}", [ValueError(CANARY)]) from KeyError(CANARY)


def test_of_a_librarys_record_place_template_and_kinds_are_kept(
    logged: tuple[logging.Logger, io.StringIO],
) -> None:
    logger, stream = logged
    try:
        fail()
    except ExceptionGroup:
        logger.exception("failed for %r", CANARY)
    logger.error(f"formatted {CANARY}")  # noqa: G004 - what libraries do
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert CANARY not in stream.getvalue()
    assert (first["logger"], first["level"], first["template"]) == ("somebodys.library", "error", "failed for %r")
    assert first["where"].startswith("test_logs.py:")
    kinds = [line for line in first["exception"] if not line.startswith(" ")]
    assert kinds == ["builtins.ExceptionGroup", "builtins.KeyError", "builtins.ValueError"]
    assert any(line.endswith(" fail") for line in first["exception"])
    assert set(second) == {"event", "level", "logger", "where"}


def test_an_exception_that_is_its_own_cause_ends() -> None:
    error = ValueError(CANARY)
    error.__cause__ = error
    assert outline(error) == ["builtins.ValueError"]


def test_our_own_exceptions_are_outlined_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    root, level, known = logging.getLogger(), logging.getLogger().level, structlog.get_config()
    handlers = list(root.handlers)
    try:
        configure_logging()
        log = structlog.get_logger()
        try:
            fail()
        except ExceptionGroup as error:
            log.exception("step_failed")
            log.exception("step_failed", exc_info=error)
        log.info("step_taken")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**known)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert CANARY not in json.dumps(lines)
    assert ["builtins.KeyError" in line.get("exception", []) for line in lines] == [True, True, False]


CARELESS = """
import sys, json
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "careless", "version": "1"}},
        "tools/list": {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "unheard-of", "text": "CANARY"}]},
    }
    if message["method"] == "tools/call":
        print("debug: paying", message["params"]["arguments"], flush=True)
    result = results.get(message["method"])
    shown = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **shown}), flush=True)
"""

# A decision point that permits everything.
PERMITTING = """
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def answer(self, shown):
        body = json.dumps(shown).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self): self.answer({"policy_decision_point": base, "access_evaluation_endpoint": base + "/e"})
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.answer({"decision": True})
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
base = f"http://127.0.0.1:{server.server_port}"
print(base, flush=True)
server.serve_forever()
"""


@pytest.mark.requirement("PEP-131")
def test_a_gateway_before_a_careless_server_logs_nothing_of_the_call(tmp_path: Path) -> None:
    """The server prints arguments on stdout and answers with no result; the client sends lines that are no message."""
    (tmp_path / "careless.py").write_text(CARELESS.replace("CANARY", CANARY))
    (tmp_path / "permitting.py").write_text(PERMITTING)
    meta = {
        META + "protocolVersion": VERSION,
        META + "clientCapabilities": {},
        META + "clientInfo": {"name": "raw", "version": "1"},
    }
    call = {"name": "pay", "arguments": {"iban": CANARY}, "_meta": meta}
    wrong = {"name": "pay", "arguments": CANARY, "_meta": meta}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}),
        f"{CANARY} is no JSON",
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": wrong}),
    ]
    decision_point = subprocess.Popen(
        [sys.executable, str(tmp_path / "permitting.py")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert decision_point.stdout is not None
        base = decision_point.stdout.readline().strip()
        config = write_config(tmp_path, base)
        answers, said = anyio.run(_converse, config, lines)
    finally:
        decision_point.kill()
        decision_point.communicate()
    assert set(answers) == {1, 2}
    assert "library_logged" in said
    assert CANARY not in said


def write_config(directory: Path, base: str) -> Path:
    document: dict[str, Any] = {
        "server_name": "treasury",
        "backend": {"identifier": base, "idempotency_retention_seconds": 86_400},
        "insecure_loopback": True,
        "upstream": {"command": sys.executable, "args": [str(directory / "careless.py")]},
        "front": {"stdio": True},
        "stdio": {"principal": {"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"}},
        "database": f"sqlite:///{directory}/gate.sqlite",
        "key_file": str(directory / "keys.yaml"),
    }
    path = directory / "gate.yaml"
    path.write_text(json.dumps(document))
    return path


async def _converse(config: Path, lines: list[str]) -> tuple[dict[Any, Any], str]:
    """What the gateway answers to each line that has an id, and what it says on stderr until it has ended."""
    said = bytearray()
    answers: dict[Any, Any] = {}
    with anyio.fail_after(60):
        async with (
            await anyio.open_process(
                [sys.executable, "-m", "mcp_gate", "proxy", "--config", str(config)],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            ) as process,
            anyio.create_task_group() as group,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            stderr = process.stderr

            async def listen() -> None:
                async for chunk in stderr:
                    said.extend(chunk)

            group.start_soon(listen)
            await process.stdin.send("".join(f"{line}\n" for line in lines).encode())
            received = bytearray()
            async for chunk in process.stdout:
                received += chunk
                answers = {json.loads(line).get("id"): line for line in received.split(b"\n")[:-1]}
                if {1, 2} <= answers.keys():
                    break
            await process.stdin.aclose()
            assert await process.wait() == 0
    return answers, said.decode()

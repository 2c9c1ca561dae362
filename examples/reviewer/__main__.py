"""`make serve-reviewer`: serve our gate as the conformance suite of SEP-2848 wants to find it, until stopped.

The gate is a process of its own, so that the verb `restart` can kill it. Loopback only. What it needs lies in the
folder, and the control files for HTTP and for stdio with it.
"""

import argparse
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx2

from examples.reviewer.book import VERBS, Book
from examples.reviewer.controlling import HOST, UNKNOWN, Answer, Hear, controlling
from examples.reviewer.folder import ROOT, prepare_http, prepare_stdio

PATIENCE_SECONDS: Final = 180.0
PREFIX: Final = "io.modelcontextprotocol/"
VERSION: Final = "2026-07-28"


class NotStarted(Exception):
    """The gate does not answer."""


class GateProcess:
    """The gate on HTTP, to be killed and started again."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = port
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def restart(self) -> None:
        """Kill it as a crash would, and start it."""
        with self._lock:
            self.stop()
            command = [
                sys.executable,
                "-m",
                "examples.reviewer.gate",
                "--folder",
                str(self._folder),
                "--die-with-stdin",
            ]
            with (self._folder / "gate.log").open("ab") as log:
                self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log)
            self._wait()

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait(self) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            if self._answers():
                return
            if self._process is None or self._process.poll() is not None:
                break
            time.sleep(0.05)
        said = (self._folder / "gate.log").read_text(encoding="utf-8", errors="replace").strip()
        raise NotStarted(f"the gate did not start: {said.rpartition(chr(10))[2]}")

    def _answers(self) -> bool:
        """Whether it lists its tools, so that the server behind it is there as well."""
        meta = {f"{PREFIX}protocolVersion": VERSION, f"{PREFIX}clientCapabilities": {}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        headers = {
            "Authorization": f"Bearer {(self._folder / 'token-alice').read_text(encoding='ascii').strip()}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": "tools/list",
        }
        try:
            answer = httpx2.post(
                f"http://{HOST}:{self._port}/mcp", json=asked, headers=headers, timeout=20, trust_env=False
            )
        except httpx2.HTTPError:
            return False
        return answer.status_code == 200 and "transfer" in answer.text


def hearing(book: Book, gate: GateProcess) -> Hear:
    """What answers the verbs of a control file."""

    def hear(verb: str, named: Mapping[str, str]) -> Answer:
        try:
            if verb == "restart":
                gate.restart()
                return 200, ""
            return (200, book.do(verb, named["marker"])) if verb in VERBS and named.get("marker") else UNKNOWN
        except NotStarted as error:
            return 500, str(error)
        except LookupError as error:
            return 409, str(error)

    return hear


def main() -> int:
    """Parse the command line, prepare the folder and serve."""
    parser = argparse.ArgumentParser(prog="make serve-reviewer", description=__doc__)
    parser.add_argument("--port", type=int, default=8403, help="where the gate listens; 0 takes a free port")
    parser.add_argument("--service-port", type=int, help="where the approval service listens as well; 0: a free port")
    parser.add_argument("--folder", type=Path, help="where everything lies; by default a temporary folder")
    parser.add_argument("--die-with-stdin", action="store_true", help="stop when standard input ends")
    options = parser.parse_args()
    with ExitStack() as stack:
        given = options.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="mcp-gate-reviewer-"))
        folder = Path(given).resolve()
        try:
            port = options.port or _free_port()
            listener = stack.enter_context(socket.create_server((HOST, 0)))
            control_url = f"http://{HOST}:{listener.getsockname()[1]}"
            keys = prepare_http(folder / "http", port=port, control_url=control_url)
            prepare_stdio(folder / "stdio")
        except (OSError, OverflowError) as error:
            print(f"cannot serve on {HOST}:{options.port}: {error}", file=sys.stderr)
            return 1
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        gate = GateProcess(folder / "http", port)
        stack.callback(gate.stop)
        control = controlling(hearing(Book(folder / "http"), gate), listener, keys)
        threading.Thread(target=control.serve_forever, daemon=True).start()
        try:
            gate.restart()
        except NotStarted as error:
            print(error, file=sys.stderr)
            return 1
        _say(folder, port)
        if options.service_port is not None:
            stack.enter_context(_service(folder / "service", options.service_port))
        with suppress(KeyboardInterrupt):
            if options.die_with_stdin:
                sys.stdin.buffer.read()
            else:
                threading.Event().wait()
        control.shutdown()
    return 0


@contextmanager
def _service(folder: Path, port: int) -> Iterator[None]:
    """The approval service as a process of its own, which says itself how it is tested."""
    command = [sys.executable, "-m", "examples.reviewer.service", "--port", str(port), "--folder", str(folder)]
    with subprocess.Popen([*command, "--die-with-stdin"], cwd=ROOT, stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            if process.stdin is not None:
                process.stdin.close()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


def _say(folder: Path, port: int) -> None:
    gate = shlex.join([sys.executable, "-m", "examples.reviewer.gate", "--folder", str(folder / "stdio")])
    suite = [str(Path(sys.executable).parent / "mcp-gate"), "conformance"]
    control = {name: str(folder / name / "control.yaml") for name in ("http", "stdio")}
    print(f"Serving http://{HOST}:{port}/mcp; test it with one of")
    print(f"  {shlex.join([*suite, '--url', f'http://{HOST}:{port}/mcp', '--control', control['http']])}")
    print(f"  {shlex.join([*suite, '--stdio', gate, '--control', control['stdio']])}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

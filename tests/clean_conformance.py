"""Shows that the conformance suites stand alone: a new environment with the `conformance` extra only runs them.

The environment gets the built wheel, and of the lock only what the extra reaches. Nothing that the gate or the service
needs beyond that may be there. The suites are run against servers that are not ours.
"""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from tests.clean_gate import closure, installed

ABSENT: Final = ("alembic", "fastapi", "joserfc", "limits", "sqlalchemy", "sqlmodel")
SERVER: Final = """
from mcp.server.mcpserver import MCPServer
MCPServer("plain").run("stdio")
"""
PROBE: Final = """
import importlib.util, sys
found = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
if found:
    sys.exit("the suite drags in " + ", ".join(found))
import arap_service.conformance.command, mcp_gate.conformance.command
assert "site-packages" in mcp_gate.conformance.__file__
assert "site-packages" in arap_service.conformance.__file__
"""


def main() -> int:
    """Make the environment, look into it, list the checks and run them against a server without approvals."""
    with tempfile.TemporaryDirectory(prefix="arap-conformance-") as name:
        folder = Path(name)
        bin_ = installed(folder, closure(["arap[conformance]"]) - {"arap"}).parent
        subprocess.run([str(bin_ / "python"), "-I", "-c", PROBE, *ABSENT], cwd=folder, check=True)
        print(f"clean environment with the conformance suite alone: no {', '.join(ABSENT)}", flush=True)
        suite = [str(bin_ / "mcp-gate"), "conformance"]
        subprocess.run([*suite, "--list"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (folder / "server.py").write_text(SERVER)
        server = f"{bin_ / 'python'} {folder / 'server.py'}"
        (folder / "control.yaml").write_text("seconds: {request: 120}\n")  # a new environment compiles what it imports
        command = [*suite, "--stdio", server, "--control", "control.yaml"]
        done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
        print(done.stdout.splitlines()[-1] if done.stdout else done.stderr)
        # It declares no extension: one check fails, and nothing else is asked.
        failed = done.returncode != 1 or "1 failed" not in done.stdout
        suite = [str(bin_ / "python"), "-m", "arap_service.conformance"]
        subprocess.run([*suite, "--list"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with decision_point() as url:
            command = [*suite, "--url", url, "--only", "discovery"]
            done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
        print(done.stdout.splitlines()[-1] if done.stdout else done.stderr)
        # It has no access requests: the endpoint is missing, and that is all that can be said without questions.
        return 1 if failed or done.returncode != 1 or "1 failed" not in done.stdout else 0


@contextmanager
def decision_point() -> Iterator[str]:
    """A decision point that has metadata and knows nothing of access requests; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"policy_decision_point": url}).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    sys.exit(main())

"""`python -m examples.conformance_fixture`: serve the fixtures of the public MCP conformance suite until stopped.

The suite cannot send credentials, so nobody is authenticated and only loopback is listened on. What a run needs lies
in a temporary folder, and goes with it.
"""

import argparse
import os
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

import uvicorn

from examples.conformance_fixture.server import application

HOST: Final = "127.0.0.1"


def main() -> int:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="make serve-conformance", description=__doc__)
    parser.add_argument(
        "--port", type=int, default=8402, help="where to listen (make serve-conformance PORT=...); 0 takes a free one"
    )
    parser.add_argument("--die-with-stdin", action="store_true", help="stop when standard input ends")
    options = parser.parse_args()
    try:
        listener = socket.create_server((HOST, options.port))
    except (OSError, OverflowError) as error:
        print(f"cannot listen on {HOST}:{options.port}: {error}", file=sys.stderr)
        return 1
    with listener, tempfile.TemporaryDirectory(prefix="mcp-gate-conformance-") as folder:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # uvicorn does it for its own sockets only
        # h11 takes spaces around a header's value away, as HTTP wants; the other parser leaves those behind it.
        config = uvicorn.Config(application(Path(folder)), http="h11", log_level="warning", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        if options.die_with_stdin:
            threading.Thread(target=_stop_at_end_of_input, args=[server], daemon=True).start()
        print(f"Serving http://{HOST}:{listener.getsockname()[1]}/mcp", flush=True)
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            return 130
    return 0


def _stop_at_end_of_input(server: uvicorn.Server) -> None:
    # Not through sys.stdin: this thread would hold its lock when the process ends, and Python aborts then.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    server.should_exit = True


if __name__ == "__main__":
    sys.exit(main())

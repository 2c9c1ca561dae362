"""`python -m examples.reviewer.service`: our service as `arap conformance` wants to find it, until stopped.

Loopback only. Decisions are made through the resolver's API by whoever posts to the control interface; for what only
time brings, the clock of the service is put forward. What it needs lies in the folder, and the control file with it.
"""

import argparse
import asyncio
import os
import shlex
import socket
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx2
import uvicorn

from arap_service import logs
from arap_service.app import create_app
from arap_service.client import Resolver, ResolverError, Unavailable
from arap_service.context import Context
from arap_service.http1 import BoundedHttp
from arap_service.serving import Server, bound
from arap_service.settings import Settings
from arap_service.store import migrate
from arap_service.surroundings import open_context, utc_now
from examples.reviewer import service_folder
from examples.reviewer.controlling import UNKNOWN, Answer, Hear, controlling
from examples.reviewer.service_folder import DENIAL_SECONDS, HOST, PENDING_SECONDS, SKEW_SECONDS

BRIEFLY: Final = timedelta(seconds=2)


class MovedClock:
    """The time of this machine, put forward."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        """The moved time."""
        return utc_now() + self._ahead

    def forward(self, seconds: int) -> None:
        """Let so much time pass."""
        self._ahead += timedelta(seconds=seconds)


class Bearer(httpx2.Auth):
    """A token that stands in a file."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send it along."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class Hand:
    """Carries out the verbs of the control file."""

    def __init__(self, folder: Path, clock: MovedClock) -> None:
        self._folder, self._clock = folder, clock
        self._closed: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self.context: Context | None = None

    def do(self, verb: str, task: str, item: int) -> None:
        """Do it.

        Raises:
            LookupError, ResolverError, Unavailable: It cannot be done.
        """
        if verb in {"expire", "expire_denial"}:
            self._clock.forward(1 + (PENDING_SECONDS if verb == "expire" else DENIAL_SECONDS + SKEW_SECONDS))
            return
        if self.context is None:
            raise LookupError("the service does not serve yet")
        token = (self._folder / "token-reviewer").read_text(encoding="ascii").strip()
        with Resolver(self.context.settings.identifier, auth=Bearer(token)) as resolver:
            found = resolver.get(task)
            if verb == "ask":
                resolver.ask(task, "What is it for?")
            elif verb == "revoke":
                resolver.revoke(found["approval"]["id"], reason="Taken back.")
            elif verb == "forbid":
                self._forbid(found["resource"], self.context)
            else:
                self._decide(resolver, found, verb, item)

    def _decide(self, resolver: Resolver, found: dict[str, Any], verb: str, item: int) -> None:
        choice, _, how = verb.partition("_")
        whole = found["items"] or [found]
        chosen = [whole[item]] if how == "item" else whole
        until = (self._clock() + BRIEFLY).isoformat() if how == "briefly" else None
        for one in chosen:
            resolver.decide(
                found["id"],
                "approve" if choice == "approve" else "deny",
                version=one["version"],
                reason="So decided.",
                approved_until=until,
                item=one["item"] or None,
                may_vary=None if choice == "deny" else ["/resource/id"] if how == "wider" else [],
            )

    def _forbid(self, resource: dict[str, Any], context: Context) -> None:
        with self._lock:
            self._closed.setdefault(resource["type"], {})[resource["id"]] = {"closed": True}
            service_folder.write(self._folder / "policy.yaml", service_folder.rules(self._closed))
            context.policy.refresh()


def hearing(hand: Hand) -> Hear:
    """What answers the verbs of a control file."""

    def hear(verb: str, named: Mapping[str, str]) -> Answer:
        if verb not in service_folder.VERBS:
            return UNKNOWN
        try:
            hand.do(verb, named.get("task", ""), int(named.get("item", "0")))
        except (LookupError, TypeError, ResolverError, Unavailable) as error:
            return 409, str(error)
        return 200, ""

    return hear


async def serve(settings: Settings, hand: Hand, clock: MovedClock, *, said: list[str], die_with_stdin: bool) -> None:
    """Serve until stopped; `said` is printed when the service listens."""
    context = await open_context(settings, clock=clock)
    hand.context = context
    try:
        with bound(settings.bind) as listening:
            app = create_app(context, background=True)
            config = uvicorn.Config(app, http=BoundedHttp, log_config=None, access_log=False, lifespan="on")
            server = Server(config, announce=lambda: print("\n".join(said), flush=True))
            if die_with_stdin:
                threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
            await server.serve(sockets=[listening])
    finally:
        await context.aclose()


def _end_with_stdin(server: uvicorn.Server) -> None:
    # Not through sys.stdin: this thread would hold its lock when the process ends, and Python aborts then.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    server.should_exit = True


def main() -> int:
    """Parse the command line, prepare the folder and serve."""
    parser = argparse.ArgumentParser(prog="python -m examples.reviewer.service", description=__doc__)
    parser.add_argument("--port", type=int, default=8405, help="where the service listens; 0 takes a free port")
    parser.add_argument("--folder", type=Path, help="where everything lies; by default a temporary folder")
    parser.add_argument("--database", help="a database URL; by default a file in the folder")
    parser.add_argument("--die-with-stdin", action="store_true", help="stop when standard input ends")
    options = parser.parse_args()
    with ExitStack() as stack:
        given = options.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="arap-reviewer-"))
        folder = Path(given).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        port = options.port or _free_port()
        database = options.database or f"sqlite:///{folder / 'arap.db'}"
        listener = stack.enter_context(socket.create_server((HOST, 0)))
        control_url = f"http://{HOST}:{listener.getsockname()[1]}"
        values, keys = service_folder.prepare(
            folder, port=port, control_url=control_url, callback_port=_free_port(), database=database
        )
        settings = Settings(**values)
        logs.configure(settings.log_level)
        migrate.upgrade(settings.database)
        clock = MovedClock()
        hand = Hand(folder, clock)
        control = controlling(hearing(hand), listener, keys)
        threading.Thread(target=control.serve_forever, daemon=True).start()
        suite = [str(Path(sys.executable).parent / "arap"), "conformance", "--url", settings.identifier]
        command = shlex.join([*suite, "--control", str(folder / "control.yaml")])
        said = [f"Serving {settings.identifier}; test it with", f"  {command}"]
        try:
            asyncio.run(serve(settings, hand, clock, said=said, die_with_stdin=options.die_with_stdin))
        except KeyboardInterrupt:
            return 0
        finally:
            control.shutdown()
    return 0


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())

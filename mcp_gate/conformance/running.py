"""Runs checks one after the other over one connection for each principal, and gives each a verdict.

Whatever a server or a deployment does, there is an outcome for every check, in bounded time.
"""

import itertools
import secrets
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from blackbox_kit.causes import cause_of
from blackbox_kit.judging import judged, without_secrets
from blackbox_kit.processes import ran
from blackbox_kit.redaction import note
from mcp_gate.conformance.checks_capability import declared
from mcp_gate.conformance.client_server import TOOL, Script, scripted
from mcp_gate.conformance.control import Hands
from mcp_gate.conformance.model import (
    Check,
    Exchange,
    NotApplicable,
    NotRun,
    Outcome,
    Verdict,
)
from mcp_gate.conformance.transports import NoAnswer, Nowhere, Transport, http_transport, stdio_transport
from mcp_gate.conformance.trial import Shown, Trial, brief
from mcp_gate.conformance.wire import APPROVAL, TASKS, Wire

Progress = Callable[[Outcome], None]
PlayClient = Callable[[Script], Awaitable[None]]
MARKER_BYTES: Final = 5
BARRED: Final = frozenset({401, 403})


class Subject(Protocol):
    """A server under test."""

    @property
    def target(self) -> str:
        """Its address or command."""

    @property
    def transport(self) -> str:
        """How it is spoken to."""

    @property
    def has_principals(self) -> bool:
        """Whether a token says who calls."""

    def open(self, token: str | None) -> AbstractAsyncContextManager[Transport]:
        """A connection of its own, as whoever holds the token."""


@dataclass(frozen=True, slots=True)
class HttpSubject:
    """A server at a URL."""

    target: str
    transport: str = "streamable HTTP"
    has_principals: bool = True

    def open(self, token: str | None) -> AbstractAsyncContextManager[Transport]:
        """One HTTP client."""
        return http_transport(self.target, token=token)


@dataclass(frozen=True, slots=True)
class StdioSubject:
    """A server that a command starts; there is one principal, whoever the server thinks that we are."""

    target: str
    transport: str = "stdio"
    has_principals: bool = False

    def open(self, token: str | None) -> AbstractAsyncContextManager[Transport]:
        """One process."""
        del token
        return stdio_transport(shlex.split(self.target))


class Unreachable(Exception):
    """Nothing that speaks JSON-RPC answers; the text says what came instead."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the server is, as far as it said; `why_not` is why checks of tasks have no object, if they have none."""

    extensions: frozenset[str]
    why_not: str | None


@dataclass(frozen=True, slots=True)
class Lines:
    """The connections of a run, and the numbers of its requests."""

    first: Transport
    second: Transport | None
    ids: "itertools.count[int]"


@dataclass(slots=True)
class Run:
    """One run. `tokens` are of the caller and of the other principal; `client` plays a script to a client."""

    hands: Hands
    subject: Subject | None
    tokens: tuple[str | None, str | None] = (None, None)
    client: PlayClient | None = None
    anyway: bool = False
    clock: Callable[[], float] = time.monotonic
    new_marker: Callable[[], str] = lambda: "m" + secrets.token_hex(MARKER_BYTES)
    shown: Shown = field(default_factory=Shown)

    async def all(self, checks: Sequence[Check], progress: Progress) -> tuple[Outcome, ...]:
        """The outcome of every check, in order.

        Raises:
            Unreachable: The server never answered anything, or refuses everything.
        """
        outcomes: list[Outcome] = []

        def keep(outcome: Outcome) -> None:
            outcomes.append(outcome)
            progress(outcome)

        of_server = [check for check in checks if not check.of_client]
        if of_server and self.subject is not None:
            await self._server(self.subject, of_server, keep)
        else:
            for check in of_server:
                keep(Outcome(check, Verdict.SKIPPED, "no server was given (--url or --stdio)"))
        for check in checks:
            if check.of_client:
                keep(await self._one(check, Lines(Nowhere(), None, itertools.count(1))))
        return tuple(outcomes)

    async def _server(self, subject: Subject, checks: Sequence[Check], keep: Progress) -> None:
        ids = itertools.count(1)
        try:
            async with subject.open(self.tokens[0]) as transport:
                reading = await self._read(transport, ids)
                if self.tokens[1] is None or not subject.has_principals:
                    await self._each(checks, reading, keep, Lines(transport, None, ids))
                    return
                async with subject.open(self.tokens[1]) as other:
                    await self._each(checks, reading, keep, Lines(transport, other, ids))
        except NoAnswer as error:
            raise Unreachable(note(str(error), self._hidden())) from None

    async def _each(self, checks: Sequence[Check], reading: Reading, keep: Progress, lines: Lines) -> None:
        for check in checks:
            reason = self._reason_to_skip(check, reading)
            if reason is not None:
                keep(without_secrets(Outcome(check, Verdict.SKIPPED, reason), self._hidden()))
            else:
                keep(await self._one(check, lines))

    async def _read(self, transport: Transport, ids: "itertools.count[int]") -> Reading:
        wire = Wire(transport, note=lambda _: None, seconds=self.hands.control.seconds.request, ids=ids)
        reply = await wire.request("server/discover", {})
        answer, found = reply.answer, frozenset(declared(reply.answer))
        if not isinstance(answer.get("result"), dict):
            http = "" if reply.status is None else f"HTTP {reply.status} with "
            gave = f"server/discover gave {http}{brief(answer)}"
            if reply.status in BARRED:
                raise NoAnswer(gave)
            if not self.anyway:
                await self._of_the_handshake_era(wire, gave)
            return Reading(found, f"the server does not speak 2026-07-28: {gave}")
        if not found & {TASKS, APPROVAL}:
            return Reading(found, f"the server declares neither {TASKS} nor {APPROVAL}")
        return Reading(found, None)

    async def _of_the_handshake_era(self, wire: Wire, gave: str) -> None:
        """See that the server takes clients of the handshake era at least.

        Raises:
            NoAnswer: It refuses these as well; there is nothing to test.
        """
        try:
            await wire.shake_hands()
        except NoAnswer as error:
            raise NoAnswer(f"{gave}, and of the handshake era: {error}") from None

    def _hidden(self) -> set[str]:
        hidden = self.hands.control.hidden
        return {*(token for token in self.tokens if token), *hidden.artifacts, *hidden.people}

    def _reason_to_skip(self, check: Check, reading: Reading) -> str | None:
        if check.always:
            return None
        if reading.why_not is not None and not self.anyway:
            return reading.why_not
        control = self.hands.control
        calls = [name for name in check.calls if name not in control.calls]
        verbs = [name for name in check.verbs if name not in control.verbs]
        lacking = [*(f"call {name}" for name in calls), *(f"verb {name}" for name in verbs)]
        return f"the control file has no {', no '.join(lacking)}" if lacking else None

    async def _one(self, check: Check, lines: Lines) -> Outcome:
        exchanges: list[Exchange] = []
        seconds, trial = self.hands.control.seconds, self._trial(exchanges, lines)
        try:
            outcome = await judged(check, lambda: check.run(trial), exchanges, seconds=seconds.check, clock=self.clock)
        finally:
            # Whoever interrupts a run does not want what it has open to wait for a decision.
            with anyio.move_on_after(seconds.request, shield=True):
                await trial.clean()
        return without_secrets(outcome, self._hidden())

    def _trial(self, exchanges: list[Exchange], lines: Lines) -> Trial:
        headers: list[Mapping[str, str]] = []

        def wire(transport: Transport) -> Wire:
            seconds = self.hands.control.seconds.request
            return Wire(transport, note=exchanges.append, seconds=seconds, ids=lines.ids, heard=headers.append)

        @asynccontextmanager
        async def another() -> AsyncIterator[Wire]:
            if self.subject is None:
                raise NotApplicable("no server was given")
            async with self.subject.open(self.tokens[0]) as transport:
                yield wire(transport)

        return Trial(
            wire=wire(lines.first),
            other=None if lines.second is None else wire(lines.second),
            hands=self.hands,
            new_marker=self.new_marker,
            client=self.client,
            open_another=another,
            exchanges=exchanges,
            headers=headers,
            shown=self.shown,
        )


def client_player(command: str, *, seconds: float) -> PlayClient:
    """Plays scripts to the client that `command` runs; `{url}` and `{tool}` stand for the scripted server's."""

    async def play(script: Script) -> None:
        with scripted(script) as url:
            parts = [part.replace("{url}", url).replace("{tool}", TOOL) for part in shlex.split(command)]
            try:
                with anyio.fail_after(seconds):
                    await ran(parts)
            except TimeoutError:
                raise NotRun(f"the client did not end within {seconds:g} s") from None
            except OSError as error:
                raise NotRun(f"the client cannot be run: {cause_of(error)}") from None

    return play

"""Runs checks one after the other, and gives each a verdict; what the service supports is looked at first."""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import httpx2

from arap_service.conformance.control import Hands
from arap_service.conformance.listener import Listener, listening
from arap_service.conformance.model import Check
from arap_service.conformance.profiles import NO_BULK, Support, declared, supported
from arap_service.conformance.trial import Trial
from arap_service.conformance.wire import Answer, NoAnswer, Wire
from blackbox_kit.hands import Secret, each_its_own
from blackbox_kit.judging import judged, without_secrets
from blackbox_kit.model import Exchange, Json, Outcome, Verdict

Progress = Callable[[Outcome], None]
Http = Callable[[], AbstractAsyncContextManager[httpx2.AsyncClient]]
MARKER_BYTES: Final = 6
DISCOVERY: Final = "discovery"


class Unreachable(Exception):
    """Nothing answers there; the text says what came instead."""


@asynccontextmanager
async def plain_http() -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client that follows nothing and believes no environment."""
    async with httpx2.AsyncClient(trust_env=False, timeout=None, follow_redirects=False) as http:
        yield http


def metadata_url(target: str) -> str:
    """Where the metadata of a decision point is."""
    parts = urlsplit(target)
    return urlunsplit(parts._replace(path="/.well-known/authzen-configuration" + parts.path.rstrip("/")))


@dataclass(frozen=True, slots=True)
class Reading:
    """What the service says of itself, and what it was seen to support."""

    answer: Answer
    metadata: Json
    support: Support = field(default_factory=Support)
    exchanges: tuple[Exchange, ...] = ()


@dataclass(slots=True)
class Run:
    """One run against the decision point whose identifier is `target`."""

    hands: Hands
    target: str
    profiles: tuple[str, ...] | None = None
    http: Http = plain_http
    clock: Callable[[], float] = time.monotonic
    new_marker: Callable[[], str] = lambda: "m" + secrets.token_hex(MARKER_BYTES)
    tokens: dict[str, str] = field(default_factory=dict)
    _secrets: dict[str, str] = field(default_factory=dict)

    async def all(self, checks: Sequence[Check], progress: Progress) -> tuple[Outcome, ...]:
        """The outcome of every check, in order.

        Raises:
            Unreachable: Nothing answers.
            ControlInvalid: A token cannot be had or is that of two callers, or nobody can listen for callbacks.
        """
        outcomes: list[Outcome] = []
        for role, secret in self.hands.control.tokens.items():
            self.tokens[role] = await self.hands.token(secret) or ""
        each_its_own(self.tokens)
        for name, one in self._agreed().items():
            self._secrets[name] = await self.hands.token(one) or ""
        callbacks = self.hands.control.callbacks
        with ExitStack() as stack:
            listener = None if callbacks is None else stack.enter_context(listening(callbacks, self.hands.folder))
            async with self.http() as http:
                reading = await self._read(http, checks)
                for check in checks:
                    outcome = self._without_running(check, reading.support)
                    if outcome is None:
                        outcome = await self._one(check, http, reading, listener)
                    outcome = without_secrets(outcome, self._unshown())
                    outcomes.append(outcome)
                    progress(outcome)
        return tuple(outcomes)

    def _agreed(self) -> Mapping[str, Secret]:
        callbacks = self.hands.control.callbacks
        if callbacks is None:
            return {}
        found = {
            "bearer": callbacks.bearer,
            "standard_webhooks": callbacks.standard_webhooks,
            "hmac": None if callbacks.hmac is None else callbacks.hmac.secret,
        }
        return {name: secret for name, secret in found.items() if secret is not None}

    async def _read(self, http: httpx2.AsyncClient, checks: Sequence[Check]) -> Reading:
        kept: list[Exchange] = []
        wire = Wire(http, note=kept.append, seconds=self.hands.control.seconds.request)
        try:
            answer = await wire.ask("GET", metadata_url(self.target))
        except NoAnswer as error:
            raise Unreachable(str(error)) from None
        reading = Reading(answer, answer.document, exchanges=tuple(kept))
        given = self.profiles if self.profiles is not None else self.hands.control.profiles
        if given is not None:
            return replace(reading, support=declared(given))
        trial = self._trial(http, reading, [], None)
        support = await supported(trial, {name for check in checks for name in check.profiles})
        await trial.clean()
        return replace(reading, support=support)

    def _without_running(self, check: Check, support: Support) -> Outcome | None:
        """What can be said of a check without it. What could not be looked for may be supported or not."""
        control = self.hands.control
        lacking = [
            *(f"question {name}" for name in check.questions if name not in control.questions),
            *(f"verb {name}" for name in check.verbs if name not in control.verbs),
            *(f"token {name}" for name in check.tokens if name not in control.tokens),
        ]
        if lacking:
            return Outcome(check, Verdict.SKIPPED, f"the control file has no {', no '.join(lacking)}")
        missing = [name for name in check.profiles if name not in support.profiles]
        for name in missing:
            if name in support.unseen:
                what = "bulk" if name == NO_BULK else name
                why = f"whether the service supports {what} could not be seen: {support.unseen[name]}"
                return Outcome(check, Verdict.ERROR, why)
        if missing == [NO_BULK]:
            return Outcome(check, Verdict.SKIPPED, "the service supports bulk")
        if missing:
            return Outcome(check, Verdict.SKIPPED, f"the service does not support {', '.join(missing)}")
        return None

    def _unshown(self) -> set[str]:
        hidden = self.hands.control.hidden
        return {*self.tokens.values(), *self._secrets.values(), *hidden.people, *hidden.catalog}

    async def _one(
        self, check: Check, http: httpx2.AsyncClient, reading: Reading, listener: Listener | None
    ) -> Outcome:
        exchanges = list(reading.exchanges) if check.group == DISCOVERY else []
        if listener is not None:
            listener.calls.clear()
            listener.status = 204
        trial = self._trial(http, reading, exchanges, listener)
        seconds = self.hands.control.seconds.check
        try:
            return await judged(check, lambda: check.run(trial), exchanges, seconds=seconds, clock=self.clock)
        finally:  # after an interruption too
            await trial.clean()

    def _trial(
        self, http: httpx2.AsyncClient, reading: Reading, exchanges: list[Exchange], listener: Listener | None
    ) -> Trial:
        return Trial(
            target=self.target,
            metadata=reading.metadata,
            metadata_answer=reading.answer,
            profiles=reading.support.profiles,
            wire=Wire(http, note=exchanges.append, seconds=self.hands.control.seconds.request),
            hands=self.hands,
            tokens=self.tokens,
            new_marker=self.new_marker,
            listener=listener,
            secrets=self._secrets,
        )

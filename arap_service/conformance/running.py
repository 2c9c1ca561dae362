"""Runs checks one after the other, and gives each a verdict; what the service supports is looked at first."""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import anyio
import httpx2

from arap_service.conformance.control import Hands
from arap_service.conformance.listener import Listener, listening
from arap_service.conformance.model import Check
from arap_service.conformance.trial import Denial, Trial
from arap_service.conformance.wire import Answer, NoAnswer, Wire
from blackbox_kit.hands import Secret, each_its_own
from blackbox_kit.judging import judged, without_secrets
from blackbox_kit.model import Exchange, Json, NotRun, Outcome, Verdict

Progress = Callable[[Outcome], None]
Http = Callable[[], AbstractAsyncContextManager[httpx2.AsyncClient]]
MARKER_BYTES: Final = 6
NO_BULK: Final = "no-bulk"
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
    """What the service says of itself, and what it was seen to support; `why_not` is why nothing can be asked of it."""

    answer: Answer
    metadata: Json
    profiles: frozenset[str]
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
                    lacking = self._reason_to_skip(check, reading)
                    outcome = (
                        Outcome(check, Verdict.SKIPPED, lacking)
                        if lacking is not None
                        else await self._one(check, http, reading, listener)
                    )
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
        reading = Reading(answer, answer.document, frozenset(), tuple(kept))
        wanted = {name for check in checks for name in check.profiles}
        given = self.profiles if self.profiles is not None else self.hands.control.profiles
        if given is not None:
            return replace(reading, profiles=frozenset(given) | ({NO_BULK} if "bulk" not in given else set()))
        trial = self._trial(http, reading, [], None)
        try:
            with anyio.fail_after(self.hands.control.seconds.check):
                return replace(reading, profiles=await self._seen(trial, wanted))
        except (NotRun, TimeoutError, KeyError):
            return reading
        finally:
            await trial.clean()

    async def _seen(self, trial: Trial, wanted: set[str]) -> frozenset[str]:
        """What the service supports, as far as it shows without anybody's decision."""
        found = {"state"}
        if trial.control.callbacks is not None:
            found.add("callbacks")
        if "requestable" not in trial.control.questions:
            return frozenset(found)
        denial = await trial.denied()
        found |= {"token"} if denial.token is not None else set()
        answer = await trial.submit(denial)
        if trial.made and trial.made[-1].cancel_url is not None:
            found.add("cancellation")
        for name, member in (("form", "request_schema_url"), ("catalog", "request_catalogs_url")):
            if name in trial.control.questions and member in (await trial.denied(name)).offer:
                found |= {"forms", "catalogs"} if name == "catalog" else {"forms"}
        if not answer.is_success:
            return frozenset(found)
        found |= await self._bound_by_id(trial)
        if {"bulk", NO_BULK} & wanted:
            items = await trial.submit(*await bundle(trial))
            found.add("bulk" if items.is_success and (items.task or {}).get("items") is not None else NO_BULK)
        return frozenset(found)

    async def _bound_by_id(self, trial: Trial) -> set[str]:
        denial = await trial.denied()
        body = denial.body()
        body["denial"].pop("binding_token", None)
        if denial.evaluation_id is None or not (await trial.submit(denial, body)).is_success:
            return set()
        return {"id"}

    def _reason_to_skip(self, check: Check, reading: Reading) -> str | None:
        control = self.hands.control
        lacking = [
            *(f"question {name}" for name in check.questions if name not in control.questions),
            *(f"verb {name}" for name in check.verbs if name not in control.verbs),
            *(f"token {name}" for name in check.tokens if name not in control.tokens),
        ]
        if lacking:
            return f"the control file has no {', no '.join(lacking)}"
        missing = [name for name in check.profiles if name not in reading.profiles]
        if missing == [NO_BULK]:
            return "the service supports bulk"
        return f"the service does not support {', '.join(missing)}" if missing else None

    async def _one(
        self, check: Check, http: httpx2.AsyncClient, reading: Reading, listener: Listener | None
    ) -> Outcome:
        exchanges = list(reading.exchanges) if check.group == DISCOVERY else []
        if listener is not None:
            listener.calls.clear()
            listener.status = 204
        trial = self._trial(http, reading, exchanges, listener)
        seconds = self.hands.control.seconds.check
        outcome = await judged(check, lambda: check.run(trial), exchanges, seconds=seconds, clock=self.clock)
        await trial.clean()
        return without_secrets(outcome, {one for one in (*self.tokens.values(), *self._secrets.values()) if one})

    def _trial(
        self, http: httpx2.AsyncClient, reading: Reading, exchanges: list[Exchange], listener: Listener | None
    ) -> Trial:
        return Trial(
            target=self.target,
            metadata=reading.metadata,
            metadata_answer=reading.answer,
            profiles=reading.profiles,
            wire=Wire(http, note=exchanges.append, seconds=self.hands.control.seconds.request),
            hands=self.hands,
            tokens=self.tokens,
            new_marker=self.new_marker,
            listener=listener,
            secrets=self._secrets,
        )


async def bundle(trial: Trial) -> tuple[Denial, Json]:
    """Two denials in one request, each item with its own; the first denial says where it goes."""
    first = await trial.denied()
    second = await trial.denied()
    return first, bundled(first, second)


def bundled(*denials: Denial) -> Json:
    """The submission of several denials."""
    bodies = [denial.body() for denial in denials]
    items = [{name: body[name] for name in ("resource", "action", "denial")} for body in bodies]
    rest = {name: bodies[0][name] for name in ("subject", "context", "requested_access") if name in bodies[0]}
    return rest | {"items": items}

"""Callbacks that go wrong: twice, late, never, in the wrong order; and ones that nobody should believe.

Stands where the courier calls out. What the courier is told is what it would have been told by a receiver, so a
callback that is held back counts as delivered. Destinations are checked as ever. Profile, callback companion;
Standard Webhooks.
"""

import base64
import json
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.behaviours import Group
from arap_service.outbound import Answer, DeliveryFailed, DestinationRefused, Outbound
from arap_service.protocol.callback import sign
from arap_service.records import task_seal
from arap_service.requests.handles import task_handle
from arap_service.settings_parts import CallbackSettings
from arap_service.simulator.clock import MovableClock
from arap_service.simulator.observing import Notebook
from arap_service.simulator.program import Armed, Occasion, Program
from arap_service.simulator.running import OpenTask
from arap_service.store import tasks

Post = Callable[..., Awaitable[Answer]]
DECOY_PATH: Final = "/simulator/v1/decoy/"
AT_DELIVERY: Final = ("callback-twice", "callback-late", "callback-lost", "callback-out-of-order")
BEFORE: Final = ("callback-forged", "callback-wrong-key", "callback-stale", "callback-misleading")
_HELD: Final = Answer(status=204, retry_after=None)
_STALE: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Letter:
    """A callback that is on its way: where it goes, what it says, and under which id."""

    url: str
    content: bytes
    id: str
    task: str
    allow: Collection[str]


@dataclass(frozen=True, slots=True)
class Lie:
    """What a callback can be made of that nobody should believe."""

    url: str
    client: str
    body: dict[str, Any]


class SimulatedOutbound(Outbound):
    """The guarded client, with the simulator between it and the courier."""

    def __init__(self, callbacks: "Callbacks", **options: Any) -> None:
        super().__init__(**options)
        self._callbacks = callbacks
        callbacks.post = super().post

    async def post(
        self, url: str, *, content: bytes, headers: Mapping[str, str], allow: Collection[str] = ()
    ) -> Answer:
        """Deliver, or do with the callback what is armed for it."""
        letter = Letter(url, content, headers.get("webhook-id", ""), _task_of(content), allow)
        return await self._callbacks.deliver(letter, headers)


class Callbacks:
    """What happens to callbacks; `post` is the way out."""

    post: Post

    def __init__(self, program: Program, notebook: Notebook, clock: MovableClock) -> None:
        self._program = program
        self._notebook = notebook
        self._clock = clock
        self._ctx: Context | None = None
        self._late: list[tuple[datetime, Letter]] = []
        self._waiting: list[Letter] = []
        self._told: set[tuple[str, str]] = set()

    def attach(self, ctx: Context) -> None:
        """Work for the use cases of `ctx`."""
        self._ctx = ctx

    def clear(self) -> None:
        """Let go of what is held back; it is never sent."""
        self._late.clear()
        self._waiting.clear()

    async def deliver(self, letter: Letter, headers: Mapping[str, str]) -> Answer:
        """Send a genuine callback, or do with it what is armed.

        Raises:
            DestinationRefused, DeliveryFailed: As the guarded client does.
        """
        armed = await self._armed(letter)
        match None if armed is None else armed.act.name:
            case "callback-lost":
                return _HELD
            case "callback-late" if armed is not None:
                self._late.append((self._clock() + timedelta(seconds=armed.act.after), letter))
                return _HELD
            case "callback-out-of-order":
                self._waiting.append(letter)
                return _HELD
            case "callback-twice":
                await self._send(letter, headers, fault="callback-twice")
        answer = await self._send(letter, headers, fault=None if armed is None else armed.act.name)
        overtaken = [held for held in self._waiting if held.url == letter.url]
        self._waiting = [held for held in self._waiting if held.url != letter.url]
        for held in overtaken:
            await self._resend(held, fault="callback-out-of-order")
        return answer

    async def send_late(self) -> datetime | None:
        """Send the late ones whose time has come; when the next one's will."""
        due = [letter for at, letter in self._late if at <= self._clock()]
        self._late = [(at, letter) for at, letter in self._late if letter not in due]
        for letter in due:
            await self._resend(letter, fault="callback-late")
        return min((at for at, _ in self._late), default=None)

    async def mislead(self, found: Collection[OpenTask]) -> datetime | None:
        """Send what nobody should believe about these open tasks, each once; always None, for nothing is put off."""
        still_open = {task.id for task in found}
        self._told = {(task_id, name) for task_id, name in self._told if task_id in still_open}
        for task in found:
            for name in BEFORE:
                if (task.id, name) in self._told:
                    continue
                if self._program.choose(Occasion(task.id, task.template, task.id), Group.CALLBACK, names=(name,)):
                    self._told.add((task.id, name))
                    await self._lie(task.id, name)
        return None

    async def _armed(self, letter: Letter) -> Armed | None:
        ctx = self._ctx
        if ctx is None or not letter.task:
            return None
        task = await ctx.database.read(lambda session: tasks.find_task(session, letter.task))
        if task is None:
            return None
        return self._program.choose(
            Occasion(task.id, task.template_id, letter.id or letter.task), Group.CALLBACK, names=AT_DELIVERY
        )

    async def _resend(self, letter: Letter, *, fault: str) -> None:
        configured = self._configured(letter.url)
        if configured is not None:
            headers = _proof(letter.content, letter.id, configured, at=self._clock())
            await self._attempt(letter, headers, fault=fault)

    async def _lie(self, task_id: str, name: str) -> None:
        ctx = self._ctx
        if ctx is None:
            return
        lie = await ctx.database.read(partial(_lie_about, ctx, task_id=task_id, misleads=name == "callback-misleading"))
        configured = None if lie is None else ctx.settings.callbacks.get(lie.client)
        if lie is None or configured is None or lie.url not in configured.endpoints:
            return
        content = json.dumps(lie.body, separators=(",", ":")).encode()
        letter = Letter(lie.url, content, ctx.new_id("msg"), task_id, configured.allow_destinations)
        headers = _proof(
            content, letter.id, configured, at=self._clock() - (_STALE if name.endswith("stale") else _NOW)
        )
        if name == "callback-forged":
            headers |= _without_proof(headers)
        elif name == "callback-wrong-key":
            headers = _signed_by_a_stranger(content, letter.id, at=self._clock())
        await self._attempt(letter, headers, fault=name)

    async def _attempt(self, letter: Letter, headers: Mapping[str, str], *, fault: str) -> None:
        try:
            await self._send(letter, headers, fault=fault)
        except (DestinationRefused, DeliveryFailed):
            return  # noted; a rehearsed callback is not tried again

    async def _send(self, letter: Letter, headers: Mapping[str, str], *, fault: str | None) -> Answer:
        started, status = self._clock.real(), None
        try:
            answer = await self.post(letter.url, content=letter.content, headers=headers, allow=letter.allow)
            status = answer.status
            return answer
        finally:
            self._notebook.note(
                what="callback",
                at=started,
                answered_at=self._clock.real(),
                status=status,
                task=letter.task,
                fault=fault,
            )

    def _configured(self, url: str) -> CallbackSettings | None:
        if self._ctx is None:
            return None
        return next((each for each in self._ctx.settings.callbacks.values() if url in each.endpoints), None)


_NOW: Final = timedelta()


def _lie_about(ctx: Context, session: Session, *, task_id: str, misleads: bool) -> Lie | None:
    task = tasks.find_task(session, task_id)
    if task is None or task.callback_endpoint is None:
        return None
    handle = task_handle(task, ctx.settings) | {"status": "approved"}
    handle.pop("links", None)
    if misleads:
        handle["status_endpoint"] = ctx.settings.identifier + DECOY_PATH + task.id
    body: dict[str, Any] = {"task": handle}
    if task.callback_state_sealed is not None:
        body["state"] = task_seal(task, ctx.ring).open("callback_state_sealed", task.callback_state_sealed)
    return Lie(task.callback_endpoint, task.client_id, body)


def _proof(content: bytes, webhook_id: str, configured: CallbackSettings, *, at: datetime) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": "arap-courier"}
    if configured.keys:
        headers |= sign(content, webhook_id=webhook_id, at=at, keys=configured.signing_keys)
    if configured.bearer is not None:
        headers["Authorization"] = f"Bearer {configured.bearer.get_secret_value()}"
    return headers


def _without_proof(headers: Mapping[str, str]) -> dict[str, str]:
    nothing = "v1," + base64.b64encode(bytes(32)).decode()
    made_up = {"webhook-signature": nothing, "Authorization": "Bearer made-up"}
    return {name: value for name, value in made_up.items() if name in headers}


def _signed_by_a_stranger(content: bytes, webhook_id: str, *, at: datetime) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": "arap-courier"}
    headers |= sign(content, webhook_id=webhook_id, at=at, keys=[secrets.token_bytes(32)])
    return {**headers, "Authorization": f"Bearer {secrets.token_urlsafe(32)}"}


def _task_of(content: bytes) -> str:
    try:
        return str(json.loads(content)["task"]["id"])
    except (ValueError, KeyError, TypeError):
        return ""

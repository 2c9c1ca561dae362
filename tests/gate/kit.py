"""A whole gate core on a real database with a foreign backend, a counting tool, and a clock that the test moves."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from arap_service.protocol.sealing import KeyRing
from mcp_gate.creation import Answer, TaskCreated
from mcp_gate.engine import Engine
from mcp_gate.execution import Executed, Outcome, ToolCall
from mcp_gate.lifecycle import GateTask, Phase
from mcp_gate.limits import Limits
from mcp_gate.mapping import CallBinding, Principal, map_call
from mcp_gate.records import StoredTask
from mcp_gate.store import TaskStore
from mcp_gate.texts import Wording
from tests.clock import FakeClock
from tests.gate.foreign_backend import ForeignBackend

ALICE = Principal("https://issuer.example", "alice", "desktop", "desktop")
BOB = Principal("https://issuer.example", "bob", "desktop", "desktop")
TRANSFER = {"to": "acct-991", "amount": 50_000}
FINGERPRINT = "as-it-was"
RING = KeyRing({"k1": bytes(range(32))}, "k1")


class Killed(BaseException):
    """The process ended here: nothing that follows is written."""


@dataclass
class Tool:
    """Stands for the executor: counts what it was asked to run, and answers as it is told."""

    calls: list[ToolCall] = field(default_factory=list)
    answer: Outcome = field(
        default_factory=lambda: Executed({"content": [{"type": "text", "text": "Transferred."}]}, is_error=False)
    )
    during: Callable[[], Any] = lambda: None

    async def __call__(self, call: ToolCall) -> Outcome:
        self.calls.append(call)
        done = self.during()
        if done is not None:
            await done
        return self.answer


@dataclass
class Kit:
    """One process with a gate in it. `crash_at` names the checkpoint at which the process dies."""

    url: str
    clock: FakeClock
    backend: ForeignBackend
    tool: Tool = field(default_factory=Tool)
    limits: Limits = field(default_factory=Limits)
    wording: Wording = field(default_factory=Wording)
    instance: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    crash_at: str | None = None
    fingerprint: str | None = FINGERPRINT
    passed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = TaskStore.open(self.url, RING)
        self.engine = Engine(
            self.store,
            self.backend,
            self.tool,
            fingerprint_of=self._fingerprint_of,
            clock=self.clock,
            new_id=_new_id,
            checkpoint=self._checkpoint,
            limits=self.limits,
            wording=self.wording,
            jitter=lambda: 0.0,
            instance=self.instance,
            **self.options,
        )

    async def _fingerprint_of(self, _tool: str) -> str | None:
        return self.fingerprint

    def _checkpoint(self, name: str) -> None:
        self.passed.append(name)
        if name == self.crash_at:
            vars(self.store.database)["_write"] = _dead
            raise Killed(name)

    async def aclose(self) -> None:
        """End the process; the operating system lets its lock go."""
        if (mark := self.engine._liveness._mark) is not None:
            mark.close()
        await self.store.aclose()

    async def restarted(self, **changes: Any) -> "Kit":
        """The process that comes after this one, on the same database and with the same backend and tool."""
        await self.aclose()
        settings: dict[str, Any] = {
            "url": self.url,
            "clock": self.clock,
            "backend": self.backend,
            "tool": self.tool,
            "limits": self.limits,
            "wording": self.wording,
            "instance": self.instance,
            "options": self.options,
        }
        return Kit(**(settings | changes))

    async def call(
        self, arguments: Mapping[str, Any] = TRANSFER, *, principal: Principal = ALICE, tasks: bool = True
    ) -> Answer:
        """A client's call."""
        bound = binding(arguments, principal=principal)
        return await self.engine.call(bound, tasks=tasks, tool_fingerprint=FINGERPRINT)

    async def open(self, arguments: Mapping[str, Any] = TRANSFER, *, principal: Principal = ALICE) -> str:
        """A client's call that becomes a task; its id."""
        created = await self.call(arguments, principal=principal)
        assert isinstance(created, TaskCreated), created
        return created.task_id

    async def step(self, task_id: str) -> None:
        """A step as a callback would ask for it."""
        await self.engine.step(task_id, hurried=True)

    async def get(self, task_id: str, principal: Principal = ALICE) -> dict[str, Any]:
        """What the client sees."""
        return await self.engine.get(task_id, principal)

    async def stored(self, task_id: str) -> StoredTask:
        """What the database holds."""
        stored = await self.store.load(task_id)
        assert stored is not None
        return stored

    async def task(self, task_id: str) -> GateTask:
        """The machine's fields."""
        return (await self.stored(task_id)).task

    async def phase(self, task_id: str) -> Phase:
        """Where the task stands."""
        return (await self.task(task_id)).phase

    async def audit(self, task_id: str) -> list[str]:
        """The kinds of the audit lines."""
        return [line.kind for line in await self.engine._core.duty.audit(task_id)]


def _dead(*_: object) -> NoReturn:
    raise Killed("a dead process writes nothing")


_numbers = itertools.count(1)


def _new_id(prefix: str) -> str:
    return f"{prefix}_{next(_numbers):08d}"


def binding(arguments: Mapping[str, Any] = TRANSFER, *, principal: Principal = ALICE, **more: Any) -> CallBinding:
    """A call of `wire_transfer`, mapped by default."""
    return map_call(
        more.pop("mapping", None),
        server="treasury",
        tool="wire_transfer",
        title="Wire transfer",
        arguments=arguments,
        token_claims={"iss": principal.iss, "sub": principal.sub, "client_id": principal.client_id},
        principal=principal,
        **more,
    )

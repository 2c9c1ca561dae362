"""The hand-written gate as a subject of the suite: in memory for the many, over HTTP and stdio for the correct one."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_gate.conformance.control import Control, Hands
from mcp_gate.conformance.transports import NoAnswer, Reply, Restarter, Transport
from tests.sep2848.plain_gate import Json, PlainGate

TRANSFER: Json = {"to": "acct-1", "amount": 7, "memo": "{marker}", "owner": "ada"}
CALLS: Json = {
    "gated": {"tool": "transfer", "arguments": TRANSFER},
    "permitted": {"tool": "free"},
    "denied": {"tool": "forbidden", "arguments": {"memo": "{marker}"}},
    "failing": {"tool": "fails", "arguments": TRANSFER},
    "lost": {"tool": "vanishes", "arguments": TRANSFER},
    "before": {"tool": "asks", "arguments": TRANSFER},
    "changed_tool": {"tool": "payout", "arguments": TRANSFER},
    "changed_arguments": {"tool": "transfer", "arguments": TRANSFER | {"amount": 8}},
    "changed_subject": {"tool": "transfer", "arguments": TRANSFER | {"owner": "bob"}},
    "changed_resource": {"tool": "transfer", "arguments": TRANSFER | {"to": "acct-2"}},
}
VERBS = ("approve", "deny", "expire", "ask", "revoke", "fail", "restart", "count")
QUICK: Json = {"request": 5, "verb": 5, "end": 0.4, "poll": 0.02, "settle": 0.03, "check": 10}


def control(**changes: Any) -> Control:
    """The control file of the hand-written gate; its verbs are carried out in memory."""
    document: Json = {
        "calls": CALLS,
        "verbs": {verb: {"run": ["nothing"]} for verb in VERBS},
        "hidden": {"artifacts": ["binding-7f3a"], "people": ["Carol"]},
        "seconds": QUICK,
    }
    return Control.model_validate(document | changes)


class PlainHands(Hands):
    """Does to the gate what commands would do."""

    def __init__(self, gate: PlainGate, given: Control) -> None:
        super().__init__(given, Path())
        self._gate = gate

    async def do(self, verb: str, **named: str) -> str:
        if verb == "restart":
            self._gate.restart()
            return ""
        return str(getattr(self._gate, verb)(named["marker"]))


@dataclass(frozen=True, slots=True)
class PlainTransport:
    """One principal's way to the gate, in memory; what is no JSON would not pass."""

    gate: PlainGate
    principal: str

    async def ask(self, message: Json, *, headers: Mapping[str, str], seconds: float) -> Reply:
        del headers, seconds
        sent = await self.gate.answer(json.loads(json.dumps(message)), principal=self.principal)
        *before, answer = json.loads(json.dumps(sent))
        return Reply(answer, tuple(before), 200, self.gate.headers())

    async def tell(self, message: Json, *, headers: Mapping[str, str], seconds: float) -> None:
        del headers, seconds
        await self.gate.answer(json.loads(json.dumps(message)), principal=self.principal)

    async def restart(self, by: Restarter | None) -> bool | None:
        if by is None:
            return None
        before = self.gate.restarts
        await by()
        return self.gate.restarts > before


@dataclass(frozen=True, slots=True)
class PlainSubject:
    """The gate in memory; the token is the principal's name."""

    gate: PlainGate
    target: str = "a gate in raw dicts"
    transport: str = "memory"
    has_principals: bool = True

    def open(self, token: str | None) -> AbstractAsyncContextManager[Transport]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Transport]:
            if token is None:
                raise NoAnswer("nobody calls without a name")
            yield PlainTransport(self.gate, token)

        return opened()

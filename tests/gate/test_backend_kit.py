"""The kit for backends: the local one passes every check, and each kind of broken one fails the check meant for it."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from mcp_gate.backend import Accepted, BackendStatus, Denial, Handle, Permit, Refused
from mcp_gate.backend_kit import CHECKS, Check, CheckFailed
from mcp_gate.database import Database
from mcp_gate.local.backend import LocalBackend
from tests.clock import FakeClock
from tests.gate.local.desk import LocalDesk, question

pytestmark = pytest.mark.anyio


@pytest.fixture
async def desk(gate_url: str, clock: FakeClock) -> AsyncIterator[LocalDesk]:
    database = Database.open(gate_url)
    yield LocalDesk(database, clock)
    await database.aclose()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
async def test_the_local_backend_keeps_every_duty(check: Check, desk: LocalDesk) -> None:
    await check.run(desk)


class DeniesAll(LocalBackend):
    async def evaluate(self, asked: Mapping[str, Any], *, approval: Any = None) -> Permit | Denial:
        decision = await super().evaluate(asked, approval=approval)
        return Denial("no") if isinstance(decision, Permit) and approval is None else decision


class OffersAlways(LocalBackend):
    async def evaluate(self, asked: Mapping[str, Any], *, approval: Any = None) -> Permit | Denial:
        decision = await super().evaluate(asked, approval=approval)
        if isinstance(decision, Denial) and approval is None:
            return replace(decision, next_action="request", access_request={"template": "any"})
        return decision


class BornApproved(LocalBackend):
    async def status(self, handle: Handle) -> BackendStatus:
        found = await super().status(handle)
        return replace(found, approval={"id": handle.task_id}) if found.status == "pending" else found


class Restless(LocalBackend):
    drawn = 0

    def submission_body(
        self,
        question: Mapping[str, Any],
        denial: Denial,
        *,
        requested_access: Any = None,
        callback_state: Any = None,
    ) -> bytes:
        self.drawn += 1
        return super().submission_body(question, denial) + b" " * self.drawn


class ForgetsKeys(LocalBackend):
    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        again = await super().submit(body, key=key)
        if isinstance(again, Accepted) and again.status.status == "denied":
            return await super().submit(body, key=key + "-2")
        return again


class TrustsKeys(LocalBackend):
    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        answer = await super().submit(body, key=key)
        return await super().submit(body, key=key + "-2") if isinstance(answer, Refused) else answer


class Unenforceable(LocalBackend):
    async def status(self, handle: Handle) -> BackendStatus:
        return replace(await super().status(handle), mode=None)


class Transferable(LocalBackend):
    async def evaluate(self, asked: Mapping[str, Any], *, approval: Any = None) -> Permit | Denial:
        if approval is not None and asked == question("wire", amount=2):
            return await super().evaluate(question("wire", amount=1), approval=approval)
        return await super().evaluate(asked, approval=approval)


class Overriding(LocalBackend):
    async def evaluate(self, asked: Mapping[str, Any], *, approval: Any = None) -> Permit | Denial:
        if approval is not None and asked == question("drop_ledger"):
            return Permit()
        return await super().evaluate(asked, approval=approval)


class Gullible(LocalBackend):
    async def evaluate(self, asked: Mapping[str, Any], *, approval: Any = None) -> Permit | Denial:
        if approval is not None and await self._find(str(approval.get("id"))) is None:
            return Permit()
        return await super().evaluate(asked, approval=approval)


class Silent(LocalBackend):
    async def status(self, handle: Handle) -> BackendStatus:
        found = await super().status(handle)
        return replace(found, status="pending") if found.status == "denied" else found


class KeepsCancelled(LocalBackend):
    async def cancel(self, handle: Handle) -> None:
        del handle


class Endless(LocalBackend):
    async def evaluate(self, asked: Mapping[str, Any], *, approval: Any = None) -> Permit | Denial:
        decision = await super().evaluate(asked, approval=approval)
        is_over = isinstance(decision, Denial) and decision.reason == "approval_expired"
        return Permit() if is_over else decision


class NeverExpires(LocalBackend):
    async def status(self, handle: Handle) -> BackendStatus:
        found = await super().status(handle)
        return replace(found, status="pending") if found.status == "expired" else found


class InMemory(LocalBackend):
    """Knows only what it has stored itself."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._mine: set[str] = set()

    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        answer = await super().submit(body, key=key)
        if isinstance(answer, Accepted):
            self._mine.add(answer.handle.task_id)
        return answer

    async def status(self, handle: Handle) -> BackendStatus:
        return await super().status(handle) if handle.task_id in self._mine else BackendStatus("gone", gone=True)


class Imagines(LocalBackend):
    async def status(self, handle: Handle) -> BackendStatus:
        found = await super().status(handle)
        return BackendStatus("approved", approval={"id": "x"}) if found.gone else found


class UndoneByReports(LocalBackend):
    async def report(self, handle: Handle, body: Mapping[str, Any]) -> None:
        del body
        await super().cancel(handle)


BROKEN = {
    "permits": DeniesAll,
    "denies": OffersAlways,
    "opens-pending": BornApproved,
    "body-is-pure": Restless,
    "repeats-are-one": ForgetsKeys,
    "keys-are-not-reused": TrustsKeys,
    "approves": Unenforceable,
    "approval-is-for-one-call": Transferable,
    "approval-is-an-input": Overriding,
    "invented-approval": Gullible,
    "denial-is-final": Silent,
    "cancelled-stays-cancelled": KeepsCancelled,
    "approval-ends": Endless,
    "requests-end": NeverExpires,
    "survives-a-restart": InMemory,
    "unknown-is-not-approved": Imagines,
    "reports-are-taken": UndoneByReports,
}


def test_there_is_a_broken_backend_for_every_check() -> None:
    assert list(BROKEN) == [check.name for check in CHECKS]


@pytest.mark.parametrize(("name", "broken"), BROKEN.items(), ids=BROKEN)
async def test_a_broken_backend_fails_the_check_that_is_meant_for_it(
    name: str, broken: type[LocalBackend], sqlite_url: str
) -> None:
    failed = []
    for check in CHECKS:
        database = Database.open(sqlite_url)
        desk = LocalDesk(database, FakeClock(), made=broken)
        await desk.forget_all()
        try:
            await check.run(desk)
        except CheckFailed:
            failed.append(check.name)
        finally:
            await database.aclose()
    assert failed == [name]

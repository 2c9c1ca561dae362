"""A local backend on a real database, with people who decide and tasks that requests are made for."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import insert

from arap_service.protocol.sealing import new_data_key
from mcp_gate.backend import ApprovalBackend, Handle
from mcp_gate.database import Database
from mcp_gate.lifecycle import Phase
from mcp_gate.local.backend import LocalBackend
from mcp_gate.local.deciding import NotDecided, Vote, decide
from mcp_gate.local.requests import LocalRequest
from mcp_gate.local.tables import local_request
from mcp_gate.mapping import CallBinding, Principal, map_call, questions
from mcp_gate.records import Vault, key_place
from mcp_gate.settings_local import Local
from mcp_gate.tables import submission, task
from tests.clock import FakeClock
from tests.gate.kit import ALICE, RING

SECRET = "correct horse battery staple"
LOCAL: dict[str, Any] = {
    "rules": [
        {"tools": ["read_*"], "decision": "permit"},
        {"tools": ["drop_*"], "decision": "deny"},
        {"tools": ["wire"], "decision": "request", "approvers": ["rita", "adele"]},
        {"methods": ["*/list"], "decision": "permit"},
    ],
    "approvers": {
        name: {"secret_hash": "sha256:" + hashlib.sha256(f"{SECRET} {name}".encode()).hexdigest(), "identities": known}
        for name, known in {"rita": [], "adele": ["alice"], "otto": []}.items()
    },
}


def local(**changes: Any) -> Local:
    """Rules and approvers."""
    return Local.model_validate(LOCAL | changes)


def question(tool: str, *, principal: Principal = ALICE, **arguments: Any) -> dict[str, Any]:
    """What the gate asks about a call."""
    return questions(bound_call(tool, principal=principal, **arguments))[0]


def bound_call(tool: str, *, principal: Principal = ALICE, **arguments: Any) -> CallBinding:
    """The call as the gate captures it."""
    return map_call(
        None,
        server="treasury",
        tool=tool,
        title=None,
        arguments=arguments,
        token_claims={"iss": principal.iss, "sub": principal.sub, "client_id": principal.client_id},
        principal=principal,
    )


def vote(approver: str = "rita", decision: Any = "approve", **more: Any) -> Vote:
    """A vote with the approver's own secret."""
    given: dict[str, Any] = {"secret": f"{SECRET} {approver}", "reason": "looked at it"}
    return Vote(approver, decision=decision, **(given | more))


@dataclass
class LocalDesk:
    """A `backend_kit.Subject`, and the means of a test; `asker` is whom new requests are made for."""

    database: Database
    clock: FakeClock
    local: Local = field(default_factory=local)
    asker: Principal = ALICE
    made: type[LocalBackend] = LocalBackend
    count: int = 0

    def __post_init__(self) -> None:
        self.backend: ApprovalBackend = self._open()

    def _open(self) -> LocalBackend:
        return self.made(self.local, self.database, RING, clock=self.clock, new_id=self._new_id)

    def _new_id(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.count}"

    # What the kit asks for ------------------------------------------------------------------------------------------

    def permitted(self) -> Mapping[str, Any]:
        return question("read_balance")

    def refused(self) -> Mapping[str, Any]:
        return question("drop_ledger")

    def requestable(self, number: int = 1) -> Mapping[str, Any]:
        return question("wire", amount=number)

    async def approve(self, handle: Handle) -> bool:
        await self.know_asker()
        try:
            await self.decide(handle.task_id, vote())
        except NotDecided:
            return False
        return True

    async def deny(self, handle: Handle) -> None:
        await self.know_asker()
        await self.decide(handle.task_id, vote(decision="deny"))

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def restarted(self) -> ApprovalBackend:
        return self._open()

    async def forget_all(self) -> None:
        """Empty the tables, for another round on the same database."""

        def work(connection: Any) -> None:
            for table in (submission, task, local_request):
                connection.execute(table.delete())

        await self.database.write(work)

    # What a test does -----------------------------------------------------------------------------------------------

    async def decide(self, request_id: str, given: Vote) -> LocalRequest:
        """One decision in one unit of work."""
        return await self.database.write(
            lambda connection: decide(connection, RING, self.local, request_id, vote=given, now=self.clock())
        )

    async def know_asker(self, key: str = "kit-key-1") -> None:
        """Store the task that the gate keeps beside the submission under `key`."""
        now, later = self.clock(), self.clock() + timedelta(hours=1)
        wrapped = new_data_key(RING, aad=key_place("tsk_1"))
        bound = bound_call("wire", principal=self.asker)
        sealed = Vault(RING, "tsk_1", wrapped).seal_json("gate_task.binding", bound.to_json())

        def work(connection: Any) -> None:
            connection.execute(submission.delete())
            connection.execute(task.delete())
            connection.execute(
                insert(task).values(
                    id="tsk_1",
                    version=1,
                    phase=Phase.PENDING,
                    generation=0,
                    announced=True,
                    attempts=0,
                    digest="d" * 64,
                    fingerprint="f" * 64,
                    server="treasury",
                    tool="wire",
                    iss=self.asker.iss,
                    sub=self.asker.sub,
                    client_id=self.asker.client_id,
                    agent=self.asker.agent,
                    data_key=wrapped,
                    binding=sealed,
                    created_at=now,
                    updated_at=now,
                    ttl_ms=1,
                    pending_deadline=later,
                    next_due=now,
                )
            )
            connection.execute(
                insert(submission).values(
                    task_id="tsk_1",
                    generation=0,
                    key=key,
                    state="sending",
                    body=b"b",
                    state_ref="s",
                    created_at=now,
                )
            )

        await self.database.write(work)

"""The local backend itself: rules decide, a request waits in the database, and a person's decision is read from there.

An approval counts for the very call that it was given for, and only while the rules of now still ask for one. Design
section 8; SEP-2848, "An approval backend".
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import JsonValue
from sqlalchemy.exc import IntegrityError

from arap_service.protocol.sealing import KeyRing, SealBroken
from mcp_gate.backend import (
    Accepted,
    BackendStatus,
    BackendUnavailable,
    DecisionPointUnavailable,
    Denial,
    Handle,
    Permit,
    Refused,
)
from mcp_gate.database import Database, StoreUnavailable
from mcp_gate.local.calls import asked_call
from mcp_gate.local.requests import (
    Deadlines,
    LocalRequest,
    cancel_request,
    find_request,
    forget_requests,
    insert_request,
    store_disposition,
)
from mcp_gate.local.tables import RequestStatus
from mcp_gate.reading import REEVALUATE
from mcp_gate.settings_local import Local

OTHER_BYTES: Final = "urn:x-arap:problem:duplicate-request"
APPROVAL_REQUIRED: Final = "approval_required"
_APPROVAL: Final = "approval"


class LocalBackend:
    """An `ApprovalBackend` over the gate's own database."""

    def __init__(
        self,
        local: Local,
        database: Database,
        ring: KeyRing,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[str], str],
    ) -> None:
        self._local = local
        self._database = database
        self._ring = ring
        self._clock = clock
        self._new_id = new_id

    async def evaluate(
        self, question: Mapping[str, JsonValue], *, approval: Mapping[str, JsonValue] | None = None
    ) -> Permit | Denial:
        """What the first matching rule says; where it asks for approval, `approval` must be one of this very call.

        Raises:
            DecisionPointUnavailable: An approval could not be looked up.
        """
        decision = judge(self._local, question)
        if approval is None or isinstance(decision, Permit) or not decision.requestable:
            return decision
        try:
            found = await self._find(str(approval.get("id")))
        except BackendUnavailable:
            raise DecisionPointUnavailable from None
        if (
            found is None
            or found.call_digest != asked_call(question).digest
            or found.status is not RequestStatus.APPROVED
        ):
            return Denial("approval_not_applicable")
        if found.approved_until is None or self._clock() >= found.approved_until:
            return Denial("approval_expired")
        return Permit(approved_until=found.approved_until)

    def submission_body(
        self,
        question: Mapping[str, JsonValue],
        denial: Denial,
        *,
        requested_access: Mapping[str, JsonValue] | None = None,
        callback_state: str | None = None,
    ) -> bytes:
        """The question as JSON; who decides here needs nothing else, and nobody is called back.

        Raises:
            ValueError: The denial is not requestable, or something is requested that cannot be granted here.
        """
        del callback_state
        if not denial.requestable or requested_access:
            raise ValueError("the local backend approves the call as it is, and nothing else")
        asked: dict[str, Any] = dict(question)
        asked["context"] = {name: value for name, value in asked.get("context", {}).items() if name != _APPROVAL}
        return json.dumps({"v": 1, "question": asked}, ensure_ascii=False, allow_nan=False).encode()

    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        """Stores the request under its key, once.

        Raises:
            BackendUnavailable: The database could not be used.
        """
        call = asked_call(json.loads(body)["question"])
        if call.digest is None:
            return Refused("urn:x-arap:problem:not-requestable", 400)
        now = self._clock()
        times = Deadlines(
            now,
            expires_at=now + timedelta(seconds=self._local.pending_seconds),
            keep_until=now + timedelta(seconds=self._local.retention_seconds),
        )
        request_id, call_digest = self._new_id("lreq"), call.digest

        def work(connection: Any) -> LocalRequest | None:
            stored = insert_request(
                connection, self._ring, body, key=key, request_id=request_id, call_digest=call_digest, times=times
            )
            return None if stored is None else find_request(connection, self._ring, stored)

        try:
            found = await self._database.write(work)
        except (StoreUnavailable, SealBroken, IntegrityError):  # the last: somebody stored it at the same moment
            raise BackendUnavailable from None
        if found is None:
            return Refused(OTHER_BYTES, 409)
        return Accepted(_handle(found), self._status(found))

    async def status(self, handle: Handle) -> BackendStatus:
        """What became of the request.

        Raises:
            BackendUnavailable: The database could not be used.
        """
        found = await self._find(handle.task_id)
        return BackendStatus("gone", gone=True) if found is None else self._status(found)

    async def cancel(self, handle: Handle) -> None:
        """Ends the request, an approval of it included.

        Raises:
            BackendUnavailable: The database could not be used.
        """
        await self._write(lambda connection: cancel_request(connection, handle.task_id))

    async def report(self, handle: Handle, body: Mapping[str, JsonValue]) -> None:
        """Keeps the disposition beside the decision.

        Raises:
            BackendUnavailable: The database could not be used.
        """
        disposition = str(body.get("disposition"))
        await self._write(lambda connection: store_disposition(connection, handle.task_id, disposition))

    async def answer(self, handle: Handle, version: int, answer: Mapping[str, JsonValue]) -> None:
        """Nothing is ever asked here, so there is nothing to answer."""

    async def forget(self) -> None:
        """Deletes requests that are past their retention; whoever runs the backend calls this now and then.

        Raises:
            BackendUnavailable: The database could not be used.
        """
        await self._write(lambda connection: forget_requests(connection, now=self._clock()))

    async def _find(self, request_id: str) -> LocalRequest | None:
        try:
            return await self._database.read(lambda connection: find_request(connection, self._ring, request_id))
        except (StoreUnavailable, SealBroken):
            raise BackendUnavailable from None

    async def _write(self, work: Callable[[Any], None]) -> None:
        try:
            await self._database.write(work)
        except StoreUnavailable:
            raise BackendUnavailable from None

    def _status(self, found: LocalRequest) -> BackendStatus:
        status = found.status_at(self._clock())
        approved = status is RequestStatus.APPROVED
        return BackendStatus(
            status=status.value,
            expires_at=found.expires_at,
            approval={"id": found.id} if approved else None,
            approved_until=found.approved_until if approved else None,
            mode=REEVALUATE if approved else None,
            decision_text=found.reason if status is RequestStatus.DENIED else None,
        )


def judge(local: Local, question: Mapping[str, Any]) -> Permit | Denial:
    """What the rules say of a question without an approval; nothing is looked up."""
    call = asked_call(question)
    rule = local.rule_for(call.tool, call.method)
    if rule is None or rule.decision == "deny":
        return Denial("not_permitted")
    if rule.decision == "permit":
        return Permit()
    if call.digest is None:
        return Denial("arguments_without_exact_form")
    context = {"reason": APPROVAL_REQUIRED}
    return Denial(APPROVAL_REQUIRED, "request", access_request={"template": "local"}, context=context)


def _handle(found: LocalRequest) -> Handle:
    place = f"local:{found.id}"
    return Handle(found.id, place, cancel_url=place, report_url=place, expires_at=found.expires_at)

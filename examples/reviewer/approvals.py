"""The approval backend of the reviewer's server: it asks the book, and says a canary wherever it says a text.

SEP-2848, "An approval backend". Everything that it hands to the gate and that must not reach a client has one of the
texts of `ARTIFACTS` in it, so that a leak is seen.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic import JsonValue

from examples.reviewer.book import Book
from mcp_gate.backend import Accepted, AnswerRefused, BackendStatus, Denial, Handle, InputQuestion, Permit, Refused

ARTIFACTS: Final = ("approvals.invalid", "artifact-of-the-backend")
APPROVER: Final = "Carol Example"
ENDPOINT: Final = "https://approvals.invalid/requests"
CANARY: Final = "artifact-of-the-backend"
LIFETIME: Final = timedelta(minutes=15)
LOOK_AGAIN_SECONDS: Final = 0.1
TICKET: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {"ticket": {"type": "string", "title": "Ticket"}},
    "required": ["ticket"],
}
FREE: Final = frozenset({"balance"})
FORBIDDEN: Final = frozenset({"close_bank"})
WANT_A_TICKET: Final = frozenset({"donate"})


class BookedApprovals:
    """An `ApprovalBackend` whose decisions are made by the control interface."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def evaluate(
        self, question: Mapping[str, JsonValue], *, approval: Mapping[str, JsonValue] | None = None
    ) -> Permit | Denial:
        """Permit what needs no approval, and what was approved as exactly this call, unless it was revoked since."""
        call = _call(question)
        tool = call.get("tool")
        if tool is None or tool in FREE:
            return Permit()
        if tool in FORBIDDEN or self._book.is_revoked(_marker(call)):
            return Denial("not_permitted")
        if approval is None:
            return self._requestable(str(tool))
        found = self._book.find(str(approval.get("id", "")).removeprefix(f"{CANARY}-"))
        if found is None or found[0] != "approved" or found[2] != _about(question):
            return Denial("not_approved")
        return Permit(approved_until=datetime.now(UTC) + LIFETIME)

    def _requestable(self, tool: str) -> Denial:
        schema: dict[str, JsonValue] | None = None
        if tool in WANT_A_TICKET:
            schema = {"type": "object", "properties": {"context": TICKET}, "required": ["context"]}
        access: dict[str, JsonValue] = {"endpoint": ENDPOINT, "binding_token": CANARY}
        context: dict[str, JsonValue] = {"evaluation_id": f"{CANARY}-evaluation", "access_request": access}
        return Denial("approval_required", "request", access_request=access, context=context, request_schema=schema)

    def submission_body(
        self,
        question: Mapping[str, JsonValue],
        denial: Denial,
        *,
        requested_access: Mapping[str, JsonValue] | None = None,
        callback_state: str | None = None,
    ) -> bytes:
        """The question, and the denial as it came; nobody is called back."""
        del callback_state
        body = {"question": question, "denial": denial.context, "requested_access": requested_access}
        return json.dumps(body).encode()

    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        """Open a request, or find the one that was opened under this key."""
        question = json.loads(body)["question"]
        request = self._book.submit(key, marker=_marker(_call(question)), asked_about=_about(question))
        where = f"{ENDPOINT}/{request}"
        handle = Handle(request, where, cancel_url=f"{where}/cancel", input_url=f"{where}/input", expires_at=_until())
        return Accepted(handle, self._status(request))

    async def status(self, handle: Handle) -> BackendStatus:
        """How far the request is."""
        return self._status(handle.task_id)

    async def cancel(self, handle: Handle) -> None:
        """End what is pending."""
        self._book.cancel(handle.task_id)

    async def report(self, handle: Handle, body: Mapping[str, JsonValue]) -> None:
        """Nobody waits for reports: the handle has no link for them."""
        del handle, body

    async def answer(self, handle: Handle, version: int, answer: Mapping[str, JsonValue]) -> None:
        """Take the answer to the question."""
        del version, answer
        if not self._book.answer(handle.task_id):
            raise AnswerRefused

    def _status(self, request: str) -> BackendStatus:
        found = self._book.find(request)
        if found is None:
            return BackendStatus("unknown", gone=True)
        state, asks, _ = found
        if state == "approved":
            approval: dict[str, JsonValue] = {"id": f"{CANARY}-{request}", "by": APPROVER}
            return BackendStatus(state, _until(), approval, _until(), "reevaluate")
        return BackendStatus(
            state,
            expires_at=_until(),
            retry_after=LOOK_AGAIN_SECONDS,
            input=InputQuestion("Which ticket is it?", TICKET, 1) if asks and state == "pending" else None,
            decision_text=f"{APPROVER} says no." if state == "denied" else None,
        )


def _until() -> datetime:
    return datetime.now(UTC) + LIFETIME


def _call(question: Mapping[str, Any]) -> Mapping[str, Any]:
    call = question.get("context", {}).get("urn:x-arap:tool_call", {})
    return call if isinstance(call, Mapping) else {}


def _marker(call: Mapping[str, Any]) -> str:
    arguments = call.get("arguments")
    return str(arguments.get("memo", "")) if isinstance(arguments, Mapping) else ""


def _about(question: Mapping[str, Any]) -> dict[str, Any]:
    """What an approval is of: everything that is asked, but for what was supplied with the request."""
    return {**{name: question.get(name) for name in ("subject", "action", "resource")}, "call": dict(_call(question))}

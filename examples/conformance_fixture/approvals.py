"""The approval backend of the fixture: it knows the suite's tools and decides as their names promise.

Everything is permitted but a few calls, whose approval takes its course by itself. It lives in memory and forgets
everything when it ends. What the suite calls a long computation is here a decision that takes that long, and what it
calls a protocol error is an approval service that fails. SEP-2848, "An approval backend".
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import JsonValue

from mcp_gate.backend import Accepted, AnswerRefused, BackendStatus, Denial, Handle, InputQuestion, Permit, Refused

ACCESS_ENDPOINT: Final = "https://approvals.invalid/requests"
LIFETIME: Final = timedelta(minutes=15)
LOOK_AGAIN_SECONDS: Final = 0.1
NAMED: Final[Mapping[str, JsonValue]] = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Your name"}},
    "required": ["name"],
}
CONFIRMED: Final[Mapping[str, JsonValue]] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Go on?"}},
    "required": ["confirm"],
}


@dataclass(frozen=True, slots=True)
class Course:
    """How an approval goes: what is asked before and while it waits, how it ends, and after how long at the least."""

    before: Mapping[str, JsonValue] | None = None
    questions: tuple[InputQuestion, ...] = ()
    ends_as: str = "approved"
    argument_of_seconds: str | None = None


COURSES: Final[Mapping[str, Course]] = {
    "slow_compute": Course(argument_of_seconds="seconds"),
    "failing_job": Course(),
    "denied_job": Course(ends_as="denied"),
    "protocol_error_job": Course(ends_as="failed"),
    "confirm_delete": Course(questions=(InputQuestion("Really delete this file?", CONFIRMED, 1),)),
    "multi_input": Course(
        questions=(InputQuestion("Who is asking?", NAMED, 1), InputQuestion("Start the job?", CONFIRMED, 2))
    ),
    "test_tool_with_task": Course(before=NAMED),
}


@dataclass(slots=True)
class Request:
    """One request for approval."""

    id: str
    tool: str
    ready_at: datetime
    supplied: Mapping[str, JsonValue]
    answers: dict[int, Mapping[str, JsonValue]] = field(default_factory=dict)
    is_cancelled: bool = False


class Approvals:
    """An `ApprovalBackend` without people: see `COURSES`."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._requests: dict[str, Request] = {}
        self._keys: dict[str, str] = {}

    async def evaluate(
        self, question: Mapping[str, JsonValue], *, approval: Mapping[str, JsonValue] | None = None
    ) -> Permit | Denial:
        """Permit what has no course, and what was approved for this very tool."""
        course = COURSES.get(_tool(question))
        if course is None:
            return Permit()
        if approval is not None:
            request = self._requests.get(str(approval.get("id")))
            is_approved = request is not None and self._status(request) == "approved"
            return Permit() if request and is_approved and request.tool == _tool(question) else Denial("not_approved")
        schema: dict[str, JsonValue] | None = None
        if course.before is not None:
            wanted: dict[str, JsonValue] = {"context": dict(course.before)}
            schema = {"type": "object", "properties": wanted, "required": ["context"]}
        access: dict[str, JsonValue] = {"endpoint": ACCESS_ENDPOINT}
        return Denial(
            "approval_required",
            "request",
            access_request=access,
            context={"reason": "approval_required", "access_request": access},
            request_schema=schema,
        )

    def submission_body(
        self,
        question: Mapping[str, JsonValue],
        denial: Denial,
        *,
        requested_access: Mapping[str, JsonValue] | None = None,
        callback_state: str | None = None,
    ) -> bytes:
        """The question, and the denial as it came; nobody is called back."""
        return json.dumps(
            {
                "question": question,
                "denial": denial.context,
                "requested_access": requested_access,
                "state": callback_state,
            }
        ).encode()

    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        """Open a request, or find the one that was opened under this key."""
        request = self._requests.get(self._keys.get(key, ""))
        if request is None:
            question = json.loads(body)["question"]
            request = Request(f"request-{len(self._requests) + 1}", _tool(question), self._ready(question), question)
            self._requests[request.id] = request
            self._keys[key] = request.id
        where = f"{ACCESS_ENDPOINT}/{request.id}"
        handle = Handle(
            task_id=request.id,
            status_endpoint=where,
            cancel_url=f"{where}/cancel",
            input_url=f"{where}/input",
            expires_at=request.ready_at + LIFETIME,
        )
        return Accepted(handle, self._answer(request))

    async def status(self, handle: Handle) -> BackendStatus:
        """How far the request is."""
        request = self._requests.get(handle.task_id)
        return BackendStatus("unknown", gone=True) if request is None else self._answer(request)

    async def cancel(self, handle: Handle) -> None:
        """Cancel what is still open."""
        request = self._requests.get(handle.task_id)
        if request is not None and self._status(request) == "pending":
            request.is_cancelled = True

    async def report(self, handle: Handle, body: Mapping[str, JsonValue]) -> None:
        """Nobody waits for reports: the handle has no link for them."""
        del handle, body

    async def answer(self, handle: Handle, version: int, answer: Mapping[str, JsonValue]) -> None:
        """Keep the answer to a question that is still open."""
        request = self._requests.get(handle.task_id)
        if request is None or version not in {asked.version for asked in self._open(request)}:
            raise AnswerRefused
        request.answers[version] = answer

    def named_for(self, tool: str) -> str:
        """Who is named on the newest approved request for a tool, for a tool that greets whom it runs for."""
        for request in reversed(self._requests.values()):
            if request.tool == tool and self._status(request) == "approved":
                context = request.supplied.get("context")
                name = context.get("name") if isinstance(context, dict) else None
                return name if isinstance(name, str) else "nobody"
        return "nobody"

    def _ready(self, question: Mapping[str, Any]) -> datetime:
        argument = COURSES[_tool(question)].argument_of_seconds
        asked = _arguments(question).get(argument, 0) if argument else 0
        return self._clock() + timedelta(seconds=asked if isinstance(asked, int | float) else 0)

    def _open(self, request: Request) -> tuple[InputQuestion, ...]:
        questions = COURSES[request.tool].questions
        return tuple(asked for asked in questions if asked.version not in request.answers)

    def _status(self, request: Request) -> str:
        if request.is_cancelled:
            return "cancelled"
        if self._open(request) or self._clock() < request.ready_at:
            return "pending"
        return COURSES[request.tool].ends_as

    def _answer(self, request: Request) -> BackendStatus:
        status = self._status(request)
        if status != "approved":
            first, *more = (*self._open(request), None) if status == "pending" else (None,)
            return BackendStatus(
                status,
                expires_at=request.ready_at + LIFETIME,
                retry_after=LOOK_AGAIN_SECONDS,
                input=first,
                more_input=tuple(asked for asked in more if asked is not None),
            )
        until = request.ready_at + LIFETIME
        return BackendStatus(
            status, expires_at=until, approval={"id": request.id}, approved_until=until, mode="reevaluate"
        )


def _tool(question: Mapping[str, Any]) -> str:
    return str(question["resource"].get("id"))


def _arguments(question: Mapping[str, Any]) -> Mapping[str, Any]:
    call = question.get("context", {}).get("urn:x-arap:tool_call", {})
    arguments = call.get("arguments") if isinstance(call, Mapping) else None
    return arguments if isinstance(arguments, Mapping) else {}

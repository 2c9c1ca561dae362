"""The approval backend as the gate sees it: what it answers and what it must guarantee.

Any policy decision point with any approval workflow behind it fits, when it keeps the duties written at each method.
The gate core knows nothing else of it. SEP-2848, "An approval backend"; "Example binding: AuthZEN ARAP".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol

from pydantic import JsonValue


class DecisionPointUnavailable(Exception):
    """The decision point couldn't be reached, or answered something that is no decision: not a permit (PEP-13)."""


class BackendUnavailable(Exception):
    """The approval backend didn't answer, or asked to come back: a time-out, 5xx or 429.

    `retry_after` is in seconds, when the backend named it.
    """

    def __init__(
        self, message: str = "the approval backend is unavailable", *, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class AnswerRefused(Exception):
    """The backend refused an answer for good, for example because it no longer waits for this version."""


@dataclass(frozen=True, slots=True)
class Permit:
    """The call may run; `approved_until` is the expiry that the decision itself names."""

    context: Mapping[str, JsonValue] = field(default_factory=dict)
    approved_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Denial:
    """The call may not run now.

    `next_action` is what the decision context amounts to (PEP-48); `access_request` is the requestable denial's member
    as received; `retry_after` is in seconds; `context` is the whole decision context, echoed by the backend's own
    `submission_body` and never shown to a client. `request_schema` is the JSON Schema of the members `context` and
    `requested_access` of a submission, when the backend publishes one.
    """

    reason: str | None = None
    next_action: Literal["request", "retry", "none"] = "none"
    retry_after: float | None = None
    access_request: Mapping[str, JsonValue] | None = None
    context: Mapping[str, JsonValue] = field(default_factory=dict)
    request_schema: Mapping[str, JsonValue] | None = None

    @property
    def requestable(self) -> bool:
        """Whether an approval request may be submitted for this denial."""
        return self.next_action == "request" and self.access_request is not None


@dataclass(frozen=True, slots=True)
class Supplied:
    """What somebody supplied for a submission beyond the call itself."""

    context: Mapping[str, JsonValue] = field(default_factory=dict)
    requested_access: Mapping[str, JsonValue] = field(default_factory=dict)

    def to_json(self) -> dict[str, JsonValue]:
        """As JSON, for the sealed column."""
        return {"context": dict(self.context), "requested_access": dict(self.requested_access)}


NOTHING: Final = Supplied()


@dataclass(frozen=True, slots=True)
class Handle:
    """What finds one request at the backend again, after any restart. Stored sealed, never shown to a client."""

    task_id: str
    status_endpoint: str
    cancel_url: str | None = None
    report_url: str | None = None
    expires_at: datetime | None = None
    input_url: str | None = None


@dataclass(frozen=True, slots=True)
class InputQuestion:
    """What the backend wants to know before it goes on: a message, a JSON Schema, and the question's version."""

    message: str
    schema: Mapping[str, JsonValue]
    version: int


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """What the status source says of one request.

    `status` is the backend's word; words that the gate doesn't know mean "not approved" (PEP-42). `mode` is how an
    approval is to be used; `gone` is set when the source no longer knows the request. `more_input` are questions that
    are open beside `input`, each of a version of its own; a client may answer them one by one. `handle` is the handle
    with the links that this answer added, when it added any. `decision_text` is untrusted text of the decider, and
    `proposed_arguments` are as untrusted: what he would rather see the tool called with.
    """

    status: str
    expires_at: datetime | None = None
    approval: Mapping[str, JsonValue] | None = None
    approved_until: datetime | None = None
    mode: str | None = None
    retry_after: float | None = None
    gone: bool = False
    input: InputQuestion | None = None
    decision_text: str | None = None
    proposed_arguments: Mapping[str, JsonValue] | None = None
    handle: Handle | None = None
    more_input: tuple[InputQuestion, ...] = ()

    @property
    def questions(self) -> tuple[InputQuestion, ...]:
        """Every question that is open at the backend."""
        return self.more_input if self.input is None else (self.input, *self.more_input)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The submission was accepted, now or by an earlier attempt under the same key."""

    handle: Handle
    status: BackendStatus


@dataclass(frozen=True, slots=True)
class Refused:
    """The submission was refused for good: a 4xx other than 429. `problem_type` is the problem's URI."""

    problem_type: str
    status: int


class ApprovalBackend(Protocol):
    """Decides calls and brokers approvals. No method shows a token, body or handle in a log or an error."""

    async def evaluate(
        self, question: Mapping[str, JsonValue], *, approval: Mapping[str, JsonValue] | None = None
    ) -> Permit | Denial:
        """A fresh decision, with `approval` as an input exactly as the backend returned it.

        Duties: JSON true alone permits; nothing of an earlier decision is cached.

        Raises:
            DecisionPointUnavailable: No decision was obtained.
        """
        ...

    def submission_body(
        self,
        question: Mapping[str, JsonValue],
        denial: Denial,
        *,
        requested_access: Mapping[str, JsonValue] | None = None,
        callback_state: str | None = None,
    ) -> bytes:
        """The bytes to submit for `denial`. Pure, so that the gate can store them before anything is sent.

        Duties: every denial member is echoed as received.

        Raises:
            ValueError: What the denial demands can't be supplied; nothing may be submitted.
        """
        ...

    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        """Submits `body` under `key`.

        Duties: a repeat of the key with these bytes is the same request and returns the same handle, for as long as
        the gate reconciles.

        Raises:
            BackendUnavailable: It is unknown whether the request was accepted.
        """
        ...

    async def status(self, handle: Handle) -> BackendStatus:
        """What the status source of `handle` says now.

        Raises:
            BackendUnavailable: The source couldn't be read.
        """
        ...

    async def cancel(self, handle: Handle) -> None:
        """Cancels the request where the backend can; without a cancel link there is nothing to do.

        Raises:
            BackendUnavailable: To be tried again.
        """
        ...

    async def report(self, handle: Handle, body: Mapping[str, JsonValue]) -> None:
        """Reports what became of the approval; without a report link there is nothing to do.

        Raises:
            BackendUnavailable: To be tried again.
        """
        ...

    async def answer(self, handle: Handle, version: int, answer: Mapping[str, JsonValue]) -> None:
        """Answers the backend's question of `version`.

        Raises:
            BackendUnavailable: To be tried again.
            AnswerRefused: Not to be tried again; when the question is still open, the client is asked once more.
        """
        ...

"""Shapes and names of the AuthZEN access request and approval profile.

Decides whether a value has the profile's shape, what a denied re-evaluation asks of an enforcement point, and what a
timestamp means. It verifies no binding and no signature. URLs are kept as text: which schemes and hosts are
acceptable is the caller's decision.
Sources: access request profile (draft of 2026-08-21), RFC 9457, RFC 3339.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from arap_service.protocol.authzen import Action, InvalidShape, Resource, Subject, Wire, parse
from arap_service.protocol.canonical import Tuple4

CAPABILITY: Final = "urn:openid:authzen:capability:access-request"
"""Listed in the metadata of a decision point whose denials can be requestable (PDP-30)."""

LINK_INPUT: Final = "urn:x-arap:input"
"""Link of a pending task: GET tells what a reviewer asks, POST answers."""

LINK_REPORT: Final = "urn:x-arap:report"
"""Member of a result: where the gate reports what became of the approved call."""

DISPLAY_DECISION: Final = "urn:x-arap:decision"
"""Member of a denied task's `display`: reason and proposed arguments."""

REEVALUATE: Final = "reevaluate"
"""The one `result.mode` that this profile defines; any other is not an approval (PEP-42)."""


class TaskStatus(StrEnum):
    """The statuses that the profile defines; a receiver takes any other for "not approved" (PEP-42)."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"
    PARTIAL = "partial"


TERMINAL: Final = frozenset(TaskStatus) - {TaskStatus.PENDING}
"""Statuses that never change again."""


class ProblemType(StrEnum):
    """`type` of a problem: the profile's seven, then ours for faults that it names no type for (ARS-03, ARS-04)."""

    NOT_REQUESTABLE = "urn:openid:authzen:access-request:error:not_requestable"
    EXPIRED_DENIAL = "urn:openid:authzen:access-request:error:expired_denial"
    INVALID_DENIAL_BINDING = "urn:openid:authzen:access-request:error:invalid_denial_binding"
    DUPLICATE_REQUEST = "urn:openid:authzen:access-request:error:duplicate_request"
    UNKNOWN_TASK = "urn:openid:authzen:access-request:error:unknown_task"
    TASK_EXPIRED = "urn:openid:authzen:access-request:error:task_expired"
    INVALID_TASK_STATE = "urn:openid:authzen:access-request:error:invalid_task_state"
    INVALID_REQUEST = "urn:x-arap:problem:invalid-request"
    NOT_FOUND = "urn:x-arap:problem:not-found"
    UNAUTHENTICATED = "urn:x-arap:problem:unauthenticated"
    FORBIDDEN = "urn:x-arap:problem:forbidden"
    ACTOR_UNVERIFIED = "urn:x-arap:problem:actor-unverified"
    INPUT_INVALID = "urn:x-arap:problem:input-invalid"
    CATALOG_VALUE_REJECTED = "urn:x-arap:problem:catalog-value-rejected"
    CALLBACK_REJECTED = "urn:x-arap:problem:callback-rejected"
    BULK_UNSUPPORTED = "urn:x-arap:problem:bulk-unsupported"
    PAYLOAD_TOO_LARGE = "urn:x-arap:problem:payload-too-large"
    RATE_LIMITED = "urn:x-arap:problem:rate-limited"
    INELIGIBLE_APPROVER = "urn:x-arap:problem:ineligible-approver"
    STALE_VERSION = "urn:x-arap:problem:stale-version"
    SEARCH_UNSUPPORTED = "urn:x-arap:problem:search-unsupported"
    UPSTREAM_UNAVAILABLE = "urn:x-arap:problem:upstream-unavailable"

    @property
    def status(self) -> int:
        """The HTTP status that goes with the type."""
        return _HTTP_STATUS[self]


_HTTP_STATUS: Final[Mapping[ProblemType, int]] = {
    ProblemType.NOT_REQUESTABLE: 400,
    ProblemType.EXPIRED_DENIAL: 410,
    ProblemType.INVALID_DENIAL_BINDING: 400,
    ProblemType.DUPLICATE_REQUEST: 409,
    ProblemType.UNKNOWN_TASK: 404,
    ProblemType.TASK_EXPIRED: 410,
    ProblemType.INVALID_TASK_STATE: 409,
    ProblemType.INVALID_REQUEST: 400,
    ProblemType.NOT_FOUND: 404,
    ProblemType.UNAUTHENTICATED: 401,
    ProblemType.FORBIDDEN: 403,
    ProblemType.ACTOR_UNVERIFIED: 403,
    ProblemType.INPUT_INVALID: 422,
    ProblemType.CATALOG_VALUE_REJECTED: 422,
    ProblemType.CALLBACK_REJECTED: 400,
    ProblemType.BULK_UNSUPPORTED: 400,
    ProblemType.PAYLOAD_TOO_LARGE: 413,
    ProblemType.RATE_LIMITED: 429,
    ProblemType.INELIGIBLE_APPROVER: 403,
    ProblemType.SEARCH_UNSUPPORTED: 501,
    ProblemType.UPSTREAM_UNAVAILABLE: 503,
    ProblemType.STALE_VERSION: 409,
}

_INSTANT: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):([0-5]\d))", re.ASCII
)


def parse_instant(text: str) -> datetime:
    """The instant of an RFC 3339 timestamp, in UTC; digits beyond the microsecond are cut off.

    A leap second is refused: no clock here can reach it, and a deadline that nobody can compare protects nothing.

    Raises:
        ValueError: when the text is not a timestamp with an offset; the message doesn't repeat it.
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise ValueError("not an RFC 3339 timestamp")
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    try:
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        local = datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second),
            int((fraction or "0").ljust(6, "0")[:6]), tzinfo=timezone(-offset if sign == "-" else offset),
        )  # fmt: skip
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("not a moment that exists") from None


def format_instant(moment: datetime) -> str:
    """The RFC 3339 text of an instant, in UTC with `Z`; a fraction appears only when there is one.

    Raises:
        ValueError: for a datetime without a zone.
    """
    if moment.tzinfo is None:
        raise ValueError("a moment needs a zone")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _timestamp(text: str) -> str:
    parse_instant(text)
    return text


Timestamp = Annotated[str, AfterValidator(_timestamp)]
"""RFC 3339 text, kept as it was spelt because it must be echoed unchanged."""


class AccessRequestInfo(Wire):
    """`context.access_request` of a denial: what makes it requestable (PDP-38, PDP-39)."""

    expires_at: Timestamp
    endpoint: str | None = None
    template: str | None = None
    binding_token: str | None = None
    form_url: str | None = None
    request_schema_url: str | None = None
    request_catalogs_url: str | None = None
    display: dict[str, Any] = Field(default_factory=dict)


class Denial(Wire):
    """The denial that a submission rests on, as echoed by the enforcement point."""

    expires_at: Timestamp
    evaluation_id: str | None = None
    evaluated_at: str | None = None
    reason: str | None = None
    binding_token: str | None = None
    template: str | None = None

    @property
    def deadline(self) -> datetime:
        """`expires_at` as an instant."""
        return parse_instant(self.expires_at)


class Callback(Wire):
    """Where and about what the requester wants to be notified; no `events` means all of them (ARS-92)."""

    endpoint: str
    state: Any = None
    events: list[str] | None = None


class Actor(Wire):
    """The immediate actor as the submission claims it; unverified until a token proves it (ARS-101)."""

    id: str
    issuer: str | None = None
    type: str | None = None
    act: dict[str, Any] | None = None


class Client(Wire):
    """The calling application as it describes itself: labels, never identities (ARS-104)."""

    id: str | None = None
    name: str | None = None
    actor: Actor | None = None
    source: dict[str, Any] = Field(default_factory=dict)


class RequestedAccess(Wire):
    """What the requester would like; it routes and hints, and never defines what is approved (ARS-107)."""

    requested_until: str | None = None
    emergency: bool = False


class SubmissionItem(Wire):
    """One resource and action of a bundle."""

    resource: Resource
    action: Action
    requested_access: dict[str, Any] = Field(default_factory=dict)
    denial: Denial | None = None


class Submission(Wire):
    """An access request: one resource and action, or `items`. Build it with `parse_submission`."""

    subject: Subject
    resource: Resource | None = None
    action: Action | None = None
    items: list[SubmissionItem] | None = None
    context: dict[str, Any] = Field(default_factory=dict)
    denial: Denial | None = None
    requested_access: RequestedAccess = Field(default_factory=RequestedAccess)
    callback: Callback | None = None
    client: Client | None = None

    def about(self) -> Tuple4:
        """What the single form is about, unknown members included; `InvalidShape` for a bundle."""
        if self.resource is None or self.action is None:
            raise InvalidShape("/items")
        return Tuple4(self.subject.wire(), self.resource.wire(), self.action.wire(), self.context)


def parse_submission(value: object) -> Submission:
    """A submission in one of its two forms (ARS-11, ARS-77, ARS-78); whether its binding holds is judged later.

    Raises:
        InvalidShape: with the pointer of the first member at fault.
    """
    submission = parse(Submission, value)
    if submission.items is None:
        required: dict[str, object] = {"resource": submission.resource, "action": submission.action}
        if missing := [name for name, member in required.items() if member is None]:
            raise InvalidShape(f"/{missing[0]}")
    elif both := submission.model_fields_set & {"resource", "action"}:
        raise InvalidShape(f"/{max(both)}")
    elif not submission.items:
        raise InvalidShape("/items")
    items = submission.items or ()
    if submission.denial is None and (not items or any(item.denial is None for item in items)):
        raise InvalidShape("/denial")
    return submission


class ToolCall(Wire):
    """The context member `urn:x-arap:tool_call`: the call as rules and reviewers see it; it never binds."""

    server: str
    tool: str
    title: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    complete: bool = True


class Approval(Wire):
    """The approval of a result, returned unchanged at `context.approval` (PEP-40)."""

    id: Annotated[str, Field(min_length=1)]
    approved_until: Timestamp
    approved_at: str | None = None
    state: Any = None

    @property
    def until(self) -> datetime:
        """`approved_until` as an instant."""
        return parse_instant(self.approved_until)


class TaskResult(Wire):
    """How a task completed; anything but mode `reevaluate` with an approval approves nothing (PEP-42)."""

    mode: str
    approval: Approval | None = None


class TaskItem(Wire):
    """One item of a bundle, at the position that it had in the submission (ARS-82)."""

    resource: Resource
    action: Action
    status: str
    result: TaskResult | None = None


class Task(Wire):
    """The task handle; `status` may be one that the profile doesn't define."""

    id: Annotated[str, Field(min_length=1)]
    status: str
    status_endpoint: str
    expires_at: Timestamp | None = None
    progress: dict[str, Any] | None = None
    display: dict[str, Any] | None = None
    links: dict[str, str] = Field(default_factory=dict)
    items: list[TaskItem] | None = None


class TaskResponse(Wire):
    """Answer to a submission or a status request."""

    task: Task
    result: TaskResult | None = None

    @property
    def approval(self) -> Approval | None:
        """The approval, if and only if the task is a single one and approved in a way this profile defines."""
        if self.task.status != TaskStatus.APPROVED or self.task.items is not None or self.result is None:
            return None
        return self.result.approval if self.result.mode == REEVALUATE else None


class CallbackNotification(TaskResponse):
    """What a callback carries; `state` comes back as it was given (ARS-93)."""

    state: Any = None


class Problem(Wire):
    """An RFC 9457 problem; `type` may be one that we don't know."""

    type: str = "about:blank"
    title: str | None = None
    status: int | None = None
    detail: str | None = None


NextAction = Literal["request", "retry", "none"]

_ACTIONS: Final[Mapping[str, NextAction]] = {"request": "request", "retry": "retry", "none": "none"}
_BY_REASON: Final[Mapping[str, NextAction]] = {
    "approval_expired": "request",
    "out_of_scope": "request",
    "grant_pending": "retry",
    "policy_denied": "none",
    "approval_unverifiable": "none",
}


def next_action(decision_context: Mapping[str, Any]) -> NextAction:
    """What an enforcement point does about a denied re-evaluation (PEP-48).

    A recognised `next_action` wins, then the default of a recognised `reason`, then the presence of
    `access_request`; without that object nothing can be requested.
    """
    given, reason = decision_context.get("next_action"), decision_context.get("reason")
    action: NextAction = "request"
    if isinstance(given, str) and given in _ACTIONS:
        action = _ACTIONS[given]
    elif isinstance(reason, str) and reason in _BY_REASON:
        action = _BY_REASON[reason]
    if action == "request" and not isinstance(decision_context.get("access_request"), dict):
        return "none"
    return action


def retry_after(decision_context: Mapping[str, Any]) -> int | None:
    """Whole seconds to wait before a retry, or None when the decision doesn't say (PDP-73, PEP-49)."""
    seconds = decision_context.get("retry_after")
    return seconds if type(seconds) is int and seconds >= 0 else None

"""What can happen to a gate task, and why a task ends.

Facts only: what an event does to a task is decided in `lifecycle`. Instants are aware UTC.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal


class Cause(StrEnum):
    """Why a task ended: chooses the fixed text, and goes to the audit record."""

    EXECUTED = "executed"
    TOOL_ERROR = "tool_error"
    NO_RESPONSE = "no_response"
    WORKER_LOST = "worker_lost"
    EXECUTION_DEADLINE = "execution_deadline"
    DENIED = "denied"
    POLICY_DENIED = "policy_denied"
    EXPIRED = "expired"
    BACKEND_EXPIRED = "backend_expired"
    BACKEND_LOST_TASK = "backend_lost_task"
    NOT_ENFORCEABLE = "not_enforceable"
    CHAIN_BOUND = "chain_bound"
    SUBMISSION_REFUSED = "submission_refused"
    SUBMISSION_LIMIT = "submission_limit"
    BINDING_BROKEN = "binding_broken"
    TOOL_CHANGED = "tool_changed"
    CLIENT_CANCELLED = "client_cancelled"
    BACKEND_CANCELLED = "backend_cancelled"
    BACKEND_FAILED = "backend_failed"
    ORPHANED = "orphaned"


@dataclass(frozen=True, slots=True)
class HandleStored:
    """The backend accepted the submission of `generation`; `deadline` is the request's, already capped."""

    generation: int
    deadline: datetime


@dataclass(frozen=True, slots=True)
class SubmissionRefused:
    """The backend answered the submission with a 4xx other than 429."""


@dataclass(frozen=True, slots=True)
class SubmissionAbandoned:
    """A chained submission met 429 and 5xx until its limit."""


@dataclass(frozen=True, slots=True)
class Orphaned:
    """Nobody repeated the call of an intent that was never announced, and the grace period is over."""


@dataclass(frozen=True, slots=True)
class InputAsked:
    """The backend asks for more input."""

    generation: int


@dataclass(frozen=True, slots=True)
class InputSettled:
    """Every outstanding input was answered, or the backend withdrew its question."""

    generation: int


@dataclass(frozen=True, slots=True)
class Approved:
    """The backend approved; `approved_until` is the approval's expiry, already capped."""

    generation: int
    approved_until: datetime


@dataclass(frozen=True, slots=True)
class BackendEnded:
    """The request ended at the backend without an enforceable approval."""

    generation: int
    cause: Literal[
        Cause.DENIED,
        Cause.BACKEND_EXPIRED,
        Cause.BACKEND_LOST_TASK,
        Cause.NOT_ENFORCEABLE,
        Cause.BACKEND_CANCELLED,
        Cause.BACKEND_FAILED,
    ]


@dataclass(frozen=True, slots=True)
class Allowed:
    """Re-evaluation permitted: take the claim for `worker` until `execution_deadline`.

    `approved_until` is the expiry that the decision point returned, when it returned one.
    """

    worker: str
    execution_deadline: datetime
    approved_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Re-evaluation said retry, or the decision point was unreachable; `at` is when to ask again."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Due:
    """The waiting time is over."""


@dataclass(frozen=True, slots=True)
class ChainRequested:
    """Re-evaluation said request; `limit` is the highest generation, `deadline` the new submission's."""

    limit: int
    deadline: datetime


@dataclass(frozen=True, slots=True)
class PolicyDenied:
    """Re-evaluation denied for good."""


@dataclass(frozen=True, slots=True)
class FailedClosed:
    """What would run is no longer what was approved."""

    cause: Literal[Cause.BINDING_BROKEN, Cause.TOOL_CHANGED]


@dataclass(frozen=True, slots=True)
class Cancel:
    """The client asks for cancellation."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Somebody noticed that the task's current deadline may have passed."""


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A response to the call was received; `is_error` when it reports a failure of the tool or is a JSON-RPC error."""

    is_error: bool


@dataclass(frozen=True, slots=True)
class ToolSilent:
    """The call was made, or may have been, and no response was received."""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """The process that holds the claim is proved dead."""


@dataclass(frozen=True, slots=True)
class ExecutionOverdue:
    """Somebody noticed that the claim's deadline may have passed."""


Event = (
    HandleStored
    | SubmissionRefused
    | SubmissionAbandoned
    | Orphaned
    | InputAsked
    | InputSettled
    | Approved
    | BackendEnded
    | Allowed
    | RetryLater
    | Due
    | ChainRequested
    | PolicyDenied
    | FailedClosed
    | Cancel
    | Expire
    | ToolReturned
    | ToolSilent
    | WorkerLost
    | ExecutionOverdue
)

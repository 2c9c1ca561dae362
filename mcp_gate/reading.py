"""Reads the backend's answers as events of the lifecycle. Pure; anything unknown is not an approval.

ARAP, "Poll the Task", "Handle Completion"; SEP-2848, "Example binding".
"""

from datetime import datetime, timedelta
from typing import Final

from mcp_gate.backend import BackendStatus
from mcp_gate.events import Approved, BackendEnded, Cause
from mcp_gate.limits import Limits

REEVALUATE: Final = "reevaluate"


def read_status(
    status: BackendStatus, *, generation: int, now: datetime, limits: Limits
) -> Approved | BackendEnded | None:
    """What a status means for the task; None while it means nothing yet, as an unknown word does (PEP-42)."""
    if status.gone:
        return BackendEnded(generation, Cause.BACKEND_LOST_TASK)
    match status.status:
        case "approved":
            if status.approval is None or status.mode != REEVALUATE:  # PEP-42, X-12
                return BackendEnded(generation, Cause.NOT_ENFORCEABLE)
            until = capped(status.approved_until, now=now, most=limits.approval)
            return BackendEnded(generation, Cause.BACKEND_EXPIRED) if now >= until else Approved(generation, until)
        case "denied":
            return BackendEnded(generation, Cause.DENIED)
        case "expired":
            return BackendEnded(generation, Cause.BACKEND_EXPIRED)
        case "cancelled":
            return BackendEnded(generation, Cause.BACKEND_CANCELLED)
        case "failed":
            return BackendEnded(generation, Cause.BACKEND_FAILED)
        case "partial":  # a single call has no parts
            return BackendEnded(generation, Cause.NOT_ENFORCEABLE)
        case _:
            return None


def capped(instant: datetime | None, *, now: datetime, most: timedelta) -> datetime:
    """The backend's expiry, or our own where it names none or one too far away (PEP-46, PEP-76)."""
    bound = now + most
    return bound if instant is None else min(instant, bound)

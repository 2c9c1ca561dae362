"""What happens to requests, under the names that events have outside: streams and subscriptions.

An event says that something has happened, and never what may be done because of it: whoever acts on one asks the
decision point or the request's status first (ARS-98). Which entry of the audit chain is which event is a table.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EVENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "task_submitted": "submitted",
        "claimed": "claimed",
        "released": "released",
        "commented": "commented",
        "question_asked": "asked",
        "question_answered": "answered",
        "vote_cast": "voted",
        "item_approved": "item-approved",
        "item_denied": "item-denied",
        "item_expired": "item-expired",
        "item_cancelled": "item-cancelled",
        "item_failed": "item-failed",
        "task_approved": "approved",
        "task_denied": "denied",
        "task_expired": "expired",
        "task_cancelled": "cancelled",
        "task_failed": "failed",
        "task_partial": "partial",
        "approval_revoked": "revoked",
        "execution_reported": "reported",
        "step_escalated": "escalated",
        "emergency_used": "emergency-used",
        "emergency_reviewed": "emergency-reviewed",
    }
)
"""Kind of audit entry → name of the event."""
EVENT_NAMES: Final = frozenset(EVENTS.values())
EVENT_KINDS: Final = tuple(EVENTS)

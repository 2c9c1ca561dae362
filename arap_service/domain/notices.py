"""What people are told of beside the desk: the kinds of notices, and what each kind is told whom for.

A notice tells that something waits or has happened; it never decides and never carries what was asked for. Who is told
is judged when it is sent, by the same rules as who may decide. See design.md section 7, "Notifications".
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class NoticeKind(StrEnum):
    """What a notice is about."""

    REQUEST_WAITING = "request_waiting"
    REMINDER = "reminder"
    ESCALATED = "escalated"
    QUESTION_ASKED = "question_asked"
    QUESTION_ANSWERED = "question_answered"
    DECIDED = "decided"
    REVOKED = "revoked"
    EMERGENCY_USED = "emergency_used"
    REVIEW_DUE = "review_due"
    DELIVERY_FAILED = "delivery_failed"
    PASSWORD_CHANGED = "password_changed"  # noqa: S105 - a name


TO_DECIDERS: Final = frozenset(
    {
        NoticeKind.REQUEST_WAITING,
        NoticeKind.REMINDER,
        NoticeKind.ESCALATED,
        NoticeKind.QUESTION_ANSWERED,
    }
)
"""For whoever may decide at the moment of sending; nobody else ever gets one."""
TO_REQUESTERS: Final = frozenset({NoticeKind.QUESTION_ASKED, NoticeKind.DECIDED, NoticeKind.REVOKED})
"""For whoever asked, or in whose name it was asked, where that is a person here."""
TO_NAMED: Final = frozenset(
    {NoticeKind.EMERGENCY_USED, NoticeKind.REVIEW_DUE, NoticeKind.DELIVERY_FAILED, NoticeKind.PASSWORD_CHANGED}
)
"""For the people and groups that whoever announces it names."""
URGENT: Final = frozenset({NoticeKind.EMERGENCY_USED, NoticeKind.PASSWORD_CHANGED})
"""Neither quiet hours nor a digest hold these back."""
OF_ONES_OWN: Final = frozenset({NoticeKind.PASSWORD_CHANGED})
"""About the person himself: told to him whatever he has chosen, since another may have chosen it, and in no room."""
ASKED_FOR: Final = frozenset({NoticeKind.DECIDED})
"""Told only to those who have chosen to be told."""


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent to somebody, in the two forms of which a channel takes one."""

    subject: str
    text: str
    html: str

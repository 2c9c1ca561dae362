"""How the pages of operators and auditors speak of what the service did: pure functions from codes to words.

A code that nobody has put into words is shown as it is, so that nothing that is on record is left out.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DELIVERY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pending": "On its way",
        "delivered": "Delivered",
        "dead": "Given up",
        "disabled": "Switched off by the receiver",
    }
)
OUTCOMES: Final[Mapping[str, str]] = MappingProxyType({**DELIVERY, "pending": "To be tried again"})
_TROUBLE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "endpoint_disabled": "The receiver has said that it wants nothing more.",
        "not_registered": "The configuration no longer allows this address.",
        "unreadable": "What was to be sent cannot be opened; is the key file the right one?",
        "unresolvable": "The name of the receiver leads nowhere.",
        "internal_address": "The address is an internal one that the configuration does not allow.",
        "not_https": "The address is not https.",
        "port": "The port is not one that may be called.",
        "malformed": "The address is malformed.",
        "user_information": "The address holds a name or password.",
        "timeout": "No answer came in time.",
        "connection": "No connection could be made.",
        "broken": "The exchange broke off.",
        "tls": "The certificate of the receiver is not trusted.",
    }
)
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "denied_requestable": "Denied, and can be requested",
        "form_filled": "Form filled in by the requester",
        "form_used": "Filled-in form used",
        "task_submitted": "Request made",
        "item_submitted": "Part of a request made",
        "evaluator_heard": "Rule heard",
        "claimed": "Work on a request begun",
        "released": "Work on a request ended",
        "commented": "Comment made",
        "question_asked": "Question asked",
        "question_answered": "Question answered",
        "vote_cast": "Decision cast",
        "decision_refused": "Attempt to decide refused",
        "task_approved": "Request approved",
        "task_denied": "Request denied",
        "task_expired": "Request expired",
        "task_cancelled": "Request withdrawn",
        "task_failed": "Request failed",
        "task_partial": "Request partly approved",
        "item_approved": "Part approved",
        "item_denied": "Part denied",
        "item_expired": "Part expired",
        "item_cancelled": "Part withdrawn",
        "item_failed": "Part failed",
        "reevaluated": "Approval presented",
        "approval_revoked": "Approval taken back",
        "execution_reported": "Use reported",
        "emergency_used": "Emergency access used",
        "emergency_reviewed": "Emergency access reviewed",
        "delegation_made": "Somebody decides in another's place",
        "delegation_ended": "Nobody decides in another's place any more",
        "notice_restarted": "Notice sent again",
        "callback_delivered": "Message delivered",
        "callback_dead": "Message given up",
        "callback_disabled": "Message switched off by the receiver",
        "delivery_restarted": "Message sent again",
        "endpoint_enabled": "Receiver enabled again",
        "login_succeeded": "Logged in",
        "login_failed": "Log-in failed",
        "password_changed": "Password changed",
        "logged_out": "Logged out",
        "person_added": "Person added",
        "person_imported": "Person imported",
        "groups_received": "Groups received",
        "account_set": "Account set",
        "policy_loaded": "Rules loaded",
        "key_created": "Key created",
        "key_rotated": "Key rotated",
        "sealed_revealed": "Sealed values opened",
    }
)


def delivery(status: str) -> str:
    """How a delivery stands."""
    return DELIVERY.get(status, status)


def attempt(outcome: str) -> str:
    """What came of one attempt."""
    return OUTCOMES.get(outcome, outcome)


def trouble(code: str) -> str:
    """Why a delivery did not arrive, in a sentence."""
    if code.startswith("status_"):
        return f"The receiver answered {code.removeprefix('status_')}."
    return _TROUBLE.get(code, f"It did not arrive ({code.replace('_', ' ')}).")


def kind(code: str) -> str:
    """What an entry of the audit trail records."""
    return KINDS.get(code, code.replace("_", " ").capitalize())


def event(name: str) -> str:
    """What a message tells, by the name of the event or of the status."""
    return name.replace("task.", "").replace("request.", "").replace("-", " ").replace("_", " ").capitalize()


def plain(value: object) -> str:
    """A value of a record on one line."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(plain, value)) or "none"
        case float() if value.is_integer():
            return str(int(value))
        case dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def notice(status: str) -> str:
    """How a notice to a person stands."""
    return {"pending": "On its way", "sent": "Sent", "dead": "Given up", "dropped": "No longer needed"}.get(
        status, status
    )

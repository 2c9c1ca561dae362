"""The use cases of access requests; every transport (REST, desk, command line) calls these and decides nothing itself.

Each takes the context and the authenticated caller, checks the caller's rights, and does its work in one transaction.
Errors are classes of `domain/errors.py`. See design.md sections 5 to 7.
"""

from arap_service.requests.attempts import Submitted
from arap_service.requests.conversation import answer, ask, claim, comment, question, release
from arap_service.requests.decisions import decide, revoke
from arap_service.requests.details import detail
from arap_service.requests.own import cancel, report, report_on_approval, status
from arap_service.requests.proposals import amended
from arap_service.requests.reading import queue
from arap_service.requests.submission import submit
from arap_service.views import Page, QueueFilter

__all__ = [
    "Page",
    "QueueFilter",
    "Submitted",
    "amended",
    "answer",
    "ask",
    "cancel",
    "claim",
    "comment",
    "decide",
    "detail",
    "question",
    "queue",
    "release",
    "report",
    "report_on_approval",
    "revoke",
    "status",
    "submit",
]

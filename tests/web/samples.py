"""Requests as the use cases show them, for tests of what pages make of them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from arap_service.views import (
    ApprovalView,
    ArgumentView,
    ExecutionView,
    HistoryView,
    QueueRow,
    RequestDetail,
    StepView,
    VoteView,
)
from arap_service.web.outcomes import outcome_of
from arap_service.web.rendering import Page
from arap_service.web.request_pages import NOTHING_SAID
from tests.clock import START

PAGE: Final = Page(root="", path="/desk", now=START, person="Grace Hopper", form_token="0" * 64, warning=None)

DETAIL: Final = RequestDetail(
    id="task_4cQ1l3V0yq8Jr2nT5wXz7A",
    status="pending",
    version=1,
    template_id="commit",
    template_title="Commit to a repository",
    explanation="A commit changes the shared history, so a second person looks at it first.",
    effect="Commit “Fix rounding of the last digit” to ledger",
    caution="It commits what is staged at the moment it runs.",
    risk="medium",
    subject={"type": "user", "id": "ada@example.com"},
    resource={"type": "tool", "id": "git_commit"},
    action={"name": "tools/call"},
    submitter="https://id.example|gate",
    client_id="gate-of-git",
    agent="coding-agent",
    server="git",
    tool="git_commit",
    tool_title="Git commit",
    arguments=(
        ArgumentView(pointer="/repo_path", text="/srv/ledger", masked=False, suspicious=False),
        ArgumentView(pointer="/message", text="Fix rounding of the last digit", masked=False, suspicious=False),
    ),
    facts=(),
    hidden=(),
    arguments_hash="sha256:" + "5095dd3c" * 8,
    complete=True,
    justification="The nightly report is off by one cent.",
    rule_id="commit-needs-review",
    reason="commit_needs_review",
    evaluation_id=None,
    created_at=START - timedelta(minutes=3),
    deadline=START + timedelta(minutes=14),
    expires_at=START + timedelta(days=1),
    ended_at=None,
    ended_by=None,
    steps=(StepView(id="review", title="Maintainers", quorum=2, approvals=1, denials=0, status="waiting"),),
    votes=(
        VoteView(
            at=START - timedelta(minutes=1),
            step_id="review",
            voter="Linus Example",
            kind="person",
            decision="approve",
            reason="Looked at the diff.",
        ),
    ),
    history=(HistoryView(at=START - timedelta(minutes=3), kind="submitted", who="gate", text="Requested"),),
    approval=None,
    executions=(),
    may_decide=True,
    why_not=None,
    max_approved_until=START + timedelta(minutes=15),
    pending_approval=None,
    reason_required=frozenset({"deny"}),
)
IN_FORCE: Final = replace(
    DETAIL,
    status="approved",
    may_decide=False,
    max_approved_until=None,
    approval=ApprovalView(id="apr_1", approved_at=START, approved_until=START + timedelta(minutes=15), status="active"),
)


def reported(disposition: str) -> RequestDetail:
    """The approved request after a report on it."""
    view = ExecutionView(at=START, disposition=disposition, generation=1, received_at=START)
    return replace(IN_FORCE, executions=(view,))


APPROVED: Final = reported("approved-executed")


def row(**changes: Any) -> QueueRow:
    """A line of the queue for the request above."""
    names = QueueRow.__dataclass_fields__
    return QueueRow(**{name: getattr(DETAIL, name) for name in names} | changes)


def request_values(detail: RequestDetail, **changes: Any) -> dict[str, Any]:
    """What the page of one request is given besides the request."""
    values = {
        "it": detail,
        "heading": detail.effect,
        "notice": None,
        "mistakes": None,
        "longest": 900,
        "choices": (),
        "chosen": "",
        "said": NOTHING_SAID,
        "outcome": outcome_of(detail, now=START),
        "kept": None,
        "offers": (),
        "proposal": {},
        "proposal_mistake": None,
    }
    return values | changes

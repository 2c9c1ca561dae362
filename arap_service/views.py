"""What reviewers and resolvers see of requests: values for pages and for the REST API, built by `requests`.

Everything in `subject`, `arguments`, `facts`, `justification` and the texts of votes was said by somebody else: it is
untrusted, its hidden characters are written out, and whoever renders it escapes it. See design.md sections 6 and 7.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from arap_service.domain.reasons import ReasonRule
from arap_service.domain.revealing import Shown

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFilter:
    """Which requests to list; `mine` are those that the caller may decide now, `status` None means all.

    `step` is the title of a step that is open now, `due_before` a moment by which it is to be decided.
    """

    status: str | None = None
    mine: bool = False
    template: str | None = None
    subject: str | None = None
    risk: str | None = None
    step: str | None = None
    due_before: datetime | None = None
    q: str | None = None
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """A part of a list; `next_cursor` is absent on the last one."""

    items: tuple[Row, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentView:
    """One value and its place; a masked one shows dots, a suspicious one has characters that were written out.

    `kind` is text, number, yes-no, nothing, empty or secret.
    """

    pointer: str
    text: str
    masked: bool
    suspicious: bool
    kind: str = field(default="text", compare=False)


def argument_view(shown: Shown) -> ArgumentView:
    """A revealed value, without what tells it apart from others."""
    return ArgumentView(
        pointer=shown.pointer,
        text=shown.text,
        masked=shown.masked,
        suspicious=shown.suspicious,
        kind=shown.kind,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step of the workflow and how far it has come; `status` is later, waiting, completed or ended.

    `after` are the titles of the steps that it waits for, or has waited for. `deadline` is when it ends the request
    unless it is complete, `escalated_at` when further people were asked.
    """

    id: str
    title: str
    quorum: int
    approvals: int
    denials: int
    status: str
    after: tuple[str, ...] = ()
    deadline: datetime | None = None
    escalated_at: datetime | None = None
    veto: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteView:
    """One decision that was made; `voter` is a name, `kind` one of person, resolver, evaluator.

    `in_place_of` is the name of the person whose deputy decided.

    `proposed` are the arguments that a denial proposes instead, value by value.
    """

    at: datetime
    step_id: str
    voter: str
    kind: str
    decision: str
    reason: str | None
    proposed: tuple[ArgumentView, ...] = ()
    in_place_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """One thing that happened to the request, in words."""

    at: datetime
    kind: str
    who: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeView:
    """How far an approval reaches beyond exactly what was asked, in the template's words.

    `may_vary` are the members that may be other ones: of a waiting request those that nobody has narrowed yet.
    """

    words: str
    may_vary: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalView:
    """What the request led to; `status` is active, revoked or superseded, and an active one may have run out.

    `may_vary` is empty where it allows exactly what was asked.
    """

    id: str
    approved_at: datetime
    approved_until: datetime
    status: str
    may_vary: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionView:
    """What an enforcement point reported about the use of the approval."""

    at: datetime
    disposition: str
    generation: int
    received_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionView:
    """What a reviewer asked the requester, and the answer once there is one, value by value."""

    number: int
    asked_at: datetime
    asked_by: str
    message: str
    answered_at: datetime | None
    answer: tuple[ArgumentView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentView:
    """What a reviewer said to the others."""

    at: datetime
    by: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedView:
    """What the requester filled in on the page that the denial named, value by value; nobody has verified it."""

    at: datetime
    by: str
    values: tuple[ArgumentView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceView:
    """One member that is not what it was before: `change` is changed, added or gone.

    Of two long texts `before` and `after` are the parts that differ; so many characters before and behind are equal.
    """

    pointer: str
    change: str
    before: str
    after: str
    kind_before: str
    kind_after: str
    equal_before: int
    equal_behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierView:
    """The same subject's last approved request of this kind beside the one that is shown, member by member.

    `secrets` and `hidden` are how many members could not be compared here. `is_same` says that all members are proven
    to be equal, those too. Without a right to see the earlier one only `approved_at` is told.
    """

    id: str | None
    approved_at: datetime
    differences: tuple[DifferenceView, ...] = ()
    equal: int = 0
    secrets: int = 0
    hidden: int = 0
    is_same: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateView:
    """Somebody who may be asked in a step; `deputy` decides in his place until `away_until`.

    `standing` is free, decided, or the code of what excludes him.
    """

    name: str
    standing: str
    deputy: str | None = None
    away_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidersView:
    """Who may decide in one step: groups, how many people that is, and those people as far as they are few."""

    step_id: str
    groups: tuple[str, ...]
    relations: tuple[str, ...]
    by_expression: bool
    machines: tuple[str, ...]
    people: tuple[CandidateView, ...]
    more_people: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorView:
    """One link of the verified chain of who acts for whom; `issuer` vouches for the name."""

    name: str
    issuer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One line of the queue; subject, resource and action are {type, id} and {name}."""

    id: str
    status: str
    version: int
    template_id: str
    template_title: str
    effect: str
    risk: str
    subject: Mapping[str, Any]
    resource: Mapping[str, Any]
    action: Mapping[str, Any]
    submitter: str
    client_id: str
    agent: str | None
    server: str | None
    tool: str | None
    created_at: datetime
    deadline: datetime
    expires_at: datetime
    may_decide: bool
    why_not: str | None
    item_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDetail:
    """Everything that a decision needs.

    Of a bundle `items` are those that the reader sees, each a request of its own but for `item`, its position counted
    from 1; they are decided one by one, on their own `version`. What stands above them then tells of the whole, and of
    resource, action, rule and reason what the first of them has.

    `arguments` are those of the tool call, or without one everything that was asked; `facts` is what else was asked
    beside a tool call; `hidden` names what the template does not reveal; `complete` says that the arguments are
    verified against what was bound. `stated` is what the requester filled in at the desk, and then it is not among
    `arguments` and `facts`. `reasons` says what the reason of a decision must contain, `scope` how its template widens
    what an approval allows, `may_propose` that a denial can propose other arguments. `questions`, `comments` and
    `claimed_by` stand with the whole of a bundle.
    """

    id: str
    status: str
    version: int
    template_id: str
    template_title: str
    explanation: str
    effect: str
    caution: str | None
    risk: str
    subject: Mapping[str, Any]
    resource: Mapping[str, Any]
    action: Mapping[str, Any]
    submitter: str
    client_id: str
    agent: str | None
    server: str | None
    tool: str | None
    tool_title: str | None
    arguments: tuple[ArgumentView, ...]
    facts: tuple[ArgumentView, ...]
    hidden: tuple[str, ...]
    arguments_hash: str | None
    complete: bool
    justification: str | None
    rule_id: str
    reason: str
    evaluation_id: str | None
    created_at: datetime
    deadline: datetime
    expires_at: datetime
    ended_at: datetime | None
    ended_by: str | None
    steps: tuple[StepView, ...]
    votes: tuple[VoteView, ...]
    history: tuple[HistoryView, ...]
    approval: ApprovalView | None
    executions: tuple[ExecutionView, ...]
    may_decide: bool
    why_not: str | None
    max_approved_until: datetime | None
    pending_approval: Mapping[str, Any] | None
    reason_required: frozenset[str]
    item: int = 0
    item_count: int = 0
    items: tuple["RequestDetail", ...] = ()
    questions: tuple[QuestionView, ...] = ()
    comments: tuple[CommentView, ...] = ()
    claimed_by: str | None = None
    stated: StatedView | None = None
    step_up: int | None = None
    """How fresh a log-in must be to decide it, in seconds, where that matters."""
    reasons: Mapping[str, ReasonRule] = field(default_factory=dict)
    scope: ScopeView | None = None
    may_propose: bool = False
    is_emergency: bool = False
    standing_days: int = 0
    policy_version: str = ""
    actors: tuple[ActorView, ...] = ()
    earlier: EarlierView | None = None
    deciders: tuple[DecidersView, ...] = ()
    decides_in: str | None = None
    """The step that a decision of the reader's would count in."""
    decides_for: str | None = None
    """The name of somebody who is away, in whose place the reader would decide."""

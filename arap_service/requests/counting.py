"""What a decision does that counts: the vote, the steps, and the end of what it completes or vetoes.

All in the caller's transaction. Who may decide has been judged before (`decisions.py`); what an end brings about is in
`endings.py`. Access Request and Approval Profile, "Evaluators and Workflow Design" (ARS-114, ARS-118).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from pydantic import JsonValue

from arap_service.context import Context
from arap_service.domain.errors import ArapError, InvalidTaskState, StaleVersion
from arap_service.domain.notices import NoticeKind
from arap_service.domain.reviewers import Eligible
from arap_service.domain.task import Approve, Deny, Event, Refused
from arap_service.domain.workflow import Completed, Ended, Waiting, progress
from arap_service.domain.workflow import Vote as Voice
from arap_service.protocol.arap import format_instant
from arap_service.protocol.canonical import digest
from arap_service.records import Part, task_seal
from arap_service.requests.announcing import announce
from arap_service.requests.creation import AUTOMATIC
from arap_service.requests.endings import REQUESTS, Cause, Moved, carry_out, move, record, settle_bundle, task_topic
from arap_service.requests.steps import open_steps
from arap_service.requests.voters import Board, Decider
from arap_service.store import items, tasks
from arap_service.store.database import WriteSession
from arap_service.store.tables import Vote

_LATER: Final = frozenset({"item", "may_vary", "proposed"})
"""Members of a choice that are left out where nothing is chosen, as if they did not exist."""


def state_fault(part: Part, choice: "Choice") -> ArapError | None:
    """Why `choice` is about something that is not there any more, or not yet seen."""
    own = part.own
    if own.status != "pending":
        return InvalidTaskState(current=own.status, version=own.version)
    if own.version != choice.version:  # ARS-118
        return StaleVersion(current=own.status, version=own.version)
    return None


@dataclass(frozen=True, slots=True)
class Choice:
    """What the decider chose, having seen `version`."""

    decision: str
    version: int
    reason: str | None
    approved_until: datetime | None
    item: int | None = None  # which one of a bundle
    may_vary: tuple[str, ...] | None = None  # what of a widened scope stays wide; None, where a person decides: all
    proposed: Mapping[str, Any] | None = None  # other arguments that a denial proposes

    def said(self, task_id: str) -> dict[str, Any]:
        """The decision as a JSON object, to tell it from another under the same key."""
        until = None if self.approved_until is None else format_instant(self.approved_until)
        said = {"task": task_id, **asdict(self), "approved_until": until}
        return {name: value for name, value in said.items() if name not in _LATER or value is not None}


@dataclass(frozen=True, slots=True)
class Counted:
    """A decision that counts: whose, in which step, by which way."""

    decider: Decider
    eligible: Eligible
    choice: Choice
    channel: str


def count(
    ctx: Context, session: WriteSession, part: Part, board: Board, counted: Counted, *, now: datetime
) -> ArapError | None:
    """Record the vote, and end what it completes or vetoes; why it does not count, when somebody was faster."""
    vote = _vote(ctx, part, counted, now=now)
    cast = [*board.votes, vote]
    outcome = progress([board.step(state) for state in board.steps], [_voice(each) for each in cast if _counts(each)])
    cause = _cause(part, counted, cast)
    moved = _move(ctx, session, part, outcome, cause, now=now)
    if moved is None:
        session.refresh(part.own)
        return state_fault(part, counted.choice) or StaleVersion(current=part.own.status, version=part.own.version)
    session.add(vote)
    _mark_steps(session, part, board, outcome, step_id=vote.step_id)
    if isinstance(outcome, Waiting):
        open_steps(session, part, board, later=outcome.later, now=now)
    record(session, part, "vote_cast", counted.decider.actor, _vote_detail(part, vote, counted), now=now)
    if isinstance(moved, Moved):
        carry_out(ctx, session, moved, cause, now=now)
    elif part.row is not None:
        settle_bundle(ctx, session, part.task, cause, now=now)
    if isinstance(outcome, Waiting):  # somebody else may have come to his turn by this
        announce(ctx, session, NoticeKind.REQUEST_WAITING, part.task, now=now, about=vote.id)
    session.after_commit(partial(ctx.metrics.decided, vote.decision, counted.channel))
    session.on_commit(task_topic(part.task.id))
    session.on_commit(REQUESTS)
    return None


def _counts(vote: Vote) -> bool:
    return vote.step_id != AUTOMATIC


def left_wide(template: Mapping[str, Any], cast: Sequence[Vote]) -> tuple[str, ...]:
    """What of the template's scope everybody who has approved leaves wide, in its order."""
    wishes = [vote.may_vary for vote in cast if vote.decision == "approve" and vote.may_vary is not None]
    offered = (template.get("scope") or {}).get("may_vary", ())
    return tuple(pointer for pointer in offered if all(pointer in wish for wish in wishes))


def _voice(vote: Vote) -> Voice:
    return Voice(vote.step_id, vote.in_place_of or vote.voter, "approve" if vote.decision == "approve" else "deny")


def _vote_detail(part: Part, vote: Vote, counted: Counted) -> dict[str, JsonValue]:
    return {
        "step": vote.step_id,
        "decision": vote.decision,
        "version_seen": vote.version_seen,
        "binding_hash": part.own.binding_hash,
        "channel": counted.channel,
        "exception": counted.eligible.exception,
        **({} if vote.in_place_of is None else {"in_place_of": vote.in_place_of, "by": counted.eligible.delegation}),
        "approved_until": None if vote.approved_until is None else format_instant(vote.approved_until),
        **({} if vote.may_vary is None else {"may_vary": [*vote.may_vary]}),
        **({} if counted.choice.proposed is None else {"proposed_digest": digest(dict(counted.choice.proposed))}),
    }


def _vote(ctx: Context, part: Part, counted: Counted, *, now: datetime) -> Vote:
    vote_id, choice = ctx.new_id("vote"), counted.choice
    seal = task_seal(part.task, ctx.ring)

    def sealed(column: str, said: Any) -> bytes | None:
        return None if said is None else seal.seal_at(f"vote:{vote_id}:{column}", said)

    return Vote(
        id=vote_id,
        task_id=part.task.id,
        item=part.item,
        step_id=counted.eligible.step_id,
        voter=counted.decider.voter,
        voter_kind=counted.decider.kind,
        in_place_of=counted.eligible.in_place_of,
        decision=choice.decision,
        version_seen=choice.version,
        at=now,
        channel=counted.channel,
        approved_until=choice.approved_until,
        may_vary=None if choice.may_vary is None else [*choice.may_vary],
        reason_sealed=sealed("reason_sealed", choice.reason),
        proposed_sealed=sealed("proposed_sealed", choice.proposed),
    )


def _cause(part: Part, counted: Counted, cast: list[Vote]) -> Cause:
    wishes = tuple(vote.approved_until for vote in cast if vote.approved_until is not None)
    if counted.choice.decision == "deny":
        wrote = {"reason": counted.choice.reason, "proposed_arguments": counted.choice.proposed}
        said = {name: value for name, value in wrote.items() if value is not None}
        return Cause(counted.decider.actor, "veto", wrote=said or None)
    return Cause(counted.decider.actor, "quorum", wishes=wishes, may_vary=left_wide(part.own.template, cast))


def _move(
    ctx: Context,
    session: WriteSession,
    part: Part,
    outcome: Waiting | Completed | Ended,
    cause: Cause,
    *,
    now: datetime,
) -> Moved | Part | None:
    """Take the part to where the workflow has come; None when somebody else was faster."""
    event: Event
    match outcome:
        case Waiting():
            return _touched(session, part)
        case Completed():
            event = Approve()
        case Ended():
            event = Deny()
    moved = move(ctx, session, part, event, cause, now=now)
    return None if isinstance(moved, Refused) else moved


def _touched(session: WriteSession, part: Part) -> Part | None:
    seen = part.own.version
    if part.row is None:
        task = tasks.touch_task(session, part.task.id, seen=seen)
        return None if task is None else Part(task)
    row = items.touch_item(session, part.task.id, part.item, seen=seen)
    return None if row is None else Part(part.task, row)


def _mark_steps(
    session: WriteSession, part: Part, board: Board, outcome: Waiting | Completed | Ended, *, step_id: str
) -> None:
    for state in board.steps:
        if state.status == "waiting":
            status = _step_status(state.step_id, outcome, spoken_in=step_id)
            if status != "waiting":
                tasks.set_step(session, part.task.id, item=part.item, step_id=state.step_id, status=status)


def _step_status(step_id: str, outcome: Waiting | Completed | Ended, *, spoken_in: str) -> str:
    match outcome:
        case Waiting(step_ids, later):
            return "waiting" if step_id in (*step_ids, *later) else "completed"
        case Completed():
            return "completed"
        case Ended():
            return "ended" if step_id == spoken_in else "waiting"

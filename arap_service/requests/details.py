"""One request as a reviewer or resolver sees it: opened, revealed by its template's lists, and told in words.

Decides what is shown and to whom; shows nothing that the template hides, and no secret (GOV-15, ARS-125, ARS-126).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlmodel import Session

from arap_service import audit
from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import TaskExpired, UnknownTask
from arap_service.domain.revealing import Reveal, Shown, reveal
from arap_service.domain.reviewers import Eligible, Ineligible
from arap_service.domain.timing import deadline_of, timing_of
from arap_service.domain.visible import visible
from arap_service.protocol.approval import pending_approval
from arap_service.protocol.canonical import Tuple4, bound_context
from arap_service.protocol.sealing import KeyRing
from arap_service.records import Part, asked_of, task_seal, tuple_of
from arap_service.requests.beside import beside
from arap_service.requests.endings import latest_end
from arap_service.requests.grounds import grounds_of
from arap_service.requests.said import said_about
from arap_service.requests.stated import told_apart
from arap_service.requests.telling import bundle_sentence, effect_sentence, history_of, names_for
from arap_service.requests.terms import NONE, terms_of
from arap_service.requests.voters import Board, Decider, board_of, decider_of, eligibility, may_see
from arap_service.requests.wishes import JUSTIFICATION
from arap_service.sealed import RowSeal
from arap_service.store import items, tasks, votes
from arap_service.store.item_tables import TaskItem
from arap_service.store.tables import Approval, Execution, StepState, Task, Vote
from arap_service.views import (
    ApprovalView,
    ArgumentView,
    ExecutionView,
    RequestDetail,
    StepView,
    VoteView,
    argument_view,
)

RISKS = ("low", "medium", "high")
# Shown by name elsewhere on the page, or of no use to a reader.
_NAMED = frozenset({"arguments_hash", "agent", "server", JUSTIFICATION})
_SHOWN_ELSEWHERE = frozenset({JUSTIFICATION, "requested_until"})


async def detail(ctx: Context, caller: Caller, task_id: str) -> RequestDetail:
    """Everything about one request that the caller may see.

    Raises:
        UnknownTask: There is no such request for this caller.
        TaskExpired: There was one, and the caller may know that.
    """
    return await ctx.database.read(lambda session: _detail(ctx, session, caller, task_id))


def _detail(ctx: Context, session: Session, caller: Caller, task_id: str) -> RequestDetail:
    now = ctx.clock()
    task = tasks.find_task(session, task_id)
    if task is None:
        if caller.may(Scope.APPROVAL_READ) and tasks.find_tombstone(session, task_id) is not None:
            raise TaskExpired
        raise UnknownTask
    decider, board = decider_of(session, caller, grounds_of(ctx)), board_of(session, task)
    if not may_see(caller, board, decider):
        raise UnknownTask
    if now >= task.expires_at:
        raise TaskExpired
    seal = task_seal(task, ctx.ring)
    said = said_about(session, task, seal)
    if not task.item_count:
        told = _Told(session, Part(task), board, seal, ctx.ring, now, frozenset())
        return replace(told.to(caller, decider), **said)
    parts = visible_items(task, items.items_of(session, [task.id]), board, caller, decider)
    seen = frozenset(part.item for part in parts)
    listed = tuple(
        _Told(session, part, board.of(part.item), seal, ctx.ring, now, frozenset({part.item})).to(caller, decider)
        for part in parts
    )
    return replace(_Told(session, Part(task), board, seal, ctx.ring, now, seen).bundle(listed), **said)


def visible_items(task: Task, rows: Sequence[TaskItem], board: Board, caller: Caller, decider: Decider) -> list[Part]:
    """The items of a bundle that the caller may see: all with the right to read, else those that name him."""
    return [Part(task, row) for row in rows if may_see(caller, board.of(row.item), decider)]


def why_not(caller: Caller, part: Part, board: Board, decider: Decider, *, now: datetime) -> str | None:
    """The code of the reason why the caller may not decide now; None when he may."""
    if part.own.status != "pending":
        return "ended"
    if now >= part.own.pending_until or any(_is_over(state, now) for state in board.steps):
        return "deadline_passed"
    if not caller.may(Scope.APPROVAL_RESOLVE):
        return "missing_scope"
    found: Eligible | Ineligible = eligibility(part.task, board, decider)
    return found.reason if isinstance(found, Ineligible) else None


def _is_over(state: StepState, now: datetime) -> bool:
    """Whether the step has run out, which ends the request as soon as anybody looks at the clock."""
    end = deadline_of(timing_of(state.timing), state.opened_at) if state.status == "waiting" else None
    return end is not None and now >= end


@dataclass(frozen=True, slots=True)
class _Told:
    """A request or item with what hangs on it, about to be shown; `items` are those whose history belongs to it."""

    session: Session
    part: Part
    board: Board
    seal: RowSeal
    ring: KeyRing
    now: datetime
    items: frozenset[int]

    def bundle(self, listed: tuple[RequestDetail, ...]) -> RequestDetail:
        """A bundle as shown to somebody who sees the items `listed`, of which there is at least one."""
        task, first = self.part.task, listed[0]
        titles = {item.template_title for item in listed}
        open_to = [item.why_not for item in listed if item.status == "pending"]
        return replace(
            first,
            status=task.status,
            version=task.version,
            template_title=first.template_title if len(titles) == 1 else "Several things together",
            explanation=first.explanation if len(titles) == 1 else "",
            effect=bundle_sentence(task, len(listed)),
            caution=None,
            risk=max((item.risk for item in listed), key=RISKS.index),
            arguments=(),
            facts=(),
            hidden=(),
            complete=True,
            deadline=task.pending_until,
            ended_at=task.ended_at,
            ended_by=task.ended_by,
            evaluation_id=task.evaluation_id,
            steps=(),
            votes=(),
            history=self._course()["history"],
            approval=None,
            executions=(),
            may_decide=any(item.may_decide for item in listed),
            why_not=None if None in open_to or not open_to else open_to[0],
            max_approved_until=None,
            pending_approval=None,
            **NONE,
            stated=None,
            earlier=None,
            deciders=(),
            decides_in=None,
            decides_for=None,
            item=0,
            item_count=task.item_count,
            items=listed,
        )

    def to(self, caller: Caller, decider: Decider) -> RequestDetail:
        """The request or item as shown to this caller."""
        part, task, own, template = self.part, self.part.task, self.part.own, self.part.own.template
        about, asked = tuple_of(part, self.seal), asked_of(part, self.seal)
        # All items share one context; the call in it is shown with the tool that it calls, and with nothing else.
        is_called = part.row is None or own.resource_id == task.tool
        call: Mapping[str, Any] = asked.get("tool_call", {}) if is_called else {}
        refusal = why_not(caller, part, self.board, decider, now=self.now)
        approval = votes.approval_of(self.session, task.id, item=part.item)
        shown = _values(about, call, template, bound=own.binding_members, wishes=asked.get("requested_access", {}))
        return RequestDetail(
            id=task.id,
            item=part.item,
            status=own.status,
            version=own.version,
            template_id=own.template_id,
            template_title=template["title"],
            explanation=template["explanation"],
            effect=effect_sentence(part, self.seal),
            caution=template["caution"],
            risk=template["risk"],
            subject=_named(about.subject),
            resource=_named(about.resource),
            action={"name": visible(own.action_name)},
            submitter=visible(task.submitter),
            client_id=visible(task.client_id),
            agent=_visible(task.agent),
            **_called(task, call, is_called=is_called),
            **told_apart(self.session, self.ring, part, shown, quoted=JUSTIFICATION),
            arguments_hash=task.arguments_hash,
            complete=call.get("complete", True) is True if call else task.arguments_hash is None,
            justification=_justification(about.context, asked),
            rule_id=own.rule_id,
            reason=own.reason,
            evaluation_id=own.evaluation_id,
            created_at=task.created_at,
            deadline=own.pending_until,
            expires_at=task.expires_at,
            ended_at=own.ended_at,
            ended_by=own.ended_by,
            **self._course(),
            approval=None if approval is None else _approval(approval),
            may_decide=refusal is None,
            why_not=None if refusal == "ended" else refusal,
            max_approved_until=latest_end(part, now=self.now) if own.status == "pending" else None,
            pending_approval=self._pending_approval() if own.status == "pending" else None,
            **terms_of(part, self.board, caller, decider, asked=asked, approval=approval),
            **beside(self.session, part, self.board, caller, decider, ring=self.ring, now=self.now),
        )

    def _course(self) -> dict[str, Any]:
        """Steps, votes, history and reports."""
        task, item = self.part.task, self.part.item
        entries = audit.entries_of(self.session, task.id)
        names = names_for(self.session, self.board, entries)
        titles = {step.step_id: step.title for step in self.board.steps}
        return {
            "steps": tuple(self._steps()),
            "votes": tuple(self._votes(names)),
            "history": tuple(history_of(entries, names=names, titles=titles, items=self.items)),
            "executions": tuple(_execution(row) for row in votes.executions_of(self.session, task.id, item=item)),
        }

    def _steps(self) -> Sequence[StepView]:
        titles = {step.step_id: step.title for step in self.board.steps}
        return [
            StepView(
                id=step.step_id,
                title=step.title,
                quorum=step.quorum,
                approvals=self._said(step.step_id, "approve"),
                denials=self._said(step.step_id, "deny"),
                status="later" if step.status == "waiting" and step.opened_at is None else step.status,
                after=tuple(titles[name] for name in step.after),
                deadline=deadline_of(timing_of(step.timing), step.opened_at) if step.status == "waiting" else None,
                escalated_at=step.escalated_at,
                veto=step.veto,
            )
            for step in self.board.steps
        ]

    def _said(self, step_id: str, decision: str) -> int:
        return sum(vote.step_id == step_id and vote.decision == decision for vote in self.board.votes)

    def _votes(self, names: Mapping[str, str]) -> Sequence[VoteView]:
        return [
            VoteView(
                at=vote.at,
                step_id=vote.step_id,
                voter=visible(names.get(f"{vote.voter_kind}:{vote.voter}", vote.voter)),
                kind=vote.voter_kind,
                decision=vote.decision,
                reason=(
                    None
                    if vote.reason_sealed is None
                    else visible(self.seal.open_at(f"vote:{vote.id}:reason_sealed", vote.reason_sealed))
                ),
                proposed=self._proposed(vote),
                in_place_of=(
                    None
                    if vote.in_place_of is None
                    else visible(names.get(f"person:{vote.in_place_of}", vote.in_place_of))
                ),
            )
            for vote in self.board.votes
        ]

    def _proposed(self, vote: Vote) -> tuple[ArgumentView, ...]:
        if vote.proposed_sealed is None:
            return ()
        template = self.part.own.template
        proposed = self.seal.open_at(f"vote:{vote.id}:proposed_sealed", vote.proposed_sealed)
        return _views(reveal(proposed, allowed=template["reveal"], mask=template["mask"]).shown)

    def _pending_approval(self) -> Mapping[str, Any] | None:
        task = self.part.task
        if self.part.row is not None:
            return None  # its identifier names a request that one answer settles
        if task.server is None or task.tool is None or task.arguments_hash is None:
            return None
        return pending_approval(  # GOV-01
            approval_id=task.id,
            server=task.server,
            tool=task.tool,
            arguments_hash=task.arguments_hash,
            expires_at=task.pending_until,
            policy_basis={"rule": task.rule_id, "reason": task.reason},
        )


def _values(
    about: Tuple4,
    call: Mapping[str, Any],
    template: Mapping[str, Any],
    *,
    bound: Collection[str],
    wishes: Mapping[str, Any],
) -> dict[str, Any]:
    """Arguments, facts, and the names of what is hidden; without a tool call everything asked counts as arguments.

    The allow-list holds for all; what is not `bound` is no part of what is approved, and not missed when hidden, except
    for what the requester was asked to say (`wishes`), which a reviewer would look for.
    """
    allowed: Reveal = template["reveal"]
    mask = template["mask"]
    said_apart = {name: value for name, value in wishes.items() if name not in _SHOWN_ELSEWHERE}
    wished = reveal({"requested_access": said_apart} if said_apart else {}, allowed=allowed, mask=mask)
    asked = {
        name: properties
        for name, properties in (
            ("subject", about.subject.get("properties")),
            ("resource", about.resource.get("properties")),
            ("action", about.action.get("properties")),
            ("context", {key: value for key, value in about.context.items() if key not in _NAMED}),
        )
        if properties
    }
    if not call:
        everything = reveal(asked, allowed=allowed, mask=mask)
        hidden = (*everything.hidden, *wished.hidden)
        return {"arguments": _views(everything.shown), "facts": _views(wished.shown), "hidden": hidden}
    arguments = reveal(call.get("arguments", {}), allowed=allowed, mask=mask)
    said = asked.pop("context", {})
    proven = bound_context(said, bound)
    loose = {name: member for name, member in said.items() if name not in proven}
    facts = reveal({**asked, **({"context": proven} if proven else {})}, allowed=allowed, mask=mask)
    unbound = reveal({"context": loose}, allowed=allowed, mask=mask).shown if loose else ()
    return {
        "arguments": _views(arguments.shown),
        "facts": _views((*facts.shown, *unbound, *wished.shown)),
        "hidden": (*arguments.hidden, *facts.hidden, *wished.hidden),
    }


def _called(task: Task, call: Mapping[str, Any], *, is_called: bool) -> dict[str, Any]:
    """The tool that would be called, if any."""
    return {
        "server": _visible(task.server) if is_called else None,
        "tool": _visible(task.tool) if is_called else None,
        "tool_title": _visible(call.get("title")),
    }


def _views(shown: Sequence[Shown]) -> tuple[ArgumentView, ...]:
    return tuple(map(argument_view, shown))


def _justification(context: Mapping[str, Any], asked: Mapping[str, Any]) -> str | None:
    for place in (context, asked.get("requested_access", {})):
        text = place.get(JUSTIFICATION)
        if isinstance(text, str) and text:
            return visible(text)
    return None


def _named(thing: Mapping[str, Any]) -> dict[str, str]:
    return {"type": visible(thing["type"]), "id": visible(thing["id"])}


def _visible(text: str | None) -> str | None:
    return None if text is None else visible(text)


def _approval(row: Approval) -> ApprovalView:
    return ApprovalView(
        id=row.id,
        approved_at=row.approved_at,
        approved_until=row.approved_until,
        status=row.status,
        may_vary=tuple((row.scope or {}).get("may_vary", ())),
    )


def _execution(row: Execution) -> ExecutionView:
    return ExecutionView(at=row.at, disposition=row.disposition, generation=row.generation, received_at=row.received_at)

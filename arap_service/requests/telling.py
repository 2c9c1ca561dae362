"""Words about a request: what approving does, who did something, what happened. No protocol term, no decision."""

import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from sqlmodel import Session

from arap_service.domain.visible import visible
from arap_service.records import Part
from arap_service.requests.voters import Board
from arap_service.sealed import RowSeal
from arap_service.store import people
from arap_service.store.tables import AuditEntry, Task
from arap_service.views import HistoryView

_SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "task_submitted": "Asked for approval",
        "task_approved": "Approved: everybody who had to agree has agreed",
        "task_denied": "Denied",
        "task_cancelled": "Withdrawn",
        "task_expired": "Ran out of time without a decision",
        "task_failed": "Could not be handled",
        "task_partial": "Everything is settled, not everything alike",
        "item_approved": "Approved: everybody who had to agree has agreed",
        "item_denied": "Denied",
        "item_cancelled": "Withdrawn",
        "item_expired": "Ran out of time without a decision",
        "item_failed": "Could not be handled",
        "step_escalated": "Asked further people, since nobody had decided",
        "approval_revoked": "Took the approval back",
        "emergency_used": "Used in an emergency: somebody has to look at it afterwards",
        "emergency_reviewed": "Looked at the emergency afterwards",
        "review_refused": "Tried to close the review and was refused",
        "rule_proposed": "Proposed to decide requests like this one always so",
        "question_asked": "Asked the requester for more",
        "question_answered": "Answered the question",
        "form_used": "Added what the requester had filled in",
        "commented": "Commented",
        "claimed": "Said that they work on it",
        "released": "Ended the work on it",
    }
)
_REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "missing_scope": "Tried to decide without the right to do so",
        "is_subject": "Tried to decide a request made in the same person's name",
        "is_submitter": "Tried to decide a request of their own",
        "is_actor": "Tried to decide a request that they carry out",
        "not_active": "Tried to decide with an account that is not active",
        "not_assigned": "Tried to decide without being asked to",
        "step_not_open": "Tried to decide before it was their turn",
        "absent_may_not": "Tried to decide in the place of somebody who may not",
        "already_decided": "Tried to decide a second time",
        "counted_in_another_step": "Tried to decide in a second step",
    }
)
_SYSTEM: Final[Mapping[str, str]] = MappingProxyType({"system": "the service", "policy": "the rules"})


def effect_sentence(part: Part, seal: RowSeal) -> str:
    """One sentence that says what will happen if the request or item is approved."""
    task, own = part.task, part.own
    if own.effect_sealed is not None:
        return visible(str(seal.open(part.column("effect_sealed"), own.effect_sealed)))
    who = visible(task.agent or task.client_id)
    if task.tool is not None and (part.row is None or own.resource_id == task.tool):
        where = f" on {visible(task.server)}" if task.server else ""
        return f"{who} may call {visible(task.tool)}{where} for {visible(task.subject_id)}."
    thing = f"{visible(own.resource_type)} {visible(own.resource_id)}"
    return f"{who} may do {visible(own.action_name)} on {thing} for {visible(task.subject_id)}."


def bundle_sentence(task: Task, items: int) -> str:
    """One sentence that says how much a bundle asks for; `items` are those that the reader sees."""
    who = visible(task.agent or task.client_id)
    return f"{who} asks for {items} {'thing' if items == 1 else 'things'} together for {visible(task.subject_id)}."


def names_for(session: Session, board: Board, entries: Sequence[AuditEntry]) -> dict[str, str]:
    """The names behind `person:<id>`, `resolver:<client>` and the service's own voices, as far as they are known."""
    return names_of_marks(
        session,
        {f"{vote.voter_kind}:{vote.voter}" for vote in board.votes}
        | {f"person:{vote.in_place_of}" for vote in board.votes if vote.in_place_of is not None}
        | {entry.actor for entry in entries},
    )


def names_of_marks(session: Session, marks: Collection[str]) -> dict[str, str]:
    """The names behind these marks; one that nobody is known by is told as it is."""
    person_ids = {mark.removeprefix("person:") for mark in marks if mark.startswith("person:")}
    named = {f"person:{person_id}": name for person_id, name in people.names_of(session, person_ids).items()}
    return {**{mark: _plain(mark) for mark in marks}, **named}


def _plain(mark: str) -> str:
    if mark in _SYSTEM:
        return _SYSTEM[mark]
    kind, _, rest = mark.partition(":")
    if kind in {"person", "resolver", "evaluator"}:
        return rest
    _, separator, subject = mark.partition("|")  # a principal: issuer and subject
    return subject if separator else mark


def history_of(
    entries: Sequence[AuditEntry],
    *,
    names: Mapping[str, str],
    titles: Mapping[str, str],
    items: Collection[int],
) -> list[HistoryView]:
    """What happened, in words, oldest first; `names` of actors, `titles` of steps, the `items` that the reader sees."""
    return [
        HistoryView(at=entry.at, kind=entry.kind, who=visible(names.get(entry.actor, entry.actor)), text=text)
        for entry in entries
        if (text := _told(entry, titles, items, names)) is not None
    ]


def _told(entry: AuditEntry, titles: Mapping[str, str], items: Collection[int], names: Mapping[str, str]) -> str | None:
    detail = json.loads(entry.detail)
    item = detail.get("item", 0)
    text = _sentence(entry.kind, detail, titles)
    if text is not None and "in_place_of" in detail:
        absent = str(detail["in_place_of"])
        text += f", in the place of {visible(names.get(f'person:{absent}', absent))}"
    if text is None or not item:
        return text
    return f"Item {item}: {text[0].lower()}{text[1:]}" if item in items else None


def _sentence(kind: str, detail: Mapping[str, Any], titles: Mapping[str, str]) -> str | None:
    match kind:
        case "vote_cast":
            done = "Approved" if detail.get("decision") == "approve" else "Denied"
            step = str(detail.get("step"))
            return f"{done} in step {titles.get(step, step)}"
        case "decision_refused":
            return _REFUSED.get(str(detail.get("code")), "Tried to decide and was refused")
        case "evaluator_heard":
            return f"The rule {visible(str(detail.get('evaluator')))} said: {visible(str(detail.get('said')))}"
        case "execution_reported":
            return "Reported what became of the approval"
        case _:
            return _SENTENCES.get(kind)

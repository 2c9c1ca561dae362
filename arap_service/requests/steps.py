"""The steps of a request as rows: written when it is made, opened when those that they wait for are complete.

Which steps are complete is decided in `domain/workflow.py`. Access Request and Approval Profile, "Evaluators and
Workflow Design".
"""

from collections.abc import Collection
from datetime import datetime

from arap_service.domain.appointing import ANYBODY, bonds_of
from arap_service.domain.policy import Step, Template
from arap_service.domain.timing import Timing, dues, timing_as_json, timing_of
from arap_service.records import Part
from arap_service.requests.voters import Board
from arap_service.store import tasks
from arap_service.store.database import WriteSession
from arap_service.store.rows import add_rows
from arap_service.store.step_tables import StepDue
from arap_service.store.tables import StepState, StepVoice


def add_steps(session: WriteSession, part: Part, template: Template) -> None:
    """Write the workflow as the template has it now; what waits for nothing is open with the request."""
    task, item = part.task, part.item
    states = [
        {
            "task_id": task.id,
            "item": item,
            "step_id": step.id,
            "position": position,
            "title": step.title,
            "quorum": step.quorum,
            "veto": step.veto,
            "repeat": step.repeat,
            "status": "waiting",
            "after": sorted(step.after),
            "opened_at": None if step.after else task.created_at,
            "who": step.who,
            "timing": timing_as_json(step.timing),
            "escalated_at": None,
        }
        for position, step in enumerate(template.steps)
    ]
    add_rows(session, StepState, states)
    add_rows(session, StepVoice, [voice for step in template.steps for voice in _voices(part, step)])
    opened = [step for step in template.steps if not step.after]
    add_rows(session, StepDue, [row for step in opened for row in _due(part, step.id, step.timing, task.created_at)])


def open_steps(session: WriteSession, part: Part, board: Board, *, later: Collection[str], now: datetime) -> None:
    """Open what still waits for other steps, but for those that go on doing so (`later`)."""
    for state in board.steps:
        if state.opened_at is None and state.step_id not in later:
            tasks.open_step(session, part.task.id, item=part.item, step_id=state.step_id, at=now)
            add_rows(session, StepDue, _due(part, state.step_id, timing_of(state.timing), now))


def _due(part: Part, step_id: str, timing: Timing, opened_at: datetime) -> list[dict[str, object]]:
    return [
        {
            "task_id": part.task.id,
            "item": part.item,
            "step_id": step_id,
            "kind": each.kind,
            "number": each.number,
            "due_at": each.at,
            "done_at": None,
        }
        for each in dues(timing, opened_at)
    ]


def _voices(part: Part, step: Step) -> list[dict[str, object]]:
    task, own = part.task, part.own
    things = {
        "subject": (task.subject_type, task.subject_id),
        "resource": (own.resource_type, own.resource_id),
    }
    named = {
        "group": step.groups,
        "person": step.people,
        "resolver": step.resolvers,
        "relation": bonds_of(step.relations, things),
        "anybody": frozenset() if step.who is None else frozenset({ANYBODY}),
    }
    return [
        {"task_id": task.id, "item": part.item, "step_id": step.id, "kind": kind, "name": name}
        for kind, names in named.items()
        for name in sorted(names)
    ]

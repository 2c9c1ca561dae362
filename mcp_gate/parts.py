"""The parts of a task that are sealed or come with a transition, read and written inside the caller's transaction.

Beside `store`; decides nothing.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from mcp_gate import statements
from mcp_gate.backend import NOTHING, Handle, InputQuestion
from mcp_gate.events import ChainRequested, Event, InputAsked, SubmissionRefused
from mcp_gate.lifecycle import GateTask
from mcp_gate.records import (
    Changes,
    NewSubmission,
    Question,
    Submission,
    Vault,
    dump_body,
    dump_handle,
    load_body,
    load_handle,
    opened,
    reference,
)
from mcp_gate.tables import Delivery, InputState, SubmissionState


@dataclass(frozen=True, slots=True)
class Writing:
    """What a write needs from outside: the time, fresh ids, and how long results are kept."""

    clock: Callable[[], datetime]
    new_id: Callable[[str], str]
    retention: timedelta


def read_submission(vault: Vault | None, row: statements.AnyRow) -> Submission:
    """A submission with what opens of it."""
    part = str(row.generation)
    handle = opened(vault, "gate_submission.handle", row.handle, part=part)
    sealed = opened(vault, "gate_submission.body", row.body, part=part)
    body, artifacts, supplied = (None, (), NOTHING) if sealed is None else load_body(json.loads(sealed))
    return Submission(
        generation=row.generation,
        key=row.key,
        state=SubmissionState(row.state),
        created_at=row.created_at,
        body=body,
        handle=None if handle is None else load_handle(json.loads(handle)),
        artifacts=artifacts,
        supplied=supplied,
    )


def questions(connection: Connection, vault: Vault | None, task_id: str) -> tuple[Question, ...]:
    """Every question of a task."""
    found = []
    for row in statements.question_rows(connection, task_id):
        request = opened(vault, "gate_input.request", row.request, part=row.key)
        answer = opened(vault, "gate_input.answer", row.answer, part=row.key)
        if request is not None:
            asked = InputQuestion(**json.loads(request))
            given = None if answer is None else json.loads(answer)
            state = InputState(row.state)
            found.append(Question(row.key, row.generation, row.question_version, state, asked, given))
    return tuple(found)


def write_parts(
    connection: Connection, vault: Vault, before: GateTask, after: GateTask, *, event: Event, changes: Changes
) -> None:
    """The sealed parts that come with a transition."""
    if changes.handle is not None:
        set_handle(connection, vault, after.id, after.generation, handle=changes.handle)
    match event:
        case SubmissionRefused():
            statements.set_submission_state(connection, after.id, after.generation, SubmissionState.REFUSED)
        case ChainRequested() if changes.submission is not None and after.generation > before.generation:
            # PEP-101: the old generation is consumed before the backend hears of the new one.
            statements.set_submission_state(connection, after.id, before.generation, SubmissionState.CONSUMED)
            insert_submission(connection, vault, after, changes.submission)
        case InputAsked():
            for asked in changes.questions:
                insert_question(connection, vault, after, asked)
        case _:
            pass
    if changes.result is not None:
        sealed = vault.seal_json("gate_outcome.result", changes.result)
        statements.insert_outcome(connection, after.id, result=sealed, now=after.updated_at)


def insert_submission(connection: Connection, vault: Vault, task: GateTask, new: NewSubmission) -> None:
    """A submission about to be sent."""
    body = dump_body(new.body, new.artifacts, new.supplied)
    values = {
        "task_id": task.id,
        "generation": task.generation,
        "key": new.key,
        "body": vault.seal_json("gate_submission.body", body, part=str(task.generation)),
        "state_ref": reference(new.callback_state),
        "created_at": task.updated_at,
    }
    statements.insert_submission(connection, values)


def set_handle(connection: Connection, vault: Vault, task_id: str, generation: int, *, handle: Handle) -> None:
    """The backend's handle of a submission."""
    sealed = vault.seal_json("gate_submission.handle", dump_handle(handle), part=str(generation))
    statements.set_handle(connection, task_id, generation, handle=sealed, ref=reference(handle.task_id))


def insert_question(connection: Connection, vault: Vault, task: GateTask, asked: InputQuestion) -> None:
    """A question to the client."""
    this = (task.generation, asked.version)
    rows = statements.question_rows(connection, task.id)
    before = sum((row.generation, row.question_version) == this for row in rows)
    key = question_key(task.generation, asked.version, before=before)
    request = {"message": asked.message, "schema": dict(asked.schema), "version": asked.version}
    values = {
        "task_id": task.id,
        "key": key,
        "generation": task.generation,
        "question_version": asked.version,
        "request": vault.seal_json("gate_input.request", request, part=key),
        "created_at": task.updated_at,
    }
    statements.insert_question(connection, values)


def question_key(generation: int, version: int, *, before: int = 0) -> str:
    """The key of a question on the wire, `before` of which were put already; no key is ever used again (PEP-85)."""
    return f"input-{generation}-{version}" + (f"-{before + 1}" if before else "")


def insert_delivery(
    connection: Connection, task: GateTask, kind: Delivery, *, generation: int, said: str | None, writing: Writing
) -> None:
    """Something to tell the backend."""
    now = writing.clock()
    values = {
        "id": writing.new_id("out"),
        "task_id": task.id,
        "kind": kind,
        "generation": generation,
        "reference": said,
        "due_at": now,
        "created_at": now,
    }
    statements.insert_delivery(connection, values)


def audit(connection: Connection, task_id: str, *, at: datetime, kind: str, detail: Mapping[str, Any]) -> None:
    """One more line of the task's record."""
    text = json.dumps(detail, ensure_ascii=False, sort_keys=True, default=str)
    statements.append_audit(connection, task_id, at=at, kind=kind, detail=text)

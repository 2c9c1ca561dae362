"""Very many requests at once, written past the use cases: what a service holds after years, for whoever measures it.

Most have ended; the newest wait. What is listed and opened is sealed as it would be; of the ended ones only the rows
that lists, searches and reads touch are there.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import DateTime, bindparam, text

from arap_service.protocol.canonical import digest
from arap_service.protocol.sealing import KeyRing
from arap_service.requests.creation import searched_words
from arap_service.sealed import RowSeal
from arap_service.store.database import Database, WriteSession
from arap_service.store.rows import add_rows, table_of
from arap_service.store.search_tables import TaskSearch
from arap_service.store.tables import AuditHead, Row, StepState, StepVoice, Task

BATCH: Final = 5_000
_AT_ONCE: Final = 50
_TOOLS: Final = ("wire_transfer", "git_commit", "send_mail", "grant_role", "drop_table")
_ENDED: Final = ("approved", "denied", "expired", "cancelled")
_KEPT: Final = timedelta(days=365)


def store(
    database: Database,
    ring: KeyRing,
    *,
    many: int,
    waiting: int,
    now: datetime,
    voices: Mapping[str, str],
    who: str | None = None,
    first: int = 0,
) -> list[str]:
    """Write `many` requests of which the last `waiting` are pending; the ids of those.

    `voices` are kind and name of who may decide in the one step of each, `who` its expression.
    """
    ids: list[str] = []
    for start in range(first, first + many, BATCH):
        numbers = range(start, min(start + BATCH, first + many))
        rows = [_rows(ring, n, is_open=n >= first + many - waiting, now=now, voices=voices, who=who) for n in numbers]
        ids += [found[Task][0]["id"] for found in rows if found[Task][0]["status"] == "pending"]

        def work(session: WriteSession, rows: list[dict[type[Row], list[dict[str, Any]]]] = rows) -> None:
            for kind in (Task, StepState, StepVoice, TaskSearch, AuditHead):
                add_rows(session, kind, [row for found in rows for row in found[kind]])

        database.write_now(work)
    return ids


def _rows(
    ring: KeyRing, number: int, *, is_open: bool, now: datetime, voices: Mapping[str, str], who: str | None
) -> dict[type[Row], list[dict[str, Any]]]:
    task = _task(ring, number, is_open=is_open, now=now)
    step = {
        "task_id": task["id"],
        "item": 0,
        "step_id": "review",
        "position": 0,
        "title": "Review",
        "quorum": 1,
        "veto": 1,
        "repeat": False,
        "status": "waiting" if is_open else "completed",
        "after": [],
        "opened_at": task["created_at"],
        "who": who,
        "timing": None,
        "escalated_at": None,
    }
    spoken = [{"task_id": task["id"], "item": 0, "step_id": "review", "kind": k, "name": n} for k, n in voices.items()]
    words = {"task_id": task["id"], "words": " ".join(searched_words(Task(**task)))}
    head = {"chain": task["id"], "seq": 0, "hash": "0" * 64, "placed": 0}
    return {Task: [task], StepState: [step], StepVoice: spoken, TaskSearch: [words], AuditHead: [head]}


def _task(ring: KeyRing, number: int, *, is_open: bool, now: datetime) -> dict[str, Any]:
    task_id, tool = f"task_{digest(['bench', number])[7:29]}", _TOOLS[number % len(_TOOLS)]
    seal = RowSeal.new(ring, table="task", row_id=task_id)
    subject, arguments = f"person-{number % 1000}", {"amount": number, "to": f"acct-{number}"}
    about = {
        "subject": {"type": "user", "id": subject},
        "resource": {"type": "tool", "id": tool},
        "action": {"name": "tools/call"},
        "context": {},
    }
    call = {"server": "bank", "tool": tool, "arguments": arguments, "complete": True}
    created = now - (timedelta(seconds=number % 3_000) if is_open else timedelta(minutes=60 + number % 600))
    until = created + timedelta(days=1) if is_open else created + timedelta(hours=1)
    return {
        "id": task_id,
        "status": "pending" if is_open else _ENDED[number % len(_ENDED)],
        "version": 1 if is_open else 2,
        "template_id": "work",
        "policy_version": "bench",
        "rule_id": "ask",
        "reason": "needs_review",
        "template": _TEMPLATE,
        "subject_type": "user",
        "subject_id": subject,
        "resource_type": "tool",
        "resource_id": tool,
        "action_name": "tools/call",
        "submitter_iss": "https://id.example",
        "submitter_sub": "gate",
        "submitter": "https://id.example|gate",
        "client_id": "gate",
        "agent": f"agent-{number % 50}",
        "actors": [],
        "channel": "api",
        "server": "bank",
        "tool": tool,
        "item_count": 0,
        "evaluation_id": None,
        "binding": "token",
        "binding_iss": None,
        "binding_jti": None,
        "binding_hash": "0" * 64,
        "binding_members": [],
        "arguments_hash": None,
        "body_digest": "0" * 64,
        "created_at": created,
        "pending_until": until,
        "requested_until": None,
        "expires_at": now + _KEPT,
        "ended_at": None if is_open else until,
        "ended_by": None if is_open else "quorum",
        "callback_endpoint": None,
        "callback_events": [],
        "data_key": seal.wrapped,
        "tuple_sealed": seal.seal("tuple_sealed", about) if is_open else b"",
        "request_sealed": seal.seal("request_sealed", {"tool_call": call}) if is_open else b"",
        "effect_sealed": None,
        "callback_state_sealed": None,
        "decision_sealed": None,
    }


_TEMPLATE: Final[dict[str, Any]] = {
    "title": "Work",
    "explanation": "Somebody has to agree.",
    "caution": None,
    "risk": "medium",
    "reveal": "whole",
    "reveal_reason": True,
    "notify": "title",
    "mask": [],
    "approval_seconds": 900,
    "reason_required": ["deny"],
    "step_up": None,
    "standing_days": 0,
    "emergency": None,
    "scope": None,
    "reasons": {},
}


def multiply(database: Database, *, copies: int, now: datetime) -> None:
    """Copy what has ended so often, each time an hour further back; in the database, since it is so much."""
    for first in range(1, copies + 1, _AT_ONCE):
        marks = range(first, min(first + _AT_ONCE, copies + 1))
        database.write_now(partial(_copy, marks=marks, now=now))
    database.write_now(lambda session: session.execute(text("ANALYZE")))  # as after a while it is done anyway


def _copy(session: WriteSession, *, marks: range, now: datetime) -> None:
    original = "FROM task WHERE created_at > :since AND ended_by = 'quorum'"
    for mark in marks:
        for kind in (Task, StepState, StepVoice, TaskSearch):
            table = table_of(kind)
            changed = {"task_id": "task_id || :mark"}
            wanted = f"FROM {table.name} WHERE task_id IN (SELECT id {original})"  # names of our own
            if kind is Task:
                moved = dict.fromkeys(("created_at", "pending_until", "ended_at"), ":at")
                changed, wanted = {"id": "id || :mark", **moved, "ended_by": "'copied'"}, original
            columns = [column.key for column in table.columns if column.key != "number"]
            values = ", ".join(changed.get(name, name) for name in columns)
            statement = text(f"INSERT INTO {table.name} ({', '.join(columns)}) SELECT {values} {wanted}")
            given = {"mark": f"c{mark}", "since": now - timedelta(hours=20)}
            if kind is Task:
                given["at"] = now - timedelta(hours=24 + mark)
            moments = [bindparam(name, type_=DateTime(timezone=True)) for name in given if name != "mark"]
            session.execute(statement.bindparams(*moments), given)

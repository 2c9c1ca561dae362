"""Very many requests at once, written past the use cases: what a service holds after years, for whoever measures it.

Most have ended; the newest wait. What is listed and opened is sealed as it would be; of the ended ones only the rows
that lists, searches and reads touch are there.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from arap_service.protocol.canonical import digest
from arap_service.protocol.sealing import KeyRing
from arap_service.requests.creation import searched_words
from arap_service.sealed import RowSeal
from arap_service.store.database import Database, WriteSession
from arap_service.store.rows import add_rows
from arap_service.store.search_tables import TaskSearch
from arap_service.store.tables import AuditHead, Row, StepState, StepVoice, Task

BATCH: Final = 5_000
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
    # Ended ones go back in time, an hour for each hundred.
    created = now - timedelta(seconds=36 * (1_000_000 - number % 1_000_000) if not is_open else number % 3_000)
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


def open_ids(ids: list[str]) -> Iterator[str]:
    """Those that wait, one after the other, for ever."""
    while True:
        yield from ids

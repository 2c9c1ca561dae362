"""Rows for tests that care about a few columns only."""

from datetime import datetime, timedelta
from typing import Any

from arap_service.store.tables import StepState, StepVoice, Task


def a_task(task_id: str = "task_1", *, now: datetime, **changes: Any) -> Task:
    """A pending task that was submitted at `now` and has a day."""
    columns: dict[str, Any] = {
        "id": task_id,
        "status": "pending",
        "version": 1,
        "template_id": "transfer",
        "policy_version": "v1",
        "rule_id": "large-transfers",
        "reason": "needs_approval",
        "template": {},
        "subject_type": "user",
        "subject_id": "alice",
        "resource_type": "tool",
        "resource_id": "wire_transfer",
        "action_name": "tools/call",
        "submitter_iss": "https://issuer.example",
        "submitter_sub": "gate",
        "submitter": "https://issuer.example|gate",
        "client_id": "gate",
        "channel": "api",
        "evaluation_id": f"ev_{task_id}",
        "binding": "token",
        "binding_hash": "h",
        "binding_members": [],
        "body_digest": "d",
        "created_at": now,
        "pending_until": now + timedelta(days=1),
        "expires_at": now + timedelta(days=2),
        "data_key": b"k",
        "tuple_sealed": b"t",
        "request_sealed": b"r",
    }
    return Task(**(columns | changes))


def a_step(task_id: str = "task_1", step_id: str = "treasury", **changes: Any) -> StepState:
    """A waiting step of one approval."""
    columns: dict[str, Any] = {"position": 0, "title": "Treasury", "quorum": 1, "veto": 1}
    return StepState(task_id=task_id, step_id=step_id, **(columns | changes))


def a_voice(task_id: str = "task_1", step_id: str = "treasury", *, kind: str = "group", name: str) -> StepVoice:
    """Who may speak in that step."""
    return StepVoice(task_id=task_id, step_id=step_id, kind=kind, name=name)

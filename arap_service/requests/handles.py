"""The task handle as an enforcement point sees it: only members that the profile defines, and nothing about people.

Access Request and Approval Profile, "Task Handle", "Completed Task Response" (ARS-50 to ARS-60, ARS-65).
"""

from typing import Any

from arap_service.protocol.arap import DISPLAY_DECISION, LINK_REPORT, REEVALUATE, TaskStatus, format_instant
from arap_service.sealed import RowSeal
from arap_service.settings import Settings
from arap_service.store.tables import Approval, Task


def task_handle(task: Task, settings: Settings, *, reason: str | None = None) -> dict[str, Any]:
    """The `task` member; `reason` is what a denier wrote, for a template that reveals it."""
    url = f"{settings.access_request_endpoint}/{task.id}"
    handle: dict[str, Any] = {
        "id": task.id,
        "status": task.status,
        "status_endpoint": url,
        "expires_at": format_instant(task.expires_at),  # ARS-53
    }
    if task.status == TaskStatus.PENDING:
        handle["links"] = {"cancel": f"{url}/cancel"}  # ARS-71
    elif task.status == TaskStatus.APPROVED:
        handle["links"] = {LINK_REPORT: f"{url}/report"}
    elif reason is not None:
        handle["display"] = {DISPLAY_DECISION: {"reason": reason}}
    return handle


def approval_result(approval: Approval) -> dict[str, Any]:
    """The `result` member of an approved task (ARS-59, ARS-61)."""
    return {
        "mode": REEVALUATE,
        "approval": {
            "id": approval.id,
            "approved_at": format_instant(approval.approved_at),
            "approved_until": format_instant(approval.approved_until),
            "state": approval.state,
        },
    }


def response(task: Task, settings: Settings, *, approval: Approval | None, seal: RowSeal) -> dict[str, Any]:
    """What a submission or a status request is answered with; `approval` is None for callers who may not see it."""
    answer: dict[str, Any] = {"task": task_handle(task, settings, reason=revealed_reason(task, seal))}
    if task.status == TaskStatus.APPROVED and approval is not None:  # ARS-66, X-12
        answer["result"] = approval_result(approval)
    return answer


def revealed_reason(task: Task, seal: RowSeal) -> str | None:
    """Why a task was denied, as far as its template lets the requester know."""
    if task.status != TaskStatus.DENIED or task.decision_sealed is None or not task.template.get("reveal_reason"):
        return None
    reason = seal.open("decision_sealed", task.decision_sealed).get("reason")
    return reason if isinstance(reason, str) else None

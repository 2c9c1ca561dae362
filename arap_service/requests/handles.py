"""The task handle as an enforcement point sees it: only members that the profile defines, and nothing about people.

Access Request and Approval Profile, "Task Handle", "Completed Task Response" (ARS-50 to ARS-60, ARS-65); for a bundle
the outcome of each item stands with the item, and none with the whole (ARS-82).
"""

from collections.abc import Mapping
from typing import Any

from sqlmodel import Session

from arap_service.protocol.arap import DISPLAY_DECISION, LINK_INPUT, LINK_REPORT, REEVALUATE, TaskStatus, format_instant
from arap_service.records import Part, tuple_of
from arap_service.sealed import RowSeal
from arap_service.settings import Settings
from arap_service.store import conversations, items, votes
from arap_service.store.tables import Approval, Task


def task_handle(
    task: Task, settings: Settings, *, decision: Mapping[str, Any] | None = None, is_asked: bool = False
) -> dict[str, Any]:
    """The `task` member without items; `decision` is what a denier said, for a template that reveals it.

    `is_asked` says that a reviewer's question waits for its answer.
    """
    url = f"{settings.access_request_endpoint}/{task.id}"
    handle: dict[str, Any] = {
        "id": task.id,
        "status": task.status,
        "status_endpoint": url,
        "expires_at": format_instant(task.expires_at),  # ARS-53
    }
    if task.status == TaskStatus.PENDING:
        handle["links"] = {"cancel": f"{url}/cancel"}  # ARS-71
        if is_asked:
            handle["links"][LINK_INPUT] = f"{url}/input"
    elif task.item_count:
        pass  # what has become of it stands with the items
    elif task.status == TaskStatus.APPROVED:
        handle["links"] = {LINK_REPORT: f"{url}/report"}
    elif decision is not None:
        handle["display"] = {DISPLAY_DECISION: decision}
    return handle


def handle_of(session: Session, task: Task, settings: Settings, *, seal: RowSeal) -> dict[str, Any]:
    """The `task` member of a notification, or of an answer to somebody who may not see results."""
    if not task.item_count:
        return task_handle(task, settings)
    return {**task_handle(task, settings), "items": _items(session, task, settings, seal=seal, approvals={})}


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


def response(
    session: Session, task: Task, settings: Settings, *, may_have: bool, seal: RowSeal, is_new: bool = False
) -> dict[str, Any]:
    """What a submission or a status request is answered with; `may_have` tells whether the caller may see results.

    Nobody can have asked anything about a task that `is_new`: it was made in this transaction.
    """
    is_asked = not is_new and task.status == TaskStatus.PENDING and conversations.is_asked(session, task.id)
    if task.item_count:
        approvals = votes.approvals_of(session, task.id) if may_have else {}
        listed = _items(session, task, settings, seal=seal, approvals=approvals)
        return {"task": {**task_handle(task, settings, is_asked=is_asked), "items": listed}}
    decision = revealed_decision(Part(task), seal)
    answer: dict[str, Any] = {"task": task_handle(task, settings, decision=decision, is_asked=is_asked)}
    approval = votes.approval_of(session, task.id) if task.status == TaskStatus.APPROVED and may_have else None
    if approval is not None:  # ARS-66, X-12
        answer["result"] = approval_result(approval)
    return answer


def _items(
    session: Session, task: Task, settings: Settings, *, seal: RowSeal, approvals: Mapping[int, Approval]
) -> list[dict[str, Any]]:
    """One element for each item, at the place that it had in the submission (ARS-82)."""
    url = f"{settings.access_request_endpoint}/{task.id}"
    listed: list[dict[str, Any]] = []
    for row in items.items_of(session, [task.id]):
        part = Part(task, row)
        about = tuple_of(part, seal)
        element: dict[str, Any] = {"resource": about.resource, "action": about.action, "status": row.status}
        if row.status == TaskStatus.APPROVED:
            element["links"] = {LINK_REPORT: f"{url}/items/{row.item}/report"}
            if row.item in approvals:
                element["result"] = approval_result(approvals[row.item])  # ARS-85
        elif (decision := revealed_decision(part, seal)) is not None:
            element["display"] = {DISPLAY_DECISION: decision}
        listed.append(element)
    return listed


def revealed_decision(part: Part, seal: RowSeal) -> dict[str, Any] | None:
    """Why a request or item was denied, and what is proposed instead, as far as the requester may know."""
    own = part.own
    if own.status != TaskStatus.DENIED or own.decision_sealed is None or not own.template.get("reveal_reason"):
        return None
    said = seal.open(part.column("decision_sealed"), own.decision_sealed)
    kinds: dict[str, type] = {"reason": str, "proposed_arguments": dict}
    return {name: said[name] for name, kind in kinds.items() if isinstance(said.get(name), kind)} or None

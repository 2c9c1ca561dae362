"""An approval backend of somebody else's, in raw dicts: it knows the gate's backend protocol and nothing else of ours.

It decides by `policy`, accepts submissions by key, and lets a test approve, deny, ask and break things. Every request
that it gets is kept.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from mcp_gate.backend import (
    Accepted,
    AnswerRefused,
    BackendStatus,
    BackendUnavailable,
    DecisionPointUnavailable,
    Denial,
    Handle,
    InputQuestion,
    Permit,
    Refused,
)

Decision = Permit | Denial
Policy = Callable[[Mapping[str, Any], Mapping[str, Any] | None], Decision]
CANARY = "canary-7f3a"


def requestable(number: int = 1) -> Denial:
    """A denial that may be overcome; its artifacts carry the canary."""
    access_request = {
        "expires_at": "2026-04-30T20:05:00Z",
        "endpoint": f"https://backend.example/{CANARY}/requests",
        "binding_token": f"token-{CANARY}-{number}",
    }
    context: dict[str, Any] = {
        "evaluation_id": f"eval-{CANARY}-{number}",
        "reason": "approval_required",
        "access_request": access_request,
    }
    return Denial("approval_required", "request", access_request=access_request, context=context)


@dataclass
class ForeignBackend:
    """Ask it as an `ApprovalBackend`; drive it by its plain methods."""

    clock: Callable[[], datetime]
    policy: Policy | None = None
    evaluations: list[tuple[dict[str, Any], dict[str, Any] | None]] = field(default_factory=list)
    submissions: list[tuple[str, bytes]] = field(default_factory=list)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    status_reads: list[str] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    reports: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)
    born: dict[str, Any] = field(default_factory=dict)
    refusal: Refused | None = None
    is_down: bool = False
    is_pdp_down: bool = False
    lose_answers: int = 0
    retry_after: float | None = None
    pending: timedelta = timedelta(hours=1)
    has_cancel: bool = True
    refuses_answers: bool = False

    # The protocol ---------------------------------------------------------------------------------------------------

    async def evaluate(
        self, question: Mapping[str, Any], *, approval: Mapping[str, Any] | None = None
    ) -> Permit | Denial:
        if self.is_pdp_down:
            raise DecisionPointUnavailable
        self.evaluations.append((dict(question), None if approval is None else dict(approval)))
        if self.policy is not None:
            return self.policy(question, approval)
        if approval is None:
            return requestable(len(self.evaluations))
        known = [task for task in self.tasks.values() if (task.get("approval") or {}).get("id") == approval.get("id")]
        return Permit() if known else Denial("approval_unverifiable")

    def submission_body(
        self,
        question: Mapping[str, Any],
        denial: Denial,
        *,
        requested_access: Mapping[str, Any] | None = None,
        callback_state: str | None = None,
    ) -> bytes:
        if (denial.access_request or {}).get("unobtainable"):
            raise ValueError("a required member cannot be supplied")
        body = {"question": question, "denial": denial.context, "requested": requested_access, "state": callback_state}
        return json.dumps(body).encode()

    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        if self.is_down:
            raise BackendUnavailable(retry_after=self.retry_after)
        self.submissions.append((key, body))
        if self.refusal is not None:
            return self.refusal
        if key not in self.keys:
            task_id = f"areq-{CANARY}-{len(self.tasks) + 1}"
            self.keys[key] = task_id
            self.tasks[task_id] = {
                "status": "pending",
                "expires_at": self.clock() + self.pending,
                "state": json.loads(body)["state"],
                **self.born,
            }
        if self.lose_answers:
            self.lose_answers -= 1
            raise BackendUnavailable
        task_id = self.keys[key]
        handle = Handle(
            task_id=task_id,
            status_endpoint=f"https://backend.example/tasks/{task_id}",
            cancel_url=f"https://backend.example/tasks/{task_id}/cancel" if self.has_cancel else None,
            report_url=f"https://backend.example/tasks/{task_id}/report",
            expires_at=self.tasks[task_id]["expires_at"],
            input_url=f"https://backend.example/tasks/{task_id}/input",
        )
        return Accepted(handle, self._status(task_id))

    async def status(self, handle: Handle) -> BackendStatus:
        if self.is_down:
            raise BackendUnavailable(retry_after=self.retry_after)
        self.status_reads.append(handle.task_id)
        if handle.task_id not in self.tasks:
            return BackendStatus("gone", gone=True)
        return self._status(handle.task_id)

    async def cancel(self, handle: Handle) -> None:
        if self.is_down:
            raise BackendUnavailable
        if handle.cancel_url is not None:
            self.cancels.append(handle.task_id)

    async def report(self, handle: Handle, body: Mapping[str, Any]) -> None:
        if self.is_down:
            raise BackendUnavailable
        self.reports.append((handle.task_id, dict(body)))

    async def answer(self, handle: Handle, version: int, answer: Mapping[str, Any]) -> None:
        if self.is_down:
            raise BackendUnavailable
        self.answers.append((handle.task_id, version, dict(answer)))
        if self.refuses_answers:
            raise AnswerRefused

    def _status(self, task_id: str) -> BackendStatus:
        task = self.tasks[task_id]
        asked = task.get("input")
        return BackendStatus(
            status=task["status"],
            expires_at=task.get("expires_at"),
            approval=task.get("approval"),
            approved_until=task.get("approved_until"),
            mode=task.get("mode"),
            retry_after=task.get("retry_after"),
            input=None if asked is None else InputQuestion(**asked),
            decision_text=task.get("decision_text"),
            proposed_arguments=task.get("proposed_arguments"),
            more_input=tuple(InputQuestion(**more) for more in task.get("more_input", ())),
        )

    # What a test does -----------------------------------------------------------------------------------------------

    @property
    def last(self) -> str:
        """Id of the task that was opened last."""
        return list(self.tasks)[-1]

    def approve(self, task_id: str | None = None, *, seconds: float = 900) -> None:
        """Approve, as a reviewer would."""
        task_id = task_id or self.last
        until = self.clock() + timedelta(seconds=seconds)
        self.tasks[task_id] |= {
            "status": "approved",
            "mode": "reevaluate",
            "approval": {"id": f"appr-{CANARY}-{task_id}", "state": f"state-{CANARY}", "unknown": {"kept": [1, None]}},
            "approved_until": until,
        }

    def end(self, status: str, task_id: str | None = None, **more: Any) -> None:
        """Give the task any other status."""
        self.tasks[task_id or self.last] |= {"status": status, **more}

    def ask(self, version: int = 1, *, task_id: str | None = None, message: str = "Why?", beside: bool = False) -> None:
        """Ask the requester something; with `beside`, together with what is asked already."""
        schema = {
            "type": "object",
            "properties": {"ticket": {"type": "string", "minLength": 3}},
            "required": ["ticket"],
        }
        task, asked = self.tasks[task_id or self.last], {"message": message, "schema": schema, "version": version}
        if beside:
            task.setdefault("more_input", []).append(asked)
        else:
            task["input"] = asked

"""A gate in raw dicts: an MCP server and its approvals in one object, written from the SEP, sharing nothing with ours.

It is correct. What is wrong with the others, `faults.py` overrides: every decision of it is a method of its own.
"""

import copy
import secrets
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.lowlevel

Json = dict[str, Any]

PREFIX = "io.modelcontextprotocol/"
TASKS, APPROVAL = PREFIX + "tasks", PREFIX + "tool-approval"
DISPOSITION, ENVELOPE = PREFIX + "tool-approval-disposition", PREFIX + "authorization"
PENDING = ("working", "input_required")
FORM: Json = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which ticket?",
        "requestedSchema": {"type": "object", "properties": {"ticket": {"type": "string"}}, "required": ["ticket"]},
    },
}


class Refusal(Exception):
    """A JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.body: Json = {"code": code, "message": message, **({"data": data} if data is not None else {})}


class PlainGate:
    """`tasks`, `ran` and `revoked` are what a disk would keep; everything else goes at a restart."""

    def __init__(self) -> None:
        self.tasks: dict[str, Json] = {}
        self.ran: list[str] = []
        self.revoked: set[str] = set()
        self.restarts = 0
        self.states: dict[str, tuple[str, str, Json]] = {}
        self.calling = 0
        self.lock = anyio.Lock()

    # ---- the wire ----

    async def answer(self, message: Json, *, principal: str) -> list[Json]:
        """Everything that is sent for a message; the answer is the last."""
        method, params = message["method"], message.get("params", {})
        if "id" not in message:
            self.notified(method, params)
            return []
        try:
            result = await self.serve(method, params, principal)
        except Refusal as refusal:
            return [{"jsonrpc": "2.0", "id": message["id"], "error": refusal.body}]
        sent = {"jsonrpc": "2.0", "id": message["id"], "result": copy.deepcopy(result)}
        return [*self.beside(method, result), sent]

    def headers(self) -> dict[str, str]:
        """What stands in the head of an answer."""
        return {}

    def beside(self, method: str, result: Json) -> list[Json]:
        """What is sent beside an answer."""
        return []

    def notified(self, method: str, params: Json) -> None:
        """A notification came."""

    async def serve(self, method: str, params: Json, principal: str) -> Json:
        """The result of a request."""
        declared = params.get("_meta", {}).get(PREFIX + "clientCapabilities")
        is_modern, extensions = declared is not None, (declared or {}).get("extensions", {})
        match method:
            case "server/discover":
                return self.discovered()
            case "initialize":
                return {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "plain", "version": "1"},
                }
            case "tools/call":
                return await self.call(
                    params, principal, with_tasks=is_modern and TASKS in extensions, modern=is_modern
                )
            case "tasks/get" | "tasks/update" | "tasks/cancel":
                if TASKS not in extensions:
                    self.undeclared(method)
                return self.on_task(method, params, principal)
        raise Refusal(-32601, "Method not found")

    def discovered(self) -> Json:
        return {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "extensions": {TASKS: {}, APPROVAL: {}}},
            "serverInfo": {"name": "plain", "version": "1"},
        }

    def undeclared(self, method: str) -> None:
        raise Refusal(-32021, "Missing capability", {"requiredCapabilities": {"extensions": {TASKS: {}}}})

    # ---- calls ----

    async def call(self, params: Json, principal: str, *, with_tasks: bool, modern: bool) -> Json:
        tool, arguments = params["name"], params.get("arguments", {})
        if tool == "free":
            return self.tool_result(["It is free, and it ran."])
        if tool == "forbidden":
            return self.forbidden()
        if (standing := self.standing(tool, arguments, principal, params)) is not None:
            return standing
        if not with_tasks:
            return self.explain(modern=modern)
        if tool == "asks" and (asked := self.round(params, principal)) is not None:
            return asked
        self.calling += 1
        try:
            return await self.create(tool, arguments, principal)
        finally:
            self.calling -= 1

    def standing(self, tool: str, arguments: Json, principal: str, params: Json) -> Json | None:
        """The result of a call that runs without a task of its own; there is no such thing."""
        return None

    def forbidden(self) -> Json:
        return self.tool_result(["This is never permitted. The tool did not run."], is_error=True)

    def explain(self, *, modern: bool) -> Json:
        text = "This needs an approval, and your client cannot wait for one. Ask your user to obtain it elsewhere."
        return self.tool_result([text], is_error=True)

    def round(self, params: Json, principal: str) -> Json | None:
        """What is asked before the request; None once it is answered."""
        state, arguments = params.get("requestState"), params["arguments"]
        if state is None:
            token = secrets.token_urlsafe(16)
            self.states[token] = (params["name"], principal, arguments)
            return self.questions(token)
        if state not in self.states:
            raise Refusal(-32602, "Unknown requestState")
        if not self.is_same_call(self.states[state], (params["name"], principal, arguments)):
            raise Refusal(-32602, "The requestState belongs to another call")
        return None

    def questions(self, token: str) -> Json:
        return {"resultType": "input_required", "inputRequests": {"ticket": FORM}, "requestState": token}

    def is_same_call(self, first: tuple[str, str, Json], second: tuple[str, str, Json]) -> bool:
        return first == second

    async def create(self, tool: str, arguments: Json, principal: str) -> Json:
        async with self.lock:
            await anyio.lowlevel.checkpoint()
            for task in self.tasks.values():
                if task["status"] in PENDING and self.joins(task, tool, arguments, principal):
                    return self.created(task)
            return self.created(self.open(tool, arguments, principal))

    def joins(self, task: Json, tool: str, arguments: Json, principal: str) -> bool:
        return (task["tool"], task["arguments"], task["principal"]) == (tool, arguments, principal)

    def open(self, tool: str, arguments: Json, principal: str) -> Json:
        now = self.now()
        task: Json = {
            "id": self.new_id(),
            "tool": tool,
            "arguments": arguments,
            "principal": principal,
            "marker": arguments.get("memo", ""),
            "status": "working",
            "message": "Waiting for a decision.",
            "created": now,
            "updated": now,
            "ttl": 3_600_000,
        }
        self.tasks[task["id"]] = task
        return task

    def new_id(self) -> str:
        return secrets.token_urlsafe(24)

    @staticmethod
    def now() -> str:
        return datetime.now(UTC).isoformat().replace("+00:00", "Z")

    # ---- tasks ----

    def members(self, task: Json) -> Json:
        found: Json = {
            "taskId": task["id"],
            "status": task["status"],
            "statusMessage": task["message"],
            "createdAt": task["created"],
            "lastUpdatedAt": task["updated"],
            "ttlMs": task["ttl"],
            "pollIntervalMs": 20,
        }
        if task["status"] in PENDING:
            found["_meta"] = {ENVELOPE: self.envelope("available")}
        return found

    def envelope(self, remediation: str) -> Json:
        envelope: Json = {"reason": "insufficient_authorization", "remediation": remediation}
        if remediation == "available":
            envelope["remediationHints"] = [{"type": "task"}]
        return envelope

    def created(self, task: Json) -> Json:
        return {"resultType": "task", **self.members(task)}

    def shown(self, task: Json) -> Json:
        state: Json = {"resultType": "complete", **self.members(task)}
        if task["status"] == "input_required":
            state["inputRequests"] = task["questions"]
        if task["status"] == "completed":
            state["result"] = task["result"]
        if task["status"] == "failed":
            state["error"] = {"code": -32603, "message": "The approval service failed."}
        return state

    def on_task(self, method: str, params: Json, principal: str) -> Json:
        task = self.tasks.get(params.get("taskId", ""))
        if task is None:
            raise self.unknown()
        if task["principal"] != principal:
            self.foreign(method)
        match method:
            case "tasks/get":
                return self.looked_at(task)
            case "tasks/update":
                if task["status"] == "input_required":
                    self.update(task, params.get("inputResponses", {}))
            case "tasks/cancel":
                self.cancel(task)
        return self.acknowledged(method, task)

    def unknown(self) -> Refusal:
        return Refusal(-32602, "Task not found")

    def foreign(self, method: str) -> None:
        raise self.unknown()

    def looked_at(self, task: Json) -> Json:
        return self.shown(task)

    def update(self, task: Json, responses: Json) -> None:
        for key in list(task["questions"]):
            if key in responses:
                del task["questions"][key]
        if not task["questions"]:
            self.move(task, "working", "Waiting for a decision.")

    def cancel(self, task: Json) -> None:
        if task["status"] in PENDING:
            self.move(task, "cancelled", "Cancelled. The tool did not run.")

    def acknowledged(self, method: str, task: Json) -> Json:
        return {"resultType": "complete"}

    def move(self, task: Json, status: str, message: str) -> None:
        task.update(status=status, message=message, updated=self.now())

    # ---- decisions ----

    def pending(self, marker: str) -> list[Json]:
        return [task for task in self.tasks.values() if task["marker"] == marker and task["status"] in PENDING]

    def approve(self, marker: str) -> None:
        for task in self.pending(marker):
            if self.permits(marker):
                self.execute(task)
            else:
                self.end_denied(task, "overruled", "Policy denies this call by now. The tool did not run.")

    def permits(self, marker: str) -> bool:
        return marker not in self.revoked

    def execute(self, task: Json) -> None:
        self.ran.append(task["marker"])
        match task["tool"]:
            case "fails":
                lines, outcome = ["No such account.", "The tool ran and failed."], "execution-error"
            case "vanishes":
                lines, outcome = ["The call was begun. The tool may have run."], "outcome-unknown"
            case _:
                lines, outcome = ["7 sent.", "The call was approved and the tool ran."], "approved-executed"
        self.complete(task, outcome, lines, meta={DISPOSITION: outcome})

    def deny(self, marker: str) -> None:
        for task in self.pending(marker):
            self.end_denied(task, "denied", "The approval was denied. The tool did not run.")

    def expire(self, marker: str) -> None:
        for task in self.pending(marker):
            self.end_denied(task, "expired", "The time to decide has expired. The tool did not run.")

    def end_denied(self, task: Json, cause: str, text: str) -> None:
        meta = {DISPOSITION: "denied-not-executed", ENVELOPE: self.envelope("unavailable")}
        self.complete(task, cause, [text], meta=meta)

    def complete(self, task: Json, cause: str, lines: list[str], *, meta: Json) -> None:
        """End a task; `cause` is the disposition, or why it was denied."""
        task["cause"] = cause
        task["result"] = self.tool_result(lines, is_error=cause != "approved-executed", meta=meta)
        self.move(task, "completed", "Ended.")

    @staticmethod
    def tool_result(lines: list[str], *, is_error: bool = False, meta: Json | None = None) -> Json:
        content = [{"type": "text", "text": line} for line in lines]
        found: Json = {"resultType": "complete", "content": content, "isError": is_error}
        return {**found, "_meta": meta} if meta is not None else found

    def ask(self, marker: str) -> None:
        for task in self.pending(marker):
            task["questions"] = {"ticket": copy.deepcopy(FORM)}
            self.move(task, "input_required", "A ticket is wanted. The tool has not run.")

    def revoke(self, marker: str) -> None:
        self.revoked.add(marker)

    def fail(self, marker: str) -> None:
        for task in self.pending(marker):
            self.move(task, "failed", "The approval service failed. The tool did not run.")

    def count(self, marker: str) -> int:
        return self.ran.count(marker)

    def restart(self) -> None:
        """What was not on the disk is gone."""
        self.restarts += 1
        self.states.clear()

"""Takes the claim and runs the tool, at most once. SEP-2848, "Completion: re-evaluate, then execute".

The claim is the last point at which authorization is checked; after it nothing is ever invoked a second time. A
response that was received decides the outcome; without one the outcome is unknown.
"""

import json
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final

import anyio
import structlog

from mcp_gate.backend import Permit
from mcp_gate.core import Core, artifacts_of
from mcp_gate.database import StoreUnavailable
from mcp_gate.events import Allowed, ExecutionOverdue, Expire, PolicyDenied, ToolReturned, ToolSilent
from mcp_gate.execution import Executed, NoResponse, Outcome, ReceivedError, ToolCall
from mcp_gate.lifecycle import GateTask, Refused, deadline
from mcp_gate.records import Changes, StoredTask
from mcp_gate.shape import MOST_DEEP_RESULT, is_deeper

log = structlog.get_logger(__name__)

UNSTORABLE: Final = "The tool's result could not be stored."
STORE_REST_SECONDS: Final = 1.0
LAST_SECONDS: Final = 10.0


class Invocation:
    """Carries out what was permitted."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def carry_out(self, stored: StoredTask, permit: Permit) -> None:
        """Claims the task under `permit`, and only then runs the tool and stores what came back."""
        core, now = self._core, self._core.clock()
        if permit.approved_until is not None and now >= permit.approved_until:  # PEP-41: no tolerance here
            await core.move(stored.task, PolicyDenied(), seen=True)
            return
        until = now + core.limits.execution
        core.checkpoint("claim.before_commit")
        claim = Allowed(core.epoch, until, permit.approved_until)
        claimed = await core.move(stored.task, claim, seen=True, changes=Changes(next_due=until))
        if isinstance(claimed, Refused):
            if claimed.reason == "deadline_passed":
                await core.move(stored.task, Expire())
            return
        core.checkpoint("claim.committed")
        await self._invoke(stored, claimed)

    async def _invoke(self, stored: StoredTask, claimed: GateTask) -> None:
        core, binding = self._core, stored.binding
        if binding is None or claimed.execution_deadline is None:
            raise AssertionError("a claim needs a call and a deadline")
        call = ToolCall(binding.tool, binding.arguments, claimed.id, claimed.approved_until)
        if not await core.store.begin_invocation(claimed, worker=core.epoch, writing=core.writing):  # PEP-113
            log.warning("invocation_withheld", task_id=claimed.id)
            await core.move(claimed, ExecutionOverdue())
            return
        core.checkpoint("invoke.started")
        outcome: Outcome = NoResponse("cancelled")
        try:
            outcome = await self._run(call, claimed.execution_deadline - core.clock())
            core.checkpoint("invoke.returned")
        finally:
            # Also when this process is being shut down: what is known about the call must not be lost.
            await self._store(claimed, outcome, artifacts=artifacts_of(stored))
        core.checkpoint("outcome.stored")

    async def _run(self, call: ToolCall, remaining: timedelta) -> Outcome:
        with anyio.move_on_after(remaining.total_seconds()):
            try:
                return await self._core.execute(call)
            except Exception as error:  # noqa: BLE001 - whatever broke, no response to the call was received
                log.error("executor_failed", task_id=call.task_id, error=type(error).__name__)  # noqa: TRY400 - a traceback could show arguments
                return NoResponse("executor_failed")
        return NoResponse("execution_deadline")

    async def _store(self, claimed: GateTask, outcome: Outcome, *, artifacts: Collection[str]) -> None:
        wording = self._core.wording
        event: ToolReturned | ToolSilent
        result: dict[str, Any] | None = None
        match outcome:
            case Executed(result=answer, is_error=is_error):
                if not _is_storable(answer):
                    answer, is_error = {"content": [{"type": "text", "text": UNSTORABLE}]}, True
                event = ToolReturned(is_error)
                result = wording.executed(answer, is_error=is_error, artifacts=artifacts)
            case ReceivedError(code=code, message=message):
                event = ToolReturned(is_error=True)
                result = wording.received_error(code, message, artifacts=artifacts)
            case NoResponse(reason=reason):
                event = ToolSilent()
                log.warning("no_response_received", task_id=claimed.id, reason=reason)
        await self._keep(claimed, event, Changes(result=result))

    async def _keep(self, claimed: GateTask, event: ToolReturned | ToolSilent, changes: Changes) -> None:
        """Stores the outcome, also when the database is away for a while: it exists here alone.

        A process that is told to stop tries for `LAST_SECONDS` more; without success the task ends as unknown.
        """
        try:
            await self._insist(claimed, event, changes)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(LAST_SECONDS, shield=True):
                await self._insist(claimed, event, changes)
            raise

    async def _insist(self, claimed: GateTask, event: ToolReturned | ToolSilent, changes: Changes) -> None:
        while True:
            if await self._stored(claimed, event, changes):
                return
            await anyio.sleep(STORE_REST_SECONDS)

    async def _stored(self, claimed: GateTask, event: ToolReturned | ToolSilent, changes: Changes) -> bool:
        try:
            with anyio.CancelScope(shield=True):
                await self._core.move(claimed, event, seen=True, changes=changes)
        except StoreUnavailable as error:
            log.error("outcome_not_stored", task_id=claimed.id, reason=str(error))  # noqa: TRY400 - the reason says all
            if self._core.clock() >= deadline(claimed):  # from now on it ends as unknown, whoever looks at it
                raise
            return False
        return True


def _is_storable(result: Mapping[str, Any]) -> bool:
    """Whether clients can get `result`: it is JSON, and not nested beyond what messages carry."""
    if is_deeper(result, MOST_DEEP_RESULT):
        return False
    try:
        json.dumps(dict(result), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        return False
    return True

"""The client half of the tasks extension: waits for tasks, answers their questions, and survives restarts.

Knows tasks, and of approvals one thing only: what an outcome allows the caller to conclude. It decides nothing about
authorization and never repeats a call. MCP Tasks extension; SEP-2848, "What the client carries".
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal

import anyio
from mcp import types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from mcp_gate.client.records import TaskRecord, TaskRecords

TASKS: Final = "io.modelcontextprotocol/tasks"
DISPOSITION: Final = "io.modelcontextprotocol/tool-approval-disposition"
AUTHORIZATION: Final = "io.modelcontextprotocol/authorization"
MIN_POLL_SECONDS: Final = 0.05
MAX_POLL_SECONDS: Final = 60.0
DEFAULT_POLL_SECONDS: Final = 5.0
TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})

_INPUT: Final[TypeAdapter[types.InputRequest]] = TypeAdapter(types.InputRequest)


class Disposition(StrEnum):
    """What became of an approved, or not approved, call; `UNKNOWN` stands for every value that we do not know."""

    APPROVED_EXECUTED = "approved-executed"
    DENIED_NOT_EXECUTED = "denied-not-executed"
    EXECUTION_ERROR = "execution-error"
    OUTCOME_UNKNOWN = "outcome-unknown"
    UNKNOWN = "unknown"


def disposition(result: types.CallToolResult) -> Disposition | None:
    """The result's disposition, or None when it is no outcome of an approval task."""
    value = (result.meta or {}).get(DISPOSITION)
    if value is None:
        return None
    try:
        return Disposition(value)
    except ValueError:
        return Disposition.UNKNOWN


def possibly_executed(result: types.CallToolResult) -> bool:
    """Whether the tool may have run, so that the call must not be repeated by itself."""
    outcome = disposition(result)
    if outcome is None:  # no outcome of a task: the envelope of a denial says that nothing ran, its absence that it did
        return AUTHORIZATION not in (result.meta or {})
    return outcome is not Disposition.DENIED_NOT_EXECUTED  # PEP-123


class TaskEnded(Exception):
    """The task ended without a tool result; `status` is failed, cancelled or gone, and the tool did not run."""

    def __init__(self, status: str, *, task_id: str, code: int | None = None, message: str | None = None) -> None:
        super().__init__(f"task {status}" + (f": {message}" if message else ""))
        self.status = status
        self.task_id = task_id
        self.code = code


class _Params(types.RequestParams):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    task_id: str


class _UpdateParams(_Params):
    input_responses: dict[str, dict[str, JsonValue]]


class GetTask(types.Request[_Params, Literal["tasks/get"]]):
    """`tasks/get`."""

    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"  # sent as Mcp-Name, as the extension demands over HTTP


class CancelTask(types.Request[_Params, Literal["tasks/cancel"]]):
    """`tasks/cancel`."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


class UpdateTask(types.Request[_UpdateParams, Literal["tasks/update"]]):
    """`tasks/update`."""

    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"


class CreatedTask(types.Result):
    """A `CreateTaskResult`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")
    result_type: Literal["task"]
    task_id: str
    status: str
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = None
    poll_interval_ms: int | None = None


class TaskState(types.Result):
    """The answer to `tasks/get`; `input_requests`, `result` and `error` as far as the status has them."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")
    result_type: str = "complete"
    task_id: str
    status: str
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = None
    poll_interval_ms: int | None = None
    input_requests: dict[str, dict[str, Any]] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _Acknowledged(types.Result):
    model_config = ConfigDict(extra="allow")


Progress = Callable[[TaskState | CreatedTask], Awaitable[None]]


async def _ignore(_: TaskState | CreatedTask) -> None:
    return None


class TasksExtension(ClientExtension):
    """`Client(..., extensions=[TasksExtension()])`: `call_tool` then returns the final result of a task.

    `records` keeps task ids on disk before anything else is done with them; `server` labels them. `progress` hears
    of every state that is seen. Questions go to the client's own elicitation callback.
    """

    identifier = TASKS

    def __init__(
        self,
        *,
        records: TaskRecords | None = None,
        server: str = "",
        progress: Progress = _ignore,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._records = records
        self._server = server
        self._progress = progress
        self._sleep = sleep

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """The one result shape that the extension adds to `tools/call`."""
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve),)

    async def _resolve(self, created: CreatedTask, context: ClaimContext) -> types.CallToolResult:
        if self._records is not None:
            self._records.remember(
                TaskRecord(
                    task_id=created.task_id,
                    server=self._server,
                    tool=context.tool_name,
                    created_at=created.created_at,
                    status=created.status,
                )
            )
        await self._progress(created)
        await self._sleep(_interval(created.poll_interval_ms))
        return await self.resume(context.session, created.task_id)

    async def resume(self, session: ClientSession, task_id: str) -> types.CallToolResult:
        """Wait for a task's end; also for one that another process began.

        Raises:
            TaskEnded: it failed, was cancelled, or is not known to the server (any more).
        """
        answered: set[str] = set()
        seen: tuple[str, str] | None = None
        while True:
            state = await self.get(session, task_id)
            if (state.status, state.last_updated_at) != seen:
                seen = (state.status, state.last_updated_at)
                await self._progress(state)
            if state.status in TERMINAL:
                if self._records is not None:
                    self._records.settle(task_id, state.status)
                return _final(state)
            if state.status == "input_required":
                await self._answer(session, state, answered)
            await self._sleep(_interval(state.poll_interval_ms))

    async def get(self, session: ClientSession, task_id: str) -> TaskState:
        """The task as it is now.

        Raises:
            TaskEnded: the server does not know it.
        """
        try:
            return await session.send_request(GetTask(params=_Params(task_id=task_id)), TaskState)
        except MCPError as error:
            if error.code != types.INVALID_PARAMS:
                raise
            if self._records is not None:
                self._records.settle(task_id, "gone")
            raise TaskEnded("gone", task_id=task_id, code=error.code, message=error.message) from None

    async def cancel(self, session: ClientSession, task_id: str) -> None:
        """Ask for cancellation; the task may still end otherwise."""
        await session.send_request(CancelTask(params=_Params(task_id=task_id)), _Acknowledged)

    async def update(self, session: ClientSession, task_id: str, responses: Mapping[str, dict[str, JsonValue]]) -> None:
        """Deliver answers to outstanding input requests, by their keys."""
        params = _UpdateParams(task_id=task_id, input_responses=dict(responses))
        await session.send_request(UpdateTask(params=params), _Acknowledged)

    async def _answer(self, session: ClientSession, state: TaskState, answered: set[str]) -> None:
        responses: dict[str, dict[str, JsonValue]] = {}
        for key, raw in (state.input_requests or {}).items():
            if key in answered:  # shown once, however often it is polled
                continue
            answered.add(key)
            try:
                request = _INPUT.validate_python(raw)
            except ValidationError:
                continue  # a kind of question that we do not know stays open
            context = ClientRequestContext(session=session, request_id=key)
            response = await session.dispatch_input_request(context, request)
            if not isinstance(response, types.ErrorData):
                responses[key] = response.model_dump(by_alias=True, mode="json", exclude_none=True)
        if responses:
            await self.update(session, state.task_id, responses)


def _final(state: TaskState) -> types.CallToolResult:
    if state.status == "completed" and state.result is not None:
        return types.CallToolResult.model_validate(state.result, by_name=False)
    error = state.error or {}
    raise TaskEnded(
        state.status,
        task_id=state.task_id,
        code=error.get("code"),
        message=error.get("message") or state.status_message,
    )


def _interval(milliseconds: int | None) -> float:
    seconds = DEFAULT_POLL_SECONDS if milliseconds is None else milliseconds / 1000
    return min(max(seconds, MIN_POLL_SECONDS), MAX_POLL_SECONDS)

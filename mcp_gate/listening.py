"""`notifications/tasks` on `subscriptions/listen`: tells a client what `tasks/get` would say, when that changes.

Only to clients that declared the extension, and only about tasks that are theirs; ids of other tasks are left out
without a word. What else the stream carries is the server's own handler's business. Polling stays the way to be sure:
a stream that is lost loses nothing. MCP Tasks extension, "Task Status Notifications"; PEP-97.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, Literal, cast

import anyio
import structlog
from mcp import types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from mcp_gate.callers import caller_of
from mcp_gate.capabilities import extension_declared, tasks_declared
from mcp_gate.errors import APPROVAL_EXTENSION, InvalidParams, MissingCapability, TaskNotFound, Unavailable
from mcp_gate.mapping import Principal
from mcp_gate.runtime import Runtime

Json = dict[str, Any]

LISTEN: Final = "subscriptions/listen"
TASK_IDS: Final = "taskIds"
MOST_TASKS: Final = 256
MOST_STREAMS: Final = 1024
MOST_STREAMS_EACH: Final = 32

log = structlog.get_logger(__name__)


class TaskNotification(types.Notification[Json, Literal["notifications/tasks"]]):
    """The state of one task; the parameters are a plain dict, so that nothing of a result is lost."""

    method: Literal["notifications/tasks"] = "notifications/tasks"


@dataclass(slots=True)
class Stream:
    """One subscriber: who asks, and what was told last about each of its tasks."""

    principal: Principal
    approvals: bool
    meta: Mapping[str, Any]
    ends_at: float | None
    told: dict[str, Json | None] = field(default_factory=dict)
    acknowledged: anyio.Event = field(default_factory=anyio.Event)


class _Acknowledging:
    """A session whose acknowledgement also names the tasks."""

    def __init__(self, inner: ServerSession, stream: Stream) -> None:
        self._inner = inner
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send_notification(self, notification: Any, related_request_id: types.RequestId | None = None) -> None:
        is_first = isinstance(notification, types.SubscriptionsAcknowledgedNotification)
        if is_first:
            kept = notification.params.notifications.model_dump(by_alias=True, exclude_none=True)
            honoured = types.SubscriptionFilter.model_validate({**kept, TASK_IDS: list(self._stream.told)})
            params = notification.params.model_copy(update={"notifications": honoured})
            notification = notification.model_copy(update={"params": params})
        await self._inner.send_notification(notification, related_request_id)
        if is_first:
            self._stream.acknowledged.set()


class Listening:
    """Serves the tasks of `subscriptions/listen`; `runtime` is the running gate."""

    def __init__(self, server: Server[Any], runtime: Callable[[], Runtime]) -> None:
        self._server = server
        self._runtime = runtime
        self._streams: Counter[tuple[str, str]] = Counter()

    async def serve(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Adds what a stream asks about tasks to it; everything else goes on as it is.

        Raises:
            MissingCapability: The request asks about tasks and didn't declare the extension.
            InvalidParams: The ids are no list of texts, or too many.
            Unavailable: The gate doesn't run, or too many streams are open.
        """
        asked = _task_ids(ctx)
        if asked is None:
            return await call_next(ctx)
        if not tasks_declared(ctx):
            raise MissingCapability  # PEP-97
        if not isinstance(asked, list) or len(asked) > MOST_TASKS or not all(isinstance(one, str) for one in asked):
            raise InvalidParams(f"notifications.taskIds must be a list of at most {MOST_TASKS} task ids")
        runtime = self._runtime()
        principal = caller_of(ctx, runtime.settings).principal
        who = (principal.iss, principal.sub)
        if self._streams.total() >= MOST_STREAMS or self._streams[who] >= MOST_STREAMS_EACH:
            raise Unavailable("Too many subscriptions are open")
        self._streams[who] += 1
        try:
            return await self._stream(ctx, call_next, principal, dict.fromkeys(asked))
        finally:
            self._streams -= Counter([who])

    async def _stream(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, principal: Principal, asked: Collection[str]
    ) -> HandlerResult:
        runtime, token = self._runtime(), get_access_token()
        stream = Stream(
            principal=principal,
            approvals=extension_declared(ctx, APPROVAL_EXTENSION),
            meta={SUBSCRIPTION_ID_META_KEY: ctx.request_id},
            ends_at=None if token is None or token.expires_at is None else float(token.expires_at),
        )
        for task_id in asked:
            if await _state(runtime, stream, task_id) is not None:
                stream.told[task_id] = None
        inner = replace(ctx, session=cast("ServerSession", _Acknowledging(ctx.session, stream)))
        result: HandlerResult = types.SubscriptionsListenResult(meta=dict(stream.meta))
        failure: Exception | None = None
        async with anyio.create_task_group() as group:

            async def tell() -> None:
                try:
                    await self._tell(runtime, stream, ctx)
                except Exception as error:  # noqa: BLE001 - the stream ends, and its client listens again
                    log.warning("task_stream_ended", error=type(error).__name__)
                group.cancel_scope.cancel()

            group.start_soon(tell)
            try:
                if self._server.get_request_handler(LISTEN) is None:
                    await _acknowledge(inner)
                else:
                    result = await call_next(inner)
                    group.cancel_scope.cancel()
            except Exception as error:  # noqa: BLE001 - raised again below, but not as one of a group
                failure = error
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return result

    async def _tell(self, runtime: Runtime, stream: Stream, ctx: ServerRequestContext[Any, Any]) -> None:
        """Tells every state of every task, the present one first, until the caller's token has expired."""
        await stream.acknowledged.wait()
        longest = runtime.engine.client_poll / timedelta(seconds=1)
        with runtime.engine.watching(stream.told) as watch:
            while True:
                for task_id, told in stream.told.items():
                    state = await _state(runtime, stream, task_id)
                    if state is not None and state != told:
                        stream.told[task_id] = state
                        await ctx.session.send_notification(
                            cast("types.ServerNotification", TaskNotification(params=_params(state, stream))),
                            related_request_id=ctx.request_id,
                        )
                if stream.ends_at is None:
                    await watch.wait(longest)
                    continue
                remaining = stream.ends_at - runtime.clock().timestamp()
                if remaining <= 0:
                    return
                await watch.wait(min(longest, remaining))


def _task_ids(ctx: ServerRequestContext[Any, Any]) -> object | None:
    """What a stream of the present protocol asks about tasks, or None when that is nothing."""
    wanted = (ctx.params or {}).get("notifications")
    is_stream = ctx.method == LISTEN and ctx.request_id is not None  # without an id there is no stream to write to
    if not is_stream or ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS or not isinstance(wanted, Mapping):
        return None
    return wanted.get(TASK_IDS)


async def _state(runtime: Runtime, stream: Stream, task_id: str) -> Json | None:
    """What `tasks/get` says to this caller now; None when there is no such task for it (PEP-71)."""
    try:
        return await runtime.engine.get(task_id, stream.principal, approvals=stream.approvals)
    except TaskNotFound:
        return None


def _params(state: Json, stream: Stream) -> Json:
    shown = {name: value for name, value in state.items() if name != "resultType"}  # that is of a result, not of a task
    return {**shown, "_meta": {**state.get("_meta", {}), **stream.meta}}


async def _acknowledge(ctx: ServerRequestContext[Any, Any]) -> None:
    """Begins the stream of a server that has none of its own: nothing but tasks is honoured."""
    meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
    params = types.SubscriptionsAcknowledgedNotificationParams(notifications=types.SubscriptionFilter(), meta=meta)
    await ctx.session.send_notification(
        types.SubscriptionsAcknowledgedNotification(params=params), related_request_id=ctx.request_id
    )

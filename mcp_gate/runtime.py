"""A running gate: store, backend, engine and executor, opened together and drained in the right order.

Wires; decides nothing. The tool calls that are under way are waited for before anything that they need is closed.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import anyio
import anyio.to_thread
import structlog
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer

from arap_service.protocol.sealing import KeyRing
from mcp_gate import migrate
from mcp_gate.arap import ArapBackend
from mcp_gate.arap_channel import Channel, open_http
from mcp_gate.asking import Offered
from mcp_gate.backend import ApprovalBackend, BackendUnavailable
from mcp_gate.callers import FrontCaller
from mcp_gate.creation import RunNow
from mcp_gate.database import StoreUnavailable
from mcp_gate.detached import Detached
from mcp_gate.duty import Duty
from mcp_gate.engine import Engine
from mcp_gate.errors import InvalidParams, Unavailable
from mcp_gate.executor import DeferredExecutor
from mcp_gate.limits import Limits
from mcp_gate.local.backend import LocalBackend
from mcp_gate.mapping import map_call
from mcp_gate.metrics import Metered, Metrics
from mcp_gate.operation import Operation, listening
from mcp_gate.settings import ConfigurationInvalid, GateSettings, load_ring
from mcp_gate.store import TaskStore
from mcp_gate.texts import Wording
from mcp_gate.tools import Catalogue, EmbeddedTools, KnownTool

FORGET_SECONDS: Final = 600
NOT_STORED: Final = "The gate cannot use its database. The tool did not run; repeat the call."

log = structlog.get_logger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_urlsafe(16)}"


@dataclass(frozen=True, slots=True)
class Parts:
    """What can be replaced in a gate; None means the one that the settings describe."""

    backend: ApprovalBackend | None = None
    catalogue: Catalogue | None = None
    clock: Callable[[], datetime] = _now
    new_id: Callable[[str], str] = _new_id
    checkpoint: Callable[[str], None] = lambda _: None

    def with_catalogue(self, catalogue: Catalogue) -> "Parts":
        """These parts with another catalogue."""
        return replace(self, catalogue=catalogue)


class _Unlisted(KnownTool):
    """A tool that the server does not list: it is decided about like any other, but nobody is asked to approve it."""

    def check(self, arguments: Mapping[str, Any]) -> None:
        del arguments
        raise InvalidParams(f"Unknown tool: {self.name}")


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the extension works with while the server runs."""

    settings: GateSettings
    engine: Engine
    duty: Duty
    detached: Detached
    catalogue: Catalogue
    clock: Callable[[], datetime]

    async def call(
        self, tool: str, arguments: dict[str, Any], *, caller: FrontCaller, with_tasks: bool, offered: Offered
    ) -> dict[str, Any] | None:
        """Decide a call: None when it may run at once, else what the client is answered.

        Raises:
            GateError: it cannot be decided, cannot be mapped, or what was decided cannot be stored.
        """
        found = await self.catalogue.find(tool) or _Unlisted(tool, None, {}, None, "")
        binding = map_call(
            found.mapping(),
            server=self.settings.server_name,
            tool=tool,
            title=found.title,
            arguments=arguments,
            token_claims=caller.claims,
            principal=caller.principal,
            subject_claim=self.settings.subject_claim,
            disclosed=found.disclosed,
        )
        try:
            answer = await self.engine.call(
                binding,
                tasks=with_tasks,
                tool_fingerprint=found.fingerprint,
                check_arguments=lambda: found.check(arguments),
                offered=offered,
            )
        except StoreUnavailable as error:
            log.error("store_unavailable", reason=str(error))  # noqa: TRY400 - the reason says all, a traceback more
            raise Unavailable(NOT_STORED) from None
        return None if isinstance(answer, RunNow) else answer.body


@asynccontextmanager
async def open_runtime(
    settings: GateSettings,
    parts: Parts,
    *,
    owner: MCPServer[Any] | Server[Any],
    server: Server[Any],
    lifespan_state: Any,
) -> AsyncIterator[Runtime]:
    """A gate that runs for as long as the block does."""
    ring = load_ring(settings.key_file, create=True)
    await anyio.to_thread.run_sync(migrate.upgrade, settings.database)
    store = TaskStore.open(settings.database, ring)
    try:
        async with open_backend(settings, parts, store=store, ring=ring) as backend:
            metrics = Metrics()
            executor = DeferredExecutor(server, lifespan_state)
            catalogue = parts.catalogue or EmbeddedTools(owner, settings.tools, list_tools=executor.list_tools)
            engine = Engine(
                store,
                backend if settings.operation is None else Metered(backend, metrics),
                executor,
                fingerprint_of=_fingerprint_of(catalogue),
                clock=parts.clock,
                new_id=parts.new_id,
                checkpoint=parts.checkpoint,
                limits=engine_limits(settings),
                wording=Wording(
                    envelope=settings.envelope,
                    show_decision_text=settings.show_decision_text,
                    request_tools=settings.request_tools,
                ),
                instance=settings.instance,
                match_client=settings.match_client,
                serve_approvals=settings.serve_approvals,
            )
            runtime = Runtime(settings, engine, Duty(store.database), Detached(), catalogue, parts.clock)
            operation = Operation(store.database, metrics, lambda: engine.is_recovered, parts.clock)
            async with listening(operation, settings.operation), _at_work(runtime):
                yield runtime
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()


@asynccontextmanager
async def _at_work(runtime: Runtime) -> AsyncIterator[None]:
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        await group.start(runtime.detached.serve)
        group.start_soon(runtime.engine.run, stop)
        try:
            yield
        finally:
            # The engine waits for the tools that it has started; a client that is still waiting gets its answer.
            stop.set()
            runtime.detached.close()


@asynccontextmanager
async def open_backend(
    settings: GateSettings, parts: Parts, *, store: TaskStore, ring: KeyRing
) -> AsyncIterator[ApprovalBackend]:
    """The backend that the settings describe, for as long as the block lasts, unless `parts` bring another."""
    if parts.backend is not None:
        yield parts.backend
        return
    if settings.local is not None:
        local = LocalBackend(settings.local, store.database, ring, clock=parts.clock, new_id=parts.new_id)
        async with anyio.create_task_group() as group:
            group.start_soon(_forgetting, local)
            yield local
            group.cancel_scope.cancel()
        return
    async with open_arap(settings, clock=parts.clock) as backend:
        yield backend


async def _forgetting(local: LocalBackend) -> None:
    while True:
        try:
            await local.forget()
        except BackendUnavailable:
            log.warning("local_requests_kept")  # the next round deletes them
        await anyio.sleep(FORGET_SECONDS)


@asynccontextmanager
async def open_arap(settings: GateSettings, *, clock: Callable[[], datetime] = _now) -> AsyncIterator[ArapBackend]:
    """The decision point and access request service that the settings name, for as long as the block lasts."""
    if settings.backend is None:
        raise ConfigurationInvalid("backend: is missing; without it no decision point can be asked")
    async with open_http(timeout_seconds=settings.backend.timeout_seconds) as http:
        channel = Channel(settings.backend, http=http, clock=clock, insecure_loopback=settings.insecure_loopback)
        callback = settings.callback
        yield ArapBackend(channel, callback_endpoint=None if callback is None else callback.endpoint)


def _fingerprint_of(catalogue: Catalogue) -> Callable[[str], Any]:
    async def fingerprint_of(tool: str) -> str | None:
        found = await catalogue.find(tool, fresh=True)
        return None if found is None else found.fingerprint

    return fingerprint_of


def engine_limits(settings: GateSettings) -> Limits:
    """The engine's bounds as the operator set them."""
    given = settings.limits
    return Limits(
        pending=timedelta(seconds=given.pending_seconds),
        execution=timedelta(seconds=given.execution_seconds),
        retention=timedelta(seconds=given.result_retention_seconds),
        reconciliation=timedelta(seconds=given.reconciliation_seconds),
        chain=given.chain,
        open_tasks=given.open_tasks,
        intents_per_minute=given.submissions_per_minute,
        poll_first=timedelta(seconds=given.poll_interval_seconds),
        client_poll=timedelta(seconds=given.poll_interval_seconds),
        input=timedelta(seconds=given.input_seconds),
        lease=timedelta(seconds=given.lease_seconds),
    )

"""Whether the process lives, whether it can work, and its figures, for whoever watches it.

`/healthz` answers as long as the process can answer. `/readyz` says how each part is: `ok`, `degraded` (it works, yet
somebody should look) or `failed`; one failed part makes it 503, so that a balancer sends no requests here. A backlog of
deliveries or a refused rules file is no reason to stop answering, so both only degrade. `/metrics` is for callers with
the scope `admin` on the main port, and for anybody on the loopback listener that `metrics_bind` opens
(`monitoring.py`). Codes and counts only: nothing here names a person, a client or a request.
"""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from arap_service.api.auth import CallerDep, ContextDep
from arap_service.api.problems import problem_responses
from arap_service.context import Context
from arap_service.domain.callers import Scope
from arap_service.domain.errors import Forbidden, Unauthenticated
from arap_service.metrics import CONTENT_TYPE, InForce, Stored
from arap_service.readiness import MOST_SECONDS, Readiness, readiness
from arap_service.store import operation, reviews
from arap_service.store.database import ReadSession, StoreUnavailable

router = APIRouter(tags=["operation"])


@router.get("/healthz", summary="Is the process alive?")
async def alive() -> dict[str, Any]:
    """Answer as long as the process can answer at all."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    summary="Can the service work?",
    response_model=Readiness,
    responses={503: {"description": "At least one part has failed", "model": Readiness}},
)
async def ready(ctx: ContextDep) -> JSONResponse:
    """Look at every part; a balancer should send no requests while this is 503."""
    found = await readiness(ctx)
    return JSONResponse(found.model_dump(mode="json", exclude_none=True), 503 if found.status == "unavailable" else 200)


@router.get(
    "/metrics",
    summary="Figures in the text format of Prometheus",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}, "description": "All figures"},
        **problem_responses(Unauthenticated, Forbidden),
    },
)
async def metrics(ctx: ContextDep, caller: CallerDep) -> Response:
    """What this process has counted and what the database holds now; needs the scope `admin`."""
    caller.require(Scope.ADMIN)
    return Response(await exposition(ctx), media_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})


async def exposition(ctx: Context) -> bytes:
    """The figures as text; without a database only those of this process."""
    policy = ctx.policy.current()
    rules = InForce(policy.version, ctx.policy.is_newer_refused, frozenset(policy.templates))
    now = ctx.clock()

    def work(session: ReadSession) -> Stored:
        tasks = tuple(operation.open_tasks(session))
        late = reviews.overdue_count(session, now=now)
        return Stored(tasks, operation.backlog(session), operation.audit_log(session), now, late)

    try:
        stored = await ctx.database.look(work, seconds=MOST_SECONDS)
    except StoreUnavailable as error:
        ctx.log.warning("figures_unavailable", reason=error.reason)
        stored = None
    return ctx.metrics.exposition(rules, stored)

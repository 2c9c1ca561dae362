"""Whether the process lives and whether it can work, for whoever watches it."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from sqlalchemy import text

from arap_service.api.auth import ContextDep
from arap_service.store.database import StoreUnavailable

router = APIRouter(tags=["operation"])


@router.get("/healthz", summary="Is the process alive?")
async def alive() -> dict[str, Any]:
    """Answer as long as the process can answer at all."""
    return {"status": "ok"}


@router.get(
    "/readyz", summary="Can the service work?", responses={503: {"description": "It cannot reach its database"}}
)
async def ready(ctx: ContextDep) -> JSONResponse:
    """Ask the database; a balancer should send no requests while this is 503."""
    try:
        await ctx.database.read(lambda session: session.execute(text("SELECT 1")).scalar_one())
    except StoreUnavailable as error:
        return JSONResponse({"status": "unavailable", "reason": f"database_{error.reason}"}, 503)
    return JSONResponse({"status": "ok", "policy": ctx.policy.current().version})

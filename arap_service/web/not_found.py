"""A page for every address below the desk that leads nowhere, so that readers never meet a machine's answer."""

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from arap_service.domain.errors import UnknownTask
from arap_service.web.edge import READING, DeskRoute

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)


@router.api_route("/desk/{_:path}", methods=sorted(READING), response_model=None)
async def nothing_here() -> Response:
    """There is no such page."""
    raise UnknownTask

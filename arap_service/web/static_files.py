"""Style sheets, scripts and the mark: the same for everybody, so they ask for no session and may be cached for ever.

Only names that the package itself contains are served, under the version that the pages link to.
"""

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from arap_service.web.rendering import assets
from arap_service.web.security import ASSET_HEADERS, PAGE_HEADERS

router: Final = APIRouter(include_in_schema=False)


@router.api_route("/desk/static/{version}/{name}", methods=["GET", "HEAD"], response_model=None)
async def static_file(version: str, name: str) -> Response:
    """A file of the package, or an empty 404."""
    asset = assets().get(name)
    if asset is None or asset.version != version:
        return Response(status_code=404, headers=dict(PAGE_HEADERS))
    return Response(asset.content, media_type=asset.media_type, headers=dict(ASSET_HEADERS))

"""The AuthZEN searches over HTTP: which subjects, which resources, which actions.

Routes and their description; what is found is decided in `search`. Bodies are read, and errors answered, as for
evaluations. AuthZEN Authorization API, "Search APIs", "HTTPS JSON Binding".
"""

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from arap_service.api.direct import DirectRoute, respond
from arap_service.api.pdp import ENTITY, MEMBERS, REFUSALS, SEARCH_PATH, described
from arap_service.domain.callers import Scope
from arap_service.search import search_actions, search_resources, search_subjects

_KIND: Final = {
    "type": "object",
    "description": "Its id and its properties are ignored.",
    "required": ["type"],
    "properties": {"type": {"type": "string"}},
}
_PAGE: Final = {
    "page": {
        "type": "object",
        "properties": {"token": {"type": "string"}, "limit": {"type": "integer", "minimum": 0}},
    }
}
_REFUSALS: Final = {
    **REFUSALS,
    501: {
        "description": "Another decision point decides, and offers no such search",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    },
}
_NAMED: Final = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


def _search(*required: str, found: dict[str, Any], **kinds: dict[str, Any]) -> dict[str, Any]:
    parts = {name: MEMBERS[name] for name in (*required, "context")}
    request = {"type": "object", "required": [*required, *kinds], "properties": {**parts, **kinds, **_PAGE}}
    response = {
        "type": "object",
        "required": ["page", "results"],
        "properties": {
            "page": {
                "type": "object",
                "required": ["next_token", "count"],
                "properties": {
                    "next_token": {"type": "string", "description": "Empty on the last page."},
                    "count": {"type": "integer", "minimum": 0},
                },
            },
            "results": {"type": "array", "items": found},
        },
    }
    return described(request, response, says="What was found")


router = APIRouter(route_class=DirectRoute, prefix=SEARCH_PATH, tags=["decision point"])


@router.post(
    "/subject",
    summary="Search subjects",
    response_class=JSONResponse,
    responses=_REFUSALS,
    openapi_extra=_search("resource", "action", subject=_KIND, found=ENTITY),
)
async def subjects(request: Request) -> Response:
    """The subjects of one type that may do the action to the resource."""
    return await respond(request, search_subjects, right=Scope.SEARCH)


@router.post(
    "/resource",
    summary="Search resources",
    response_class=JSONResponse,
    responses=_REFUSALS,
    openapi_extra=_search("subject", "action", resource=_KIND, found=ENTITY),
)
async def resources(request: Request) -> Response:
    """The resources of one type that the subject may do the action to."""
    return await respond(request, search_resources, right=Scope.SEARCH)


@router.post(
    "/action",
    summary="Search actions",
    response_class=JSONResponse,
    responses=_REFUSALS,
    openapi_extra=_search("subject", "resource", found=_NAMED),
)
async def actions(request: Request) -> Response:
    """The actions that the subject may do to the resource."""
    return await respond(request, search_actions, right=Scope.SEARCH)

"""Catalogs over HTTP: which fields of a request are chosen from catalogs, and what is in them.

Routes and their description; what is shown is decided in `requests.catalogs`. Parameters that mean nothing here are
ignored, one that is given twice is refused. Catalog companion of the profile, "Catalog Endpoint" (ARS-110 to ARS-113).
"""

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from arap_service.api.auth import CallerDep, ContextDep
from arap_service.api.problems import NO_STORE, problem_responses
from arap_service.domain import errors
from arap_service.domain.catalogs import RESERVED
from arap_service.requests.catalogs import CatalogQuery, catalogs_document, look_up

router = APIRouter(tags=["access requests"])
_LONGEST: Final = 255
_REFUSALS: Final = problem_responses(
    errors.InvalidRequest,
    errors.Unauthenticated,
    errors.Forbidden,
    errors.NotFound,
    errors.ExpiredDenial,
    errors.RateLimited,
)


def _parameter(name: str, about: str, *, required: bool = False, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "description": about, "schema": {"type": kind}}


_DENIAL: Final = _parameter("evaluation_id", "The denial that the call serves.", required=True)
_ITEM: Final = {
    "type": "object",
    "required": ["value", "label"],
    "properties": {name: {"type": "string"} for name in ("value", "label", "description", "risk_level", "owner")},
}
_LIST: Final = {
    "type": "object",
    "required": ["items"],
    "properties": {
        "items": {"type": "array", "items": _ITEM},
        "next_cursor": {"type": "string", "description": "Absent on the last page."},
        "total": {"type": "integer", "minimum": 0},
    },
}
_DOCUMENT: Final = {"type": "object", "required": ["fields"], "properties": {"fields": {"type": "object"}}}


def _answers(schema: dict[str, Any], about: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": about, "content": {"application/json": {"schema": schema}}}, **_REFUSALS}


@router.get(
    "/access/v1/request-catalogs/{template}",
    summary="Which fields of a request are chosen from which catalog",
    responses=_answers(_DOCUMENT, "The Catalogs Document"),
    openapi_extra={"parameters": [_DENIAL]},
)
async def document(template: str, request: Request, caller: CallerDep, ctx: ContextDep) -> JSONResponse:
    """The fields by JSON pointer, each with its catalog endpoint and the parameters that this takes."""
    given = _given(request)
    answer = await catalogs_document(ctx, caller, template, evaluation_id=given.get("evaluation_id"))
    return JSONResponse(answer, headers=NO_STORE)


@router.get(
    "/access/v1/catalogs/{catalog}",
    summary="Look up values of a catalog",
    responses=_answers(_LIST, "A page of the values that may be requested"),
    openapi_extra={
        "parameters": [
            _DENIAL,
            _parameter("q", "Part of a label, value or description."),
            _parameter("cursor", "The `next_cursor` of the page before."),
            _parameter("limit", "How many values; a page never has more than 100.", kind="integer"),
        ]
    },
)
async def values(catalog: str, request: Request, caller: CallerDep, ctx: ContextDep) -> JSONResponse:
    """What may be requested for the denial, in the order of the labels; catalogs may need scope parameters as well."""
    given = _given(request)
    query = CatalogQuery(
        q=given.get("q", ""),
        cursor=given.get("cursor"),
        limit=_limit(given.get("limit", "20")),
        scope={name: value for name, value in given.items() if name not in RESERVED},
    )
    answer = await look_up(ctx, caller, catalog, evaluation_id=given.get("evaluation_id"), query=query)
    return JSONResponse(answer, headers=NO_STORE)


def _given(request: Request) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise errors.InvalidRequest("A parameter is given twice.")
        if len(value) > _LONGEST and name != "cursor":
            raise errors.InvalidRequest(f"A parameter has more than {_LONGEST} characters.")
        given[name] = value
    return given


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text)):
        raise errors.InvalidRequest("The limit is a number from 1.", pointer="/limit")
    return int(text)

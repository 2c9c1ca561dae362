"""The AuthZEN endpoints over HTTP: evaluation, evaluations, metadata, keys, and the schemas of requests.

Routes and their description; decisions are made in `evaluation`. Errors are short text (PDP-11), a shape is never 422
and a denial never an error status. Evaluations are the hot path: `direct` answers them before the framework's layers,
so the routes here are described by hand. AuthZEN Authorization API, "HTTPS JSON Binding", "Metadata"; Access Request
and Approval Profile.
"""

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from arap_service.api.auth import CallerDep, ContextDep
from arap_service.api.direct import DirectRoute, Endpoint, asking, respond
from arap_service.api.problems import NO_STORE, problem_responses
from arap_service.denials import request_schema_url
from arap_service.domain.errors import Unauthenticated, UnknownTask
from arap_service.evaluation import evaluate, evaluations
from arap_service.keys import METADATA_TYP, Use
from arap_service.protocol.arap import CAPABILITY

SEARCH_PATH: Final = "/access/v1/search"
METADATA_PATH: Final = "/.well-known/authzen-configuration"
PATHS: Final[dict[str, Endpoint]] = {
    "/access/v1/evaluation": asking(evaluate),
    "/access/v1/evaluations": asking(evaluations),
}
"""The hot paths, for `DirectPaths`."""
_CACHED: Final = {"Cache-Control": "public, max-age=300"}  # PDP-35


class SchemaResponse(JSONResponse):
    """A JSON Schema, under the media type of such."""

    media_type = "application/schema+json"


ENTITY: Final = {
    "type": "object",
    "required": ["type", "id"],
    "properties": {"type": {"type": "string"}, "id": {"type": "string"}, "properties": {"type": "object"}},
}
MEMBERS: Final = {
    "subject": ENTITY,
    "resource": ENTITY,
    "action": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "properties": {"type": "object"}},
    },
    "context": {"type": "object"},
}
"""JSON Schemas of what a question consists of."""
_DECISION: Final = {
    "type": "object",
    "required": ["decision"],
    "properties": {"decision": {"type": "boolean"}, "context": {"type": "object"}},
}
_BATCH: Final = {
    "evaluations": {"type": "array", "items": {"type": "object", "properties": MEMBERS}},
    "options": {
        "type": "object",
        "properties": {
            "evaluations_semantic": {"enum": ["execute_all", "deny_on_first_deny", "permit_on_first_permit"]}
        },
    },
}
REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"description": description, "content": {"text/plain": {"schema": {"type": "string"}}}}
    for status, description in {
        400: "The request is not valid",
        401: "A valid access token is required",
        403: "The caller may not use this API",
        413: "The body is too large",
        429: "Too many requests",
        503: "The decision point cannot decide now",
    }.items()
}
"""What every endpoint of the Authorization API may answer instead, for `responses=` of a route."""


def described(request: dict[str, Any], response: dict[str, Any], *, says: str = "The decision") -> dict[str, Any]:
    """What OpenAPI should say about a route that reads its body itself."""
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": {"200": {"description": says, "content": {"application/json": {"schema": response}}}},
    }


direct = APIRouter(route_class=DirectRoute, tags=["decision point"])
router = APIRouter(tags=["decision point"])


@direct.post(
    "/access/v1/evaluation",
    summary="Evaluate one access",
    response_class=JSONResponse,
    responses=REFUSALS,
    openapi_extra=described(
        {"type": "object", "required": ["subject", "resource", "action"], "properties": MEMBERS}, _DECISION
    ),
)
async def single(request: Request) -> Response:
    """Decide one evaluation."""
    return await respond(request, evaluate)


@direct.post(
    "/access/v1/evaluations",
    summary="Evaluate several accesses",
    response_class=JSONResponse,
    responses=REFUSALS,
    openapi_extra=described(
        {"type": "object", "properties": {**MEMBERS, **_BATCH}},
        {
            "anyOf": [
                _DECISION,
                {"type": "object", "properties": {"evaluations": {"type": "array", "items": _DECISION}}},
            ]
        },
    ),
)
async def batch(request: Request) -> Response:
    """Decide a batch of evaluations."""
    return await respond(request, evaluations)


@router.get("/jwks.json", summary="Keys that verify binding tokens and approval states")
async def keys(ctx: ContextDep) -> JSONResponse:
    """The JWK Set of the decision point and of the request service."""
    return JSONResponse(ctx.keys.jwks(), headers=_CACHED)


@router.get(
    "/access/v1/request-schemas/{template}",
    summary="What a request of this kind must add",
    response_class=SchemaResponse,
    responses=problem_responses(Unauthenticated, UnknownTask),
)
async def request_schema(template: str, caller: CallerDep, ctx: ContextDep) -> SchemaResponse:
    """The JSON Schema of the members `context` and `requested_access` of a submission (ARS-106)."""
    del caller  # any authenticated caller may read what it must fill in
    found = ctx.policy.current().templates.get(template)
    if found is None or found.request_schema is None:
        raise UnknownTask("There is no such request schema.")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": request_schema_url(ctx.settings.identifier, template),
        **found.request_schema,
    }
    return SchemaResponse(schema, headers=NO_STORE)


async def metadata(ctx: ContextDep) -> JSONResponse:
    """The metadata of the decision point, from its configuration alone (PDP-27), plain and signed (PDP-36)."""
    identifier = ctx.settings.identifier
    said = {
        "policy_decision_point": identifier,
        "access_evaluation_endpoint": identifier + "/access/v1/evaluation",
        "access_evaluations_endpoint": identifier + "/access/v1/evaluations",
        "search_subject_endpoint": identifier + SEARCH_PATH + "/subject",
        "search_resource_endpoint": identifier + SEARCH_PATH + "/resource",
        "search_action_endpoint": identifier + SEARCH_PATH + "/action",
        "access_request_endpoint": ctx.settings.offered_endpoint,
        "jwks_uri": identifier + "/jwks.json",
        "capabilities": [CAPABILITY],
    }
    claims = {"iss": identifier, "iat": int(ctx.clock().timestamp()), **said}
    signed = ctx.keys.sign(Use.BINDING, claims, METADATA_TYP)
    return JSONResponse({**said, "signed_metadata": signed}, headers=_CACHED)

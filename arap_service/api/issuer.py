"""The endpoints of the built-in token issuer; they exist only while it is switched on."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from arap_service.api.problems import problem_responses
from arap_service.domain.errors import PayloadTooLarge
from arap_service.issuer import Issuer

router = APIRouter(tags=["token issuer"])
well_known = APIRouter(tags=["token issuer"])
_MAX_BODY = 16_384
_FORM = {
    "type": "object",
    "required": ["grant_type"],
    "properties": {
        "grant_type": {"const": "client_credentials"},
        "scope": {"type": "string"},
        "client_id": {"type": "string"},
        "client_secret": {"type": "string"},
    },
}
_TOKEN = {
    "type": "object",
    "required": ["access_token", "token_type", "expires_in"],
    "properties": {
        "access_token": {"type": "string"},
        "token_type": {"type": "string"},
        "expires_in": {"type": "integer"},
        "scope": {"type": "string"},
    },
}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}, "error_description": {"type": "string"}},
}
_CACHED = {"Cache-Control": "public, max-age=300"}


def _issuer(request: Request) -> Issuer:
    issuer: Issuer = request.app.state.issuer
    return issuer


@router.post(
    "/issuer/token",
    summary="Client-credentials grant (RFC 6749 section 4.4)",
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": _FORM}}}
    },
    responses={
        200: {"description": "The token", "content": {"application/json": {"schema": _TOKEN}}},
        400: {"description": "The grant is refused", "content": {"application/json": {"schema": _ERROR}}},
        401: {"description": "The client is not known", "content": {"application/json": {"schema": _ERROR}}},
        **problem_responses(PayloadTooLarge),
    },
)
async def token(request: Request) -> JSONResponse:
    """Give a configured client an access token."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            raise PayloadTooLarge
    status, content, headers = _issuer(request).token(body, request.headers)
    return JSONResponse(content, status, headers)


@router.get("/issuer/jwks.json", summary="Keys that verify access tokens")
async def jwks(request: Request) -> JSONResponse:
    """The JWK Set of the built-in issuer."""
    return JSONResponse(_issuer(request).jwks(), headers=_CACHED)


async def metadata(request: Request) -> JSONResponse:
    """Authorization server metadata (RFC 8414)."""
    return JSONResponse(_issuer(request).metadata(), headers=_CACHED)

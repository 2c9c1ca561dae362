"""Reads JSON bodies the strict way: what could be understood in two ways is not understood at all.

No repeated members, no unknown members in our own API, no values in the error: it names the place only. What the
members mean is decided by the use cases.
"""

from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.datastructures import Headers

from arap_service.api.auth import context
from arap_service.domain.errors import InvalidRequest, PayloadTooLarge
from arap_service.protocol.canonical import InvalidJson, strict_loads

JSON: Final = "application/json"
_JSON: Final = JSON.encode()
MOST_EXACT: Final = 2**53 - 1
"""The largest integer that JSON carries exactly (RFC 8785)."""
Model = TypeVar("Model", bound=BaseModel)


class Body(BaseModel):
    """A request body of our own API: exactly the members that are described."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


async def json_bytes(request: Request) -> bytes:
    """The bytes of a body that says it is JSON.

    Raises:
        InvalidRequest: It says something else.
        PayloadTooLarge: It is longer than configured.
    """
    if _media_type(request.scope["headers"]) != _JSON:
        raise InvalidRequest("The Content-Type must be application/json.")
    return await _body(request, context(request).settings.limits.max_body_bytes)


def _media_type(headers: list[tuple[bytes, bytes]]) -> bytes:
    kind = next((value for name, value in headers if name == b"content-type"), b"")
    return kind if kind == _JSON else kind.partition(b";")[0].strip().lower()


async def _body(request: Request, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise PayloadTooLarge
        pieces.append(piece)
    return b"".join(pieces)


async def json_object(request: Request, *, optional: bool = False) -> dict[str, Any]:
    """The JSON object that the body holds; with `optional` an absent body is an empty object.

    Raises:
        InvalidRequest: It is something else.
    """
    if optional and not await request.body():
        return {}
    try:
        value = strict_loads(await json_bytes(request), max_depth=64)
    except InvalidJson as error:
        raise InvalidRequest("The body is not valid JSON.", pointer=error.pointer) from None
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.", pointer="")
    return value


async def parsed(request: Request, model: type[Model], *, optional: bool = False) -> Model:
    """The body as a `model`.

    Raises:
        InvalidRequest: A member is missing, unknown or of another form.
    """
    value = await json_object(request, optional=optional)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        where = error.errors(include_input=False, include_url=False, include_context=False)[0]["loc"]
        pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in where)
        raise InvalidRequest("A member is missing, unknown or of the wrong form.", pointer=pointer) from None


def idempotency_key(headers: Headers) -> str | None:
    """The raw Idempotency-Key, of which there may be one; what it must look like is known to the use case (ARS-44).

    Raises:
        InvalidRequest: There are several.
    """
    values = headers.getlist("idempotency-key")
    if len(values) > 1:
        raise InvalidRequest("There may be only one Idempotency-Key.")
    return values[0] if values else None

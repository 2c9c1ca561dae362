"""Reads JSON bodies and keys the strict way: what could be understood in two ways is not understood at all.

No repeated members, no unknown members in our own API, no values in the error: it names the place only. What the
members mean is decided by the use cases. ARS-44 for idempotency keys.
"""

import re
from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError

from arap_service.domain.errors import InvalidRequest
from arap_service.protocol.canonical import InvalidJson, strict_loads

Model = TypeVar("Model", bound=BaseModel)
_BARE: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~:/=-]{1,255}")
_STRING: Final = re.compile(r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')


class Body(BaseModel):
    """A request body of our own API: exactly the members that are described."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


async def raw_json(request: Request) -> bytes:
    """The bytes of a body that says it is JSON.

    Raises:
        InvalidRequest: It says something else.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise InvalidRequest("The Content-Type must be application/json.")
    return await request.body()


async def json_object(request: Request, *, optional: bool = False) -> dict[str, Any]:
    """The JSON object that the body holds; with `optional` an absent body is an empty object.

    Raises:
        InvalidRequest: It is something else.
    """
    if optional and not await request.body():
        return {}
    try:
        value = strict_loads(await raw_json(request), max_depth=64)
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


def idempotency_key(request: Request) -> str | None:
    """The key that the caller repeats a request under, spelt as a structured-field string or bare (ARS-44).

    Raises:
        InvalidRequest: It is neither, too long, empty or there twice.
    """
    values = request.headers.getlist("idempotency-key")
    if not values:
        return None
    text = values[0].strip(" ")
    quoted = _STRING.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text
    if len(values) > 1 or not 1 <= len(key) <= 255 or not (quoted or _BARE.fullmatch(text)):
        raise InvalidRequest("The Idempotency-Key is not a string of 1 to 255 characters.")
    return key


def documented(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """What OpenAPI should say about a body that is read here rather than by FastAPI."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}

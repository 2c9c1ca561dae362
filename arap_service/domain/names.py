"""The names in a question: what they may be, since they are stored unsealed, indexed and searched by.

Decides only whether a name can be kept; what it names is for the rules to say. AuthZEN sets no limit, so ours is far
above what a name needs and below what an index of PostgreSQL holds.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from arap_service.protocol.canonical import TOOL_CALL, Tuple4, json_pointer

MOST_BYTES: Final = 2048
_PLACES: Final = (("type", "id"), ("type", "id"), ("name",), ("agent", "arguments_hash", "server"))
_CALLED: Final = ("server", "tool")


def too_long(about: Tuple4) -> str | None:
    """JSON pointer of the first name that is longer than we keep, or None."""
    return next((pointer for pointer, name in names_of(about) if is_too_long(name)), None)


def is_too_long(name: str) -> bool:
    """Whether a name has more than `MOST_BYTES` as UTF-8."""
    return len(name) * 4 > MOST_BYTES and len(name.encode()) > MOST_BYTES


def names_of(about: Tuple4) -> Iterator[tuple[str, str]]:
    """Every name of the question that becomes part of a request, with its JSON pointer."""
    for part, entity, members in zip(about._fields, about, _PLACES, strict=True):
        for member in members:
            name = entity.get(member)
            if isinstance(name, str):
                yield f"/{part}/{member}", name
    call = about.context.get(TOOL_CALL, {})
    for member in _CALLED if isinstance(call, Mapping) else ():
        name = call.get(member)
        if isinstance(name, str):
            yield f"{json_pointer(('context', TOOL_CALL))}/{member}", name

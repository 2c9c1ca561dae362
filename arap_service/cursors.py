"""Cursors of lists: where a page ended, in a form that is ours to read and nobody else's to build on.

A cursor names the kind of list that it belongs to, so that one of another list is refused. It holds no secret and gives
no right: what a page shows is decided anew each time.
"""

import base64
import json
from collections.abc import Sequence

from arap_service.domain.errors import InvalidRequest
from arap_service.protocol.canonical import strict_loads

Value = str | int


def cursor(kind: str, *values: Value) -> str:
    """The cursor of a place in a list of this kind."""
    return base64.urlsafe_b64encode(json.dumps([kind, *values]).encode()).rstrip(b"=").decode()


def read_cursor(text: str, kind: str, *types: type[Value]) -> Sequence[Value]:
    """The values that a cursor of this kind holds.

    Raises:
        InvalidRequest: It is none.
    """
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        found = strict_loads(raw)
    except ValueError:  # also InvalidJson
        found = None
    if not isinstance(found, list) or found[:1] != [kind] or [type(each) for each in found[1:]] != list(types):
        raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor")
    values: list[Value] = found[1:]  # type: ignore[assignment]
    if any(isinstance(each, int) and not 0 <= each < 2**53 for each in values):
        raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor")
    return values

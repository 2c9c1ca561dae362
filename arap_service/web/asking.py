"""What the address of a page asks for, read strictly: what no page of ours links to is refused."""

import re
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from starlette.requests import Request

from arap_service.domain.errors import InvalidRequest
from arap_service.domain.visible import is_hidden

LONGEST: Final = 200
ZONES: Final = ("UTC", *sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/")))
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?", re.ASCII)
_CURSOR: Final = re.compile(r"[A-Za-z0-9_=.~-]{1,1000}", re.ASCII)


def searched(request: Request, name: str = "q") -> str:
    """What was typed into a field that searches, without characters that nobody sees.

    Raises:
        InvalidRequest: It is too long.
    """
    text = "".join(char for char in request.query_params.get(name, "") if not is_hidden(char)).strip()
    if len(text) > LONGEST:
        raise InvalidRequest
    return text


def cursor_of(request: Request) -> str | None:
    """Where the next page of a list begins.

    Raises:
        InvalidRequest: It cannot be a cursor.
    """
    cursor = request.query_params.get("cursor")
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise InvalidRequest
    return cursor


def zone_named(name: str | None) -> ZoneInfo | None:
    """The zone of this name; None where none was chosen or this machine does not know it."""
    return ZoneInfo(name) if name in ZONES else None


def moment_of(text: str, *, zone: str = "UTC") -> datetime | None:
    """A date and time as the browser's own field sends it, by the clocks of `zone`; None where nothing was chosen.

    Raises:
        InvalidRequest: It is none.
    """
    if not text:
        return None
    try:
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidRequest

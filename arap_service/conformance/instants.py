"""Instants as RFC 3339 writes them."""

import re
from datetime import UTC, datetime
from typing import Any, Final

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def instant(value: Any) -> datetime | None:
    """The instant that a member names; None when it names none."""
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value.upper())
    except ValueError:
        return None


def utc_now() -> datetime:
    """The time of this machine; the service is asked for none."""
    return datetime.now(UTC)

"""Notes in the audit log which settings a service was started with: as a digest, because settings hold secrets.

The digest is over all settings that are no secrets, whatever the order of lists; only a change is noted. That of the
rules is noted in `policy_source.py`, in the same chain. See design.md section 5.
"""

import json
from datetime import datetime
from functools import cache
from importlib import metadata
from typing import Final

from pydantic import JsonValue

from arap_service import audit
from arap_service.protocol.canonical import canonical, digest
from arap_service.settings import Settings
from arap_service.store.database import Database, WriteSession

CHAIN: Final = "configuration"
_KIND: Final = "settings_loaded"


async def record_settings(database: Database, settings: Settings, *, now: datetime) -> None:
    """Note the settings, unless the last note says the same.

    Raises:
        StoreUnavailable: It cannot be written now.
    """
    detail = {"digest": settings_digest(settings), "release": _release()}

    def work(session: WriteSession) -> None:
        last = audit.last_entry(session, CHAIN, kind=_KIND)
        if last is None or json.loads(last.detail) != detail:
            audit.append(session, CHAIN, kind=_KIND, actor="system", detail=detail, now=now)

    await database.write(work)


@cache
def _release() -> str:
    return metadata.version("arap")


def settings_digest(settings: Settings) -> str:
    """SHA-256 over the settings; secrets count by whether they are set, passwords in addresses not at all."""
    shown = settings.model_dump(mode="json")
    shown["database"] = shown["database"].rpartition("@")[2]
    return digest(_ordered(shown))


def _ordered(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _ordered(member) for name, member in value.items()}
    if isinstance(value, list):
        return sorted((_ordered(each) for each in value), key=canonical)
    return value

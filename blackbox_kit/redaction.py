"""Takes secrets out of what is kept of an exchange: tokens, sealed states, and what the control file calls secret."""

from collections.abc import Collection, Mapping
from typing import Any, Final

REDACTED: Final = "[redacted]"
LONGEST: Final = 2_000
# Values under these names are credentials or sealed, whoever sends them.
SECRET_NAMES: Final = frozenset(
    {"authorization", "access_token", "refresh_token", "token", "password", "client_secret"}
)
SHORTENED: Final = frozenset({"requestState"})


def redacted(value: Any, secrets: Collection[str]) -> Any:
    """A JSON value without the secrets, and with long texts cut."""
    if isinstance(value, str):
        for secret in sorted(secrets, key=len, reverse=True):
            if secret:
                value = value.replace(secret, REDACTED)
        return value if len(value) <= LONGEST else value[:LONGEST] + "…"
    if isinstance(value, Mapping):
        return {name: _member(name, member, secrets) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, secrets) for item in value]
    return value


def _member(name: object, member: Any, secrets: Collection[str]) -> Any:
    if str(name).lower() in SECRET_NAMES and isinstance(member, str):
        return REDACTED
    if name in SHORTENED and isinstance(member, str):
        return member[:12] + "…"
    return redacted(member, secrets)

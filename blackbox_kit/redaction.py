"""Takes secrets out of what is kept of an exchange: tokens, sealed states, and what the control file calls secret.

Whatever is cut is cut here, after that: the half of a secret is none that could be found.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import quote

REDACTED: Final = "[redacted]"
LONGEST: Final = 2_000
LONGEST_NOTE: Final = 600
DEEPEST: Final = 60
# Values under these names are credentials or sealed, whoever sends them.
SECRET_NAMES: Final = frozenset(
    {"authorization", "access_token", "refresh_token", "token", "password", "client_secret"}
)
SHORTENED: Final = frozenset({"requestState"})
WRITTEN_OUT: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def redacted(value: Any, secrets: Collection[str]) -> Any:
    """A JSON value without the secrets, with long texts cut, and no deeper than any report needs it."""
    return _redacted(value, _pattern(secrets), 0)


def note(text: str, secrets: Collection[str]) -> str:
    """A note as it may be shown: without the secrets, then cut in the middle, with control characters written out."""
    clean = _cleaned(text, _pattern(secrets))
    if len(clean) > LONGEST_NOTE:
        kept = LONGEST_NOTE // 2
        clean = f"{clean[:kept]} … {clean[-kept:]}"
    return visible(clean)


def visible(text: str) -> str:
    """The text with everything written out that a terminal obeys, or that nobody sees."""
    return "".join(
        one if unicodedata.category(one) not in WRITTEN_OUT else one.encode("unicode_escape").decode("ascii")
        for one in text
    )


def _pattern(secrets: Collection[str]) -> re.Pattern[str] | None:
    spellings = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
    if not spellings:
        return None
    longest_first = sorted(spellings, key=lambda one: (-len(one), one))
    return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)


def _spellings(secret: str) -> set[str]:
    """The secret, and how it stands in JSON, in the text of a value, and in a URL."""
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
    }


def _cleaned(text: str, pattern: re.Pattern[str] | None) -> str:
    return text if pattern is None else pattern.sub(REDACTED, text)


def _redacted(value: Any, pattern: re.Pattern[str] | None, depth: int) -> Any:
    if isinstance(value, str):
        clean = _cleaned(value, pattern)
        return clean if len(clean) <= LONGEST else clean[:LONGEST] + "…"
    if depth > DEEPEST and isinstance(value, Mapping | list | tuple):
        return "…"
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for name, member in value.items():
            shown = _cleaned(str(name), pattern)
            while shown in found:
                shown += "'"
            found[shown] = _member(name, member, pattern, depth)
        return found
    if isinstance(value, list | tuple):
        return [_redacted(item, pattern, depth + 1) for item in value]
    return value


def _member(name: object, member: Any, pattern: re.Pattern[str] | None, depth: int) -> Any:
    if str(name).lower() in SECRET_NAMES and isinstance(member, str):
        return REDACTED
    if name in SHORTENED and isinstance(member, str):
        return _cleaned(member, pattern)[:12] + "…"
    return _redacted(member, pattern, depth + 1)

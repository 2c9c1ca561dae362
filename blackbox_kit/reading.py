"""JSON as a subject sends it, made fit to be walked through, kept and shown."""

import json
from typing import Any, Final

DEEPEST: Final = 100
"""How many levels anything that is meant has at most."""


def json_of(raw: bytes) -> Any:
    """The value, half surrogates replaced; None if it is no JSON, or nested deeper than anything that is meant."""
    try:
        return _tame(json.loads(raw), DEEPEST)
    except (ValueError, RecursionError):
        return None


def _tame(value: Any, levels: int) -> Any:
    if levels == 0:
        raise ValueError
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_tame(name, levels): _tame(member, levels - 1) for name, member in value.items()}
    return [_tame(item, levels - 1) for item in value] if isinstance(value, list) else value

"""Signs bindings and approvals so that whoever receives them can read them again.

Decides which claims give way when a token would be longer than any verifier of ours reads: the inline objects, for
which `binding_hash` stands. Access Request and Approval Profile, "Denial Binding Artifacts".
"""

from collections.abc import Mapping
from typing import Any, Final

from arap_service.keys import MAX_TOKEN, Keys, Use

INLINE: Final = frozenset({"subject", "resource", "action", "context"})
RESERVE: Final = 4096
"""By how much the claims of an approval may exceed those of its denial, in characters of the token."""


def sign_short(keys: Keys, use: Use, claims: Mapping[str, Any], typ: str, *, reserve: int = 0) -> str:
    """A token over `claims`, without the inline objects where they would make it too long; see `is_readable`."""
    token = keys.sign(use, claims, typ)
    if is_readable(token, reserve=reserve):
        return token
    return keys.sign(use, {name: value for name, value in claims.items() if name not in INLINE}, typ)


def is_readable(token: str, *, reserve: int = 0) -> bool:
    """Whether a verifier would look at `token`, even if it were `reserve` characters longer."""
    return len(token) + reserve <= MAX_TOKEN

"""How far an approval reaches: exactly what was asked (PDP-67), but for members that its template lets vary.

A widened scope names the members that may be other ones, by JSON pointer, and may bound them by a condition that the
fresh question must satisfy. Whose name something is done in, and by which agent, never varies. Profile, "Approval
Scope".
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from arap_service.protocol.canonical import MACHINERY, TOOL_CALL, Tuple4, same_tuple

_NEVER: Final[Mapping[str, str]] = {
    "/subject/type": "an approval stays with its subject",
    "/subject/id": "an approval stays with its subject",
    "/context/agent": "an approval stays with its agent",
}
_PARTS: Final[Mapping[str, Collection[str]]] = {
    "subject": {"type", "id", "properties"},
    "resource": {"type", "id", "properties"},
    "action": {"name", "properties"},
}


@dataclass(frozen=True, slots=True)
class Scope:
    """The members that may vary, what that means in words, and the condition that a fresh question must satisfy."""

    may_vary: tuple[str, ...]
    words: str
    within: str | None = None


def unvariable(pointer: str) -> str | None:
    """Why nobody may let this member vary; None when it may."""
    names = _names(pointer)
    if pointer in _NEVER:
        return _NEVER[pointer]
    if len(names) < 2 or not pointer.startswith("/"):
        return "there is no such member"
    if names[0] == "context":
        is_unbound = names[1] in MACHINERY or names[1] == TOOL_CALL
        return "this member is bound by no approval, so it varies anyway" if is_unbound else None
    return None if names[1] in _PARTS.get(names[0], ()) else "there is no such member"


def read_widening(value: Any) -> dict[str, Any]:
    """The members `may_vary` and `within` of a signed scope; empty when it is exact.

    Raises:
        ValueError: It is none that we would have signed.
    """
    if value is None:
        return {}
    may_vary, within = (value.get("may_vary"), value.get("within")) if isinstance(value, Mapping) else (None, None)
    is_listed = isinstance(may_vary, list) and all(isinstance(pointer, str) for pointer in may_vary)
    if not is_listed or not may_vary or any(map(unvariable, may_vary)) or not isinstance(within, str | None):
        raise ValueError("not a scope")
    return {"may_vary": tuple(may_vary), "within": within}


def without(about: Tuple4, pointers: Iterable[str]) -> Tuple4:
    """What was asked but for the members at `pointers`; one that is not there is not missed."""
    parts: dict[str, Any] = about._asdict()
    for pointer in pointers:
        parts = _without(parts, _names(pointer))
    return Tuple4(**parts)


def same_but(approved: Tuple4, asked: Tuple4, members: Iterable[str], *, may_vary: Collection[str]) -> bool:
    """Whether two evaluations are about the same thing, but for the members that may vary.

    Raises:
        Unrepresentable: as `same_tuple`.
    """
    return same_tuple(without(approved, may_vary), without(asked, may_vary), members)


def _without(value: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    name, *rest = names
    if not rest:
        return {key: member for key, member in value.items() if key != name}
    inner = value.get(name)
    return {**value, name: _without(inner, rest)} if isinstance(inner, Mapping) else dict(value)


def _names(pointer: str) -> list[str]:
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]

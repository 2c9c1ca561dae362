"""Reads JSON strictly, and hashes and compares what a denial or an approval is bound to.

Decides which JSON texts are acceptable, when two values are the same value, and which members of a
context bind. It doesn't decide what a mismatch means: that is the caller's error to raise.
Sources: RFC 8785 (JCS), RFC 7493 (I-JSON), access request profile, "Structural Comparison" and "Hash Construction".
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import pydantic
import rfc8785

from arap_service.protocol.plain import SAFE_INTEGER, plain_form

JsonValue: TypeAlias = pydantic.JsonValue
Json: TypeAlias = JsonValue

TOOL_CALL: Final = "urn:x-arap:tool_call"
"""The context member that shows rules and reviewers the call; it never binds (`arguments_hash` does)."""

MACHINERY: Final = frozenset({"access_request", "evaluation_id", "evaluated_at", "reason", "approval"})
"""Members of a context that belong to the profile itself and never bind (PDP-54)."""

DEFAULT_VOLATILE: Final = frozenset(
    {"time", "timestamp", "current_time", "nonce", "request_id", "correlation_id", "trace_id", "traceparent"}
)
"""Members of a context that differ at every call, so that binding them would void every approval (PDP-55)."""

# A path is linked from its end, so that walking a large text costs nothing for the pointers that nobody asks for.
_Path: TypeAlias = "tuple[_Path, object] | None"

_NUMBERS: Final = (int, float)
_ARRAYS: Final = (list, tuple)
_JSON_TYPES: Final = (str, dict, list, tuple, int, float, type(None))
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_MESSAGES: Final[Mapping[str, str]] = {
    "utf8": "the text is not UTF-8",
    "syntax": "the text is not JSON",
    "duplicate": "an object has two members of one name",
    "number": "a number is not finite or too long",
    "surrogate": "a string holds an unpaired surrogate",
    "depth": "the text is nested too deeply",
}


class InvalidJson(ValueError):
    """The text is not acceptable JSON: `code` says why, `pointer` where; the message repeats nothing of the text."""

    def __init__(self, code: str, pointer: str = "") -> None:
        super().__init__(_MESSAGES[code])
        self.code = code
        self.pointer = pointer


class Unrepresentable(ValueError):
    """RFC 8785 cannot carry a value exactly; `pointer` says which, and the message repeats nothing of it."""

    def __init__(self, pointer: str) -> None:
        super().__init__("a value has no canonical JSON form")
        self.pointer = pointer


class Tuple4(NamedTuple):
    """What an evaluation is about, as the JSON objects that arrived, unknown members included."""

    subject: Mapping[str, Any]
    resource: Mapping[str, Any]
    action: Mapping[str, Any]
    context: Mapping[str, Any]


class _FaultFoundError(Exception):
    """Carries the code of a fault out of the decoder's hooks."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class _Pairs(list[tuple[str, Any]]):
    """An object with its members in order and duplicates kept."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _FaultFoundError("duplicate")
    return members


def _finite(text: str) -> float | int:
    number = float(text)
    if math.isinf(number):
        raise _FaultFoundError("number")
    if abs(number) > SAFE_INTEGER and Decimal(text) != Decimal(repr(number)):
        # 9007199254740993.0 becomes its neighbour here. As an integer that neighbour is refused wherever it would bind,
        # just as 9007199254740993 is (PDP-14).
        return int(number)
    return number


def _refuse_constant(_name: str) -> NoReturn:
    raise _FaultFoundError("number")


def _tolerant_integer(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return math.inf


_STRICT: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
_TOLERANT: Final = json.JSONDecoder(object_pairs_hook=_Pairs, parse_int=_tolerant_integer)


def strict_loads(raw: bytes | str, *, max_depth: int = 128) -> JsonValue:
    """Parse one JSON text, refusing everything that two parsers could read differently.

    Refused: invalid UTF-8, two members of one name, NaN and the infinities, numbers that overflow,
    unpaired surrogates, and more than `max_depth` containers inside one another (PDP-12).

    Raises:
        InvalidJson: with the first fault found and, where it can be told, its JSON pointer.
    """
    text = _decoded(raw)
    try:
        value = _STRICT.decode(text)
    except _FaultFoundError as fault:
        raise _located(fault.code, text) from None
    except json.JSONDecodeError:
        raise InvalidJson("syntax") from None
    except ValueError:
        # Python's own limit on the digits of an integer.
        raise _located("number", text) from None
    except RecursionError:
        raise InvalidJson("depth") from None
    if text.count("[") + text.count("{") > max_depth and _is_deeper(value, max_depth):
        raise InvalidJson("depth")
    if _SURROGATE_ESCAPE.search(text) is not None and _has_surrogate(json.dumps(value, ensure_ascii=False)):
        raise InvalidJson("surrogate", _first(value, _is_broken_text))
    return value  # type: ignore[no-any-return]  # the decoder makes JSON values and nothing else


def _decoded(raw: bytes | str) -> str:
    if isinstance(raw, bytes):
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise InvalidJson("utf8") from None
    if not raw.isascii() and _has_surrogate(raw):
        raise InvalidJson("surrogate")
    return raw


def _is_deeper(value: JsonValue, max_depth: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(max_depth):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _located(code: str, text: str) -> InvalidJson:
    """The fault with its pointer, from a second reading that keeps what the first one refused."""
    try:
        value = _TOLERANT.decode(text)
    except json.JSONDecodeError:
        return InvalidJson("syntax")
    except RecursionError:
        return InvalidJson("depth")
    if code == "number":
        return InvalidJson(code, _first(value, _is_infinite))
    twice = next((path, name) for path, found in _walk(value) for name in _repeated(found))
    return InvalidJson(code, json_pointer(_names(twice)))


def _is_infinite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _repeated(value: object) -> Iterator[str]:
    seen: set[str] = set()
    for name, _ in value if isinstance(value, _Pairs) else ():
        if name in seen:
            yield name
        seen.add(name)


def _is_broken_text(value: object) -> bool:
    return isinstance(value, str) and _has_surrogate(value)


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _first(value: object, is_fault: Callable[[object], bool]) -> str:
    """Pointer of the first faulty value in document order; a faulty name counts as a fault of its object."""

    def is_faulty(found: object) -> bool:
        names = found if isinstance(found, dict) else ()
        return is_fault(found) or any(not isinstance(name, str) or is_fault(name) for name in names)

    return next((json_pointer(_names(path)) for path, found in _walk(value) if is_faulty(found)), "")


def _walk(value: object) -> Iterator[tuple[_Path, object]]:
    """Every value below and including `value` with the path to it, in document order, without recursion."""
    stack: list[tuple[_Path, object]] = [(None, value)]
    while stack:
        path, found = stack.pop()
        yield path, found
        children: Iterable[tuple[object, object]] = ()
        if isinstance(found, dict):
            children = found.items()
        elif isinstance(found, _Pairs):
            children = found
        elif isinstance(found, list | tuple):
            children = enumerate(found)
        stack.extend(reversed([((path, name), child) for name, child in children]))


def _names(path: _Path) -> list[object]:
    names: list[object] = []
    while path is not None:
        path, name = path
        names.append(name)
    return names[::-1]


def json_pointer(names: Iterable[object]) -> str:
    """The JSON pointer (RFC 6901) through these names and indexes; an unprintable name is made printable."""
    pointer = "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in names)
    return pointer.encode(errors="replace").decode()


def find_unrepresentable(value: object) -> str | None:
    """JSON pointer of the first number that RFC 8785 cannot carry exactly, or None (PDP-14)."""
    values = [value]
    for found in values:  # which grows meanwhile
        kind = type(found)  # asked for once: this runs for every value of every evaluation
        if kind is str:
            continue
        if isinstance(found, dict):
            values += found.values()
        elif isinstance(found, _ARRAYS):
            values += found
        elif isinstance(found, _NUMBERS) and _is_unrepresentable_number(found):
            return _first(value, _is_unrepresentable_number)
    return None


def _is_unrepresentable_number(value: object) -> bool:
    if isinstance(value, int):
        return not -SAFE_INTEGER <= value <= SAFE_INTEGER
    return _is_infinite(value)


def canonical(value: object) -> bytes:
    """The one canonical form of a JSON value (RFC 8785), as UTF-8.

    Raises:
        Unrepresentable: for a number, string or name that the form cannot carry exactly, or a value that isn't JSON.
    """
    try:
        plain = plain_form(value)
        if plain is not None:
            return plain
        return rfc8785.dumps(value)  # type: ignore[arg-type]  # it checks each value itself
    except RecursionError:
        raise Unrepresentable("") from None
    except ValueError:
        # Also a name with an unpaired surrogate, which rfc8785 lets through as a UnicodeEncodeError.
        raise Unrepresentable(_first(value, _has_no_form)) from None


def _has_no_form(value: object) -> bool:
    return _is_broken_text(value) or _is_unrepresentable_number(value) or not isinstance(value, _JSON_TYPES)


def same_json(a: object, b: object) -> bool:
    """Whether two JSON values are one value: by type, code point and order of arrays, 1 equal to 1.0 (ARS-26)."""
    stack = [(a, b)]
    while stack:
        left, right = stack.pop()
        if isinstance(left, dict):
            if not isinstance(right, dict) or left.keys() != right.keys():
                return False
            stack.extend((member, right[name]) for name, member in left.items())
        elif isinstance(left, list | tuple):
            if not isinstance(right, list | tuple) or len(left) != len(right):
                return False
            stack.extend(zip(left, right, strict=True))
        elif _kind(left) is not _kind(right) or left != right:
            return False
    return True


def _kind(value: object) -> type:
    # A boolean is an int to Python, and 1.0 is the same JSON number as 1.
    return float if type(value) is int else type(value)


def digest(value: object) -> str:
    """SHA-256 of the canonical form, base64url without padding (43 characters) (PDP-52)."""
    return base64.urlsafe_b64encode(hashlib.sha256(canonical(value)).digest()).rstrip(b"=").decode()


def arguments_hash(arguments: Mapping[str, object]) -> str:
    """`sha256:` and the hex SHA-256 of the canonical arguments of a tool call (PEP-24, GOV-06)."""
    return "sha256:" + hashlib.sha256(canonical(dict(arguments))).hexdigest()


def prune_subject(subject: Mapping[str, Any]) -> dict[str, Any]:
    """The subject without `properties.act`, and without properties that are then empty (ARS-24, PDP-53)."""
    pruned = dict(subject)
    properties = pruned.get("properties")
    if isinstance(properties, Mapping):
        pruned["properties"] = {name: value for name, value in properties.items() if name != "act"}
        if not pruned["properties"]:
            del pruned["properties"]
    return pruned


def bound_context(context: Mapping[str, Any] | None, members: Iterable[str]) -> dict[str, Any]:
    """Exactly the listed members of a context; an absent one stays absent, a null one stays null (ARS-22, PDP-15)."""
    return {name: context[name] for name in members if name in context} if context else {}


def bindable_members(context: Mapping[str, Any] | None, *, volatile: Collection[str] = DEFAULT_VOLATILE) -> list[str]:
    """Sorted names of the members that bind: all but machinery, volatile ones and the shown call (PDP-54, PDP-55)."""
    return sorted(set(context or ()) - MACHINERY - set(volatile) - {TOOL_CALL})


def binding_hash(
    subject: Mapping[str, Any],
    resource: Mapping[str, Any],
    action: Mapping[str, Any],
    context: Mapping[str, Any] | None,
    members: Iterable[str],
) -> str:
    """The digest that ties a denial or an approval to what was evaluated (PDP-52)."""
    return _hash_of(prune_subject(subject), resource, action, bound_context(context, members))


def accepted_binding_hashes(
    subject: Mapping[str, Any],
    resource: Mapping[str, Any],
    action: Mapping[str, Any],
    context: Mapping[str, Any] | None,
    members: Iterable[str],
) -> frozenset[str]:
    """The digests to accept from another issuer: ours, and the one that keeps emptied properties (ARS-25, X-01)."""
    pruned = prune_subject(subject)
    bound = bound_context(context, members)
    accepted = {_hash_of(pruned, resource, action, bound)}
    if "properties" not in pruned:
        accepted.add(_hash_of({**pruned, "properties": {}}, resource, action, bound))
    return frozenset(accepted)


def _hash_of(
    subject: dict[str, Any], resource: Mapping[str, Any], action: Mapping[str, Any], context: dict[str, Any]
) -> str:
    return digest({"subject": subject, "resource": dict(resource), "action": dict(action), "context": context})


def same_tuple(a: Tuple4, b: Tuple4, members: Iterable[str]) -> bool:
    """Whether two evaluations are about the same thing: subject pruned, context as far as it binds (ARS-20, PDP-67)."""
    names = tuple(members)
    return all(
        same_json(one, other)
        for one, other in (
            (prune_subject(a.subject), prune_subject(b.subject)),
            (dict(a.resource), dict(b.resource)),
            (dict(a.action), dict(b.action)),
            (bound_context(a.context, names), bound_context(b.context, names)),
        )
    )

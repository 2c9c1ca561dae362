"""The fields that a person fills in where a denied evaluation lacks what a template's request schema asks for.

From a JSON Schema to a flat list of fields, and from what was typed back to values. Members that are bound, or that
mean something to the profile, are never asked for: a form changes nothing that an approval would cover (ARS-107).
Whether the values satisfy the whole schema is judged in `input_faults.py`. Access Request and Approval Profile,
"Requestable Denial Context", `form_url`.
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, Literal

from arap_service.protocol.arap import format_instant
from arap_service.protocol.canonical import DEFAULT_VOLATILE, MACHINERY, TOOL_CALL, json_pointer

Kind = Literal["text", "long", "integer", "number", "choice", "lines", "date", "moment"]
Path = tuple[str, ...]
CLOSED: Final = MACHINERY | DEFAULT_VOLATILE | {TOOL_CALL, "arguments_hash", "agent", "server"}
"""Members of a context that enforcement points state and nobody fills in."""
MOST_FIELDS: Final = 40
MOST_TEXT: Final = 4_000
_SHORT: Final = 200
_DEEPEST: Final = 6
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,15})", re.ASCII)
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?", re.ASCII)
_SAFE: Final = 2**53 - 1
_YES_NO: Final = ((True, "Yes"), (False, "No"))


@dataclass(frozen=True, slots=True)
class Choice:
    """One value to choose; `key` is what the form sends for it."""

    key: str
    label: str
    value: Any


@dataclass(frozen=True, slots=True)
class FormField:
    """One thing to fill in; `name` is that of the field in the form, `path` leads to its place in the request."""

    name: str
    path: Path
    title: str
    hint: str | None
    kind: Kind
    required: bool
    choices: tuple[Choice, ...] = ()
    longest: int = MOST_TEXT

    @property
    def pointer(self) -> str:
        """Its place as a JSON pointer."""
        return json_pointer(self.path)


@dataclass(frozen=True, slots=True)
class Filled:
    """What was typed, as values in their places, with a message for each field (by name) that cannot be one."""

    values: Mapping[str, Any]
    messages: Mapping[str, str]


def fields_of(
    schema: Mapping[str, Any], *, context: Mapping[str, Any], bound: Collection[str]
) -> tuple[FormField, ...]:
    """What of `schema` may be filled in beside this `context`, of which the members `bound` stay as they are."""
    found: list[FormField] = []
    for path, part, required in _leaves(schema):
        if path[0] == "context" and (path[1] in CLOSED or path[1] in bound or _is_there(context, path[1:])):
            continue
        field = _field(f"f{len(found)}", path, part, required=required)
        if field is not None and len(found) < MOST_FIELDS:
            found.append(field)
    return tuple(found)


def unaskable(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The places of required members that no form can ask for, as JSON pointers."""
    places: list[str] = []
    askable = 0
    for path, part, required in _leaves(schema):
        is_closed = path[0] == "context" and path[1] in CLOSED
        can_ask = not is_closed and _field("", path, part, required=required) is not None and askable < MOST_FIELDS
        askable += can_ask
        if required and not can_ask and not is_closed:
            places.append(json_pointer(path))
    return tuple(places)


def read(fields: Sequence[FormField], typed: Mapping[str, str]) -> Filled:
    """The values of `typed`; an empty field has none, and a required one then has a message."""
    values: dict[str, Any] = {}
    messages: dict[str, str] = {}
    for field in fields:
        text = _plain(typed.get(field.name, ""))
        if not text:
            if field.required:
                messages[field.name] = "Please choose." if field.kind == "choice" else "Please fill this in."
            continue
        value = _value(field, text)
        if isinstance(value, _Message):
            messages[field.name] = value.text
        else:
            _put(values, field.path, value)
    return Filled(values, messages)


def merged(own: Mapping[str, Any], beneath: Mapping[str, Any]) -> dict[str, Any]:
    """`own` with what only `beneath` has; where both have a member that is no object in both, `own` counts."""
    result = dict(own)
    for name, value in beneath.items():
        if name not in result:
            result[name] = value
        elif isinstance(result[name], Mapping) and isinstance(value, Mapping):
            result[name] = merged(result[name], value)
    return result


def added(own: Mapping[str, Any], beneath: Mapping[str, Any]) -> dict[str, Any]:
    """What `merged` takes from `beneath`."""
    result: dict[str, Any] = {}
    for name, value in beneath.items():
        if name not in own:
            result[name] = value
        elif isinstance(own[name], Mapping) and isinstance(value, Mapping) and (inner := added(own[name], value)):
            result[name] = inner
    return result


def open_part(filled: Mapping[str, Any], *, bound: Collection[str]) -> dict[str, Any]:
    """What was filled in without the members of the context that are bound or stated by enforcement points."""
    context = {
        name: value for name, value in filled.get("context", {}).items() if name not in CLOSED and name not in bound
    }
    wishes = filled.get("requested_access", {})
    return {name: part for name, part in (("context", context), ("requested_access", wishes)) if part}


@dataclass(frozen=True, slots=True)
class _Message:
    text: str


def _leaves(schema: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any], bool]]:
    """The members below `context` and `requested_access` that are no objects with members of their own.

    One is required when it is, and every object around it.
    """
    for name in ("requested_access", "context"):
        part = _resolved(schema, schema.get("properties", {}).get(name))
        yield from _inner(schema, part, (name,), required=True)


def _inner(
    root: Mapping[str, Any], part: Mapping[str, Any], path: Path, *, required: bool
) -> Iterator[tuple[Path, Mapping[str, Any], bool]]:
    demanded = part.get("required", ())
    properties = part.get("properties", {})
    for name in (*properties, *(name for name in demanded if name not in properties)):
        member = _resolved(root, properties.get(name))
        is_required = required and name in demanded
        if "properties" in member and len(path) < _DEEPEST:
            yield from _inner(root, member, (*path, name), required=is_required)
        else:
            yield (*path, name), member, is_required


def _resolved(root: Mapping[str, Any], part: object) -> Mapping[str, Any]:
    """The part itself, or what it refers to within the same schema; nothing where that cannot be told."""
    for _ in range(_DEEPEST):
        if not isinstance(part, Mapping):
            return {}
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return part
        target: object = root if reference.startswith("#") else None
        for name in reference.split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901  # the unescaped name
            target = target.get(name) if isinstance(target, Mapping) else None
        beside = {name: value for name, value in part.items() if name != "$ref"}
        part = {**target, **beside} if isinstance(target, Mapping) else None
    return {}


def _field(name: str, path: Path, part: Mapping[str, Any], *, required: bool) -> FormField | None:
    kind = _kind(part)
    if kind is None or part.get("readOnly") is True:
        return None
    longest = part.get("maxLength")
    return FormField(
        name=name,
        path=path,
        title=_words(part.get("title")) or _spoken(path[-1]),
        hint=_words(part.get("description")),
        kind=kind,
        required=required,
        choices=_choices(part),
        longest=min(longest, MOST_TEXT) if isinstance(longest, int) and longest >= 1 else MOST_TEXT,
    )


def _kind(part: Mapping[str, Any]) -> Kind | None:
    if _choices(part):
        return "choice"
    match part.get("type"):
        case "string" if part.get("format") == "date":
            return "date"
        case "string" if part.get("format") == "date-time":
            return "moment"
        case "string":
            longest = part.get("maxLength")
            return "text" if isinstance(longest, int) and longest <= _SHORT else "long"
        case "integer":
            return "integer"
        case "number":
            return "number"
        case "array" if isinstance(items := part.get("items"), Mapping) and items.get("type") == "string":
            return "lines"
        case _:
            return None


def _choices(part: Mapping[str, Any]) -> tuple[Choice, ...]:
    listed: list[tuple[Any, Any]] = []
    variants = part.get("oneOf")
    if isinstance(part.get("enum"), list):
        listed = [(value, None) for value in part["enum"]]
    elif "const" in part:
        listed = [(part["const"], None)]
    elif isinstance(variants, list) and all(isinstance(each, Mapping) and "const" in each for each in variants):
        listed = [(each["const"], each.get("title")) for each in variants]
    elif part.get("type") == "boolean":
        listed = list(_YES_NO)
    if any(isinstance(value, Mapping | list) for value, _ in listed):
        return ()
    labels = dict(_YES_NO)
    return tuple(
        Choice(str(place), _words(title) or _label(value, labels), value) for place, (value, title) in enumerate(listed)
    )


def _label(value: object, labels: Mapping[bool, str]) -> str:
    if isinstance(value, bool):
        return labels[value]
    return value if isinstance(value, str) and value else json.dumps(value)


def _value(field: FormField, text: str) -> Any:
    if _CONTROL.search(text):
        return _Message("This contains characters that cannot be shown. Please type it again.")
    if len(text) > field.longest:
        return _Message(f"Please write at most {field.longest:,} characters.")
    match field.kind:
        case "choice":
            chosen = next((choice for choice in field.choices if choice.key == text), None)
            return _Message("Please choose one of the values.") if chosen is None else chosen.value
        case "integer":
            whole = int(text) if _INTEGER.fullmatch(text) else _SAFE + 1
            return whole if abs(whole) <= _SAFE else _Message("Please write a whole number, such as 25.")
        case "number":
            return _number(text)
        case "date":
            return _date(text)
        case "moment":
            return _moment(text)
        case "lines":
            return [line.strip() for line in text.split("\n") if line.strip()]
        case _:
            return text


def _number(text: str) -> Any:
    wrong = _Message("Please write a number, such as 25 or 2.5.")
    if not _NUMBER.fullmatch(text):
        return wrong
    if _INTEGER.fullmatch(text):
        return int(text) if abs(int(text)) <= _SAFE else wrong
    number = float(text)
    return number if math.isfinite(number) else wrong


def _date(text: str) -> Any:
    try:
        return date.fromisoformat(text).isoformat() if _DATE.fullmatch(text) else _Message(_WRONG_DATE)
    except ValueError:
        return _Message(_WRONG_DATE)


_WRONG_DATE: Final = "Please write a date as year-month-day, such as 2026-01-31."


def _moment(text: str) -> Any:
    wrong = _Message("Please write date and time in UTC, such as 2026-01-31T12:00.")
    try:
        return format_instant(datetime.fromisoformat(text).replace(tzinfo=UTC)) if _MOMENT.fullmatch(text) else wrong
    except ValueError:
        return wrong


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _words(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _spoken(name: str) -> str:
    phrase = name.replace("_", " ").strip() or name
    return phrase[:1].upper() + phrase[1:]


def _is_there(context: Mapping[str, Any], path: Path) -> bool:
    here: Any = context
    for name in path:
        if not isinstance(here, Mapping) or name not in here:
            return False
        here = here[name]
    return True


def _put(values: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value

"""How much work it is to check one value against one schema that others wrote, so that too much is refused before.

A validator remembers nothing: what two parts of a schema lead to is gone through twice, and a few lines that do so at
each of many steps keep it busy for hours. Here each pair of a part and a place in the value is looked at once, and what
the validator would do there is only added up. A schema that refers to itself is fine as long as the value ends.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

import jsonschema_rs

MOST: Final = 1_000_000
"""How many visits of a part of the schema at a place in the value are made for one check."""
_LOOKS: Final = 50_000  # what it takes to count is what an attacker can make us do
_PLAIN: Final = 1_000  # parts once written out, so few that no value makes them much work
_BACKTRACKING: Final = 1_000  # what a pattern that looks around or back counts, whose steps `PATTERNS` bounds
PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=1_000, size_limit=1_000_000)
"""How patterns are tried: in linear time, or with a bounded number of steps back where a pattern looks around."""
_LINEAR: Final = jsonschema_rs.RegexOptions(size_limit=1_000_000)
_DEEPEST: Final = 300
_SAME: Final = ("allOf", "anyOf", "oneOf")
_ONE_SAME: Final = ("not", "if", "then", "else")
_NAMED_SAME: Final = ("dependentSchemas", "dependencies")
_NAMED: Final = ("properties", "patternProperties", *_NAMED_SAME)
_LEFT: Final = ("unevaluatedProperties", "unevaluatedItems")
_CHOICES: Final = frozenset({"anyOf", "oneOf", "not", "if", "contains"})  # tried first, gone through for faults after
_MOVED: Final = ("$dynamicRef", "$recursiveRef")
_MEMBERS: Final = ("properties", "patternProperties", "additionalProperties", "propertyNames")
_ITEMS: Final = ("items", "prefixItems", "additionalItems", "contains")
_CHILD: Final = (*_ITEMS, "additionalProperties", "propertyNames")
_Step = tuple[str, object, object]


class TooMuchWork(ValueError):
    """The value is not checked against the schema: it would take too long, never end, or cannot be foreseen."""


class Work:
    """What one schema asks of a validator."""

    def __init__(self, root: Mapping[str, Any] | bool) -> None:  # noqa: FBT001 - true and false are schemas
        self.root = root
        self._weights: dict[str, int] = {}
        self.is_plain = False
        """Whether the schema is so small, and free of cycles, that no value needs to be counted."""
        with suppress(TooMuchWork):
            self.is_plain = self._written(root, {}, depth=0) <= _PLAIN

    def bound(self, value: object) -> None:
        """Let a value pass that is soon checked.

        Raises:
            TooMuchWork: It is not, or would never be.
        """
        if not self.is_plain:
            _Count(self).visits(self.root, value, depth=0)

    def _written(self, part: object, known: dict[int, int | None], *, depth: int) -> int:
        """How many parts there are with every reference written out."""
        if not isinstance(part, Mapping):
            return 1
        size = known.get(id(part), 0)
        if size is None or depth > _DEEPEST or any(name in part for name in _LEFT):
            raise TooMuchWork
        if size:
            return size
        known[id(part)] = None  # whoever comes here again meanwhile goes in a circle
        size = self.own(part, "")
        for below in _parts(part):
            size += self._written(below, known, depth=depth + 1)
        for target in self.targets(part):
            size += self._written(target, known, depth=depth + 1)
        known[id(part)] = size
        return size

    def own(self, part: Mapping[str, Any], place: object) -> int:
        """What one visit of the part itself takes: lists of values and names are gone through, patterns tried."""
        size = 1 + len(_listed(part.get("enum"))) + len(_listed(part.get("required")))
        if isinstance(place, str) and isinstance(part.get("pattern"), str):
            size += self._weight(part["pattern"])
        if isinstance(place, str | Mapping) and isinstance(part.get("patternProperties"), Mapping):
            members = len(place) if isinstance(place, Mapping) else 1
            size += members * sum(self._weight(pattern) for pattern in part["patternProperties"])
        return size

    def _weight(self, pattern: str) -> int:
        if pattern not in self._weights:
            try:
                jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=_LINEAR)
                self._weights[pattern] = 0
            except ValueError:
                self._weights[pattern] = _BACKTRACKING
        return self._weights[pattern]

    def targets(self, part: Mapping[str, Any]) -> Iterator[object]:
        """What the reference of a part names, if it has one.

        Raises:
            TooMuchWork: That cannot be told by reading.
        """
        if any(name in part for name in _MOVED) or (part is not self.root and isinstance(part.get("$id"), str)):
            raise TooMuchWork  # what a reference means depends on how one came here
        reference = part.get("$ref")
        if isinstance(reference, str):
            yield self._at(reference)

    def _at(self, reference: str) -> object:
        """The part that a reference names by where it stands in the schema."""
        if reference != "#" and not reference.startswith("#/"):
            raise TooMuchWork
        here: object = self.root
        for name in reference.split("/")[1:]:
            key = unquote(name).replace("~1", "/").replace("~0", "~")
            if isinstance(here, Mapping) and key in here:
                here = here[key]
            elif isinstance(here, list) and key.isascii() and key.isdigit() and len(key) < 9 and int(key) < len(here):
                here = here[int(key)]
            else:
                raise TooMuchWork
        return here


class _Count:
    """The work of one check, each pair of a part and a place counted once."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._known: dict[tuple[int, int], tuple[int, int] | None] = {}
        self._left = _LOOKS

    def visits(self, part: object, place: object, *, depth: int) -> tuple[int, int]:
        """The visits to learn whether `place` fits `part`, and those to name every fault of it.

        Raises:
            TooMuchWork: They are more than `MOST`, or cannot be counted.
        """
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            raise TooMuchWork
        if not isinstance(part, Mapping):
            return 1, 1
        key = (id(part), id(place) if isinstance(place, Mapping | list | tuple) else 0)
        if key in self._known:
            if (counted := self._known[key]) is None:
                raise TooMuchWork  # back where it was without a step into the value
            return counted
        self._known[key] = None
        tried = named = self._work.own(part, place)
        again = _again(part, place)
        for keyword, below, where in self._steps(part, place):
            fits, faults = self.visits(below, where, depth=depth + 1)
            times = again if where is place else 1
            tried += fits * times
            named += (faults + (fits if keyword in _CHOICES else 0)) * times
            if named > MOST:
                raise TooMuchWork
        self._known[key] = tried, named
        return tried, named

    def _steps(self, part: Mapping[str, Any], place: object) -> Iterator[_Step]:
        for target in self._work.targets(part):
            yield "$ref", target, place
        for keyword in _SAME:
            for below in _listed(part.get(keyword)):
                yield keyword, below, place
        for keyword in _ONE_SAME:
            if keyword in part:
                yield keyword, part[keyword], place
        for keyword in _NAMED_SAME:
            for below in _named(part.get(keyword)):
                yield keyword, below, place
        if isinstance(place, Mapping) and any(name in part for name in (*_MEMBERS, *_LEFT)):
            self._left -= len(place)
            yield from _members(part, place)
        elif isinstance(place, list | tuple) and any(name in part for name in (*_ITEMS, *_LEFT)):
            self._left -= len(place)
            yield from _items(part, place)


def _again(part: Mapping[str, Any], place: object) -> int:
    """How often what applies to the same place is gone through: anew for each member, to see which are left over."""
    if not any(name in part for name in _LEFT):
        return 1
    return 3 + (len(place) if isinstance(place, Mapping | list | tuple) else 0)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _named(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, Mapping) else []


def _parts(part: Mapping[str, Any]) -> Iterator[object]:
    """Every part right below `part` that may apply to something."""
    for keyword in (*_SAME, *_ONE_SAME, *_CHILD):
        if keyword in part:
            yield from part[keyword] if isinstance(part[keyword], list) else (part[keyword],)
    for keyword in _NAMED:
        yield from _named(part.get(keyword))


def _members(part: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[_Step]:
    """Steps into an object; patterns are not tried here, so each counts for every member."""
    named = part.get("properties")
    own = named if isinstance(named, Mapping) else {}
    patterns = _named(part.get("patternProperties"))
    others = [part[keyword] for keyword in ("additionalProperties", "unevaluatedProperties") if keyword in part]
    for name, value in place.items():
        if name in own:
            yield "properties", own[name], value
        for below in (*patterns, *(others if name not in own or len(others) > 1 else ())):
            yield "members", below, value
        if "propertyNames" in part:
            yield "propertyNames", part["propertyNames"], name


def _items(part: Mapping[str, Any], place: list[Any] | tuple[Any, ...]) -> Iterator[_Step]:
    """Steps into an array, as the first and the later drafts say it."""
    items = part.get("items")
    first = _listed(items) or _listed(part.get("prefixItems"))
    rest = [part[keyword] for keyword in ("additionalItems", "unevaluatedItems") if keyword in part]
    rest += [items] if "items" in part and not isinstance(items, list) else []
    for index, value in enumerate(place):
        for below in [first[index]] if index < len(first) else rest:
            yield "items", below, value
        if "contains" in part:
            yield "contains", part["contains"], value

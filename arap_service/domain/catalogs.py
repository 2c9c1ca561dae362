"""Catalogs: lists of values that fields of a request are chosen from, and which of them somebody may see and submit.

A value that is not visible for a denied evaluation is not there: not in lists, not in searches, not in totals, and a
submission of it is refused like that of a value that never existed. Conditions that cannot be evaluated hide. Whether
a value is acceptable is decided anew at submission, whatever was shown before. Catalog companion of the profile.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from arap_service.protocol.canonical import TOOL_CALL, Tuple4, bound_context, json_pointer, prune_subject
from arap_service.protocol.expressions import BoolExpression, ExpressionError, Facts

Status = Literal["active", "disabled", "retired"]
Code = Literal["type", "scope", "unknown", "disabled", "retired", "changed"]
RESERVED: Final = frozenset({"evaluation_id", "q", "cursor", "limit"})
"""Names of query parameters that no scope parameter may have."""


@dataclass(frozen=True, slots=True)
class CatalogItem:
    """One value; `scope` says for which values of the scope parameters it is meant, all where one is not named.

    `changed_at` is when its risk or owner last changed: who chose it before that chose something else.
    """

    value: str
    label: str
    description: str | None = None
    risk_level: str | None = None
    owner: str | None = None
    when: BoolExpression | None = None
    scope: Mapping[str, frozenset[str]] | None = None
    status: Status = "active"
    changed_at: datetime | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Where it stands in a list."""
        return self.label.casefold(), self.value


@dataclass(frozen=True, slots=True)
class Catalog:
    """Items in the order of their labels; `when` says who may look at it at all, `owner_when` who is told the owners.

    `scope` names the parameters without which no list can be given.
    """

    id: str
    items: tuple[CatalogItem, ...]
    scope: tuple[str, ...] = ()
    when: BoolExpression | None = None
    owner_when: BoolExpression | None = None


@dataclass(frozen=True, slots=True)
class CatalogField:
    """A field of a request whose value, or each of whose values, comes from a catalog.

    `scope` leads from each scope parameter to the field that it is taken from, both as JSON pointers.
    """

    catalog: str
    scope: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of visible items; `after` is where the next one begins, `total` counts all pages."""

    items: tuple[dict[str, str], ...]
    after: tuple[str, str] | None
    total: int


def catalog_tuple(about: Tuple4, members: Sequence[str]) -> Tuple4:
    """What conditions of catalogs read: that which the denial binds, the same for a look-up as for a submission."""
    bound = bound_context(about.context, members)
    bound.pop(TOOL_CALL, None)
    return Tuple4(prune_subject(about.subject), about.resource, about.action, bound)


def may_list(catalog: Catalog, facts: Facts) -> bool:
    """Whether the catalog may be looked at for these facts (ARS-110)."""
    return catalog.when is None or _holds(catalog.when, facts)


def list_items(
    catalog: Catalog,
    facts: Facts,
    *,
    scope: Mapping[str, str],
    q: str = "",
    after: tuple[str, str] | None = None,
    limit: int,
) -> Listed:
    """The visible items that contain `q`, from behind `after`, in the order of their labels."""
    shows_owner = catalog.owner_when is not None and _holds(catalog.owner_when, facts)  # ARS-113
    wanted = q.casefold()
    found = [
        item
        for item in catalog.items
        if item.status == "active" and _contains(item, wanted) and _is_visible(item, facts, scope)
    ]
    rest = [item for item in found if after is None or item.place > after]
    page = rest[:limit]
    following = page[-1].place if len(rest) > len(page) and page else None
    return Listed(tuple(_shown(item, shows_owner=shows_owner) for item in page), following, len(found))


def check_values(
    fields: Mapping[str, CatalogField],
    catalogs: Mapping[str, Catalog],
    given: Mapping[str, Any],
    *,
    facts: Facts | None,
    denied_at: datetime,
) -> list[dict[str, str]]:
    """The faults of the submitted values, as {pointer, code} pairs; a field that was left out has none (ARS-109).

    Without `facts` nothing is visible. `denied_at` is when the denial was made that the values were chosen for.
    """
    faults: list[dict[str, str]] = []
    for pointer, field in fields.items():
        for place, value in _values(given, pointer):
            code = _fault(catalogs[field.catalog], field, value, given=given, facts=facts, denied_at=denied_at)
            if code is not None:
                faults.append({"pointer": place, "code": code})
    return faults


def _fault(
    catalog: Catalog,
    field: CatalogField,
    value: object,
    *,
    given: Mapping[str, Any],
    facts: Facts | None,
    denied_at: datetime,
) -> Code | None:
    if not isinstance(value, str):
        return "type"
    scope = {name: value_at(given, source) for name, source in field.scope.items()}
    chosen = {name: source for name, source in scope.items() if isinstance(source, str)}
    if len(chosen) < len(scope):
        return "scope"
    if facts is None or not may_list(catalog, facts):
        return "unknown"
    item = next((item for item in catalog.items if item.value == value and _is_visible(item, facts, chosen)), None)
    if item is None:
        return "unknown"
    if item.status != "active":
        return item.status
    return "changed" if item.changed_at is not None and denied_at < item.changed_at else None


def value_at(given: object, pointer: str) -> Any:
    """The value at a JSON pointer through objects, or None where there is none."""
    for name in pointer.split("/")[1:]:
        if not isinstance(given, Mapping):
            return None
        given = given.get(name.replace("~1", "/").replace("~0", "~"))
    return given


def _values(given: Mapping[str, Any], pointer: str) -> Iterator[tuple[str, Any]]:
    value = value_at(given, pointer)
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield pointer + json_pointer([index]), each
    elif value is not None:
        yield pointer, value


def _is_visible(item: CatalogItem, facts: Facts, scope: Mapping[str, str]) -> bool:
    for name, values in (item.scope or {}).items():
        if scope.get(name) not in values:
            return False
    return item.when is None or _holds(item.when, facts)


def _contains(item: CatalogItem, wanted: str) -> bool:
    return any(wanted in text.casefold() for text in (item.label, item.value, item.description or ""))


def _shown(item: CatalogItem, *, shows_owner: bool) -> dict[str, str]:
    members = {
        "value": item.value,
        "label": item.label,
        "description": item.description,
        "risk_level": item.risk_level,
        "owner": item.owner if shows_owner else None,
    }
    return {name: text for name, text in members.items() if text is not None}


def _holds(condition: BoolExpression, facts: Facts) -> bool:
    try:
        return condition.holds(facts)
    except ExpressionError:
        return False

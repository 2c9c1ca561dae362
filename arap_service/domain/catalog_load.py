"""Catalogs of a rules file as objects, with the faults that its schema cannot see.

A part of `policy_load.py`, which compiles the conditions and collects the faults with their lines.
"""

from collections.abc import Callable, Mapping
from typing import Any

from arap_service.domain.catalogs import RESERVED, Catalog, CatalogField, CatalogItem
from arap_service.protocol.arap import parse_instant
from arap_service.protocol.expressions import BoolExpression

Path = tuple[object, ...]
Condition = Callable[[str, Path], BoolExpression]
Report = Callable[..., None]


def read_catalogs(file: Mapping[str, Any], condition: Condition, report: Report) -> dict[str, Catalog]:
    """The catalogs of a file that satisfies the schema; `report` is told message and path of each fault."""
    return {
        name: _catalog(name, value, condition, report, path=("catalogs", name))
        for name, value in file.get("catalogs", {}).items()
    }


def read_fields(
    template: Mapping[str, Any], catalogs: Mapping[str, Catalog], report: Report, *, path: Path
) -> dict[str, CatalogField]:
    """Which fields of a template's request schema are chosen from which catalog, by JSON pointer."""
    named: Mapping[str, Any] = template.get("catalogs", {})
    schema = template.get("request_schema")
    if named and schema is None:
        report("catalogs need a request_schema whose fields they fill", *path, "catalogs")  # PDP-45
        return {}
    for pointer, value in named.items():
        where = (*path, "catalogs", pointer)
        for each in (pointer, *value.get("scope", {}).values()):
            if not _has_field(schema, each):
                report(f"the request_schema has no field {each}", *where)
        catalog = catalogs.get(value["catalog"])
        if catalog is None:
            report("no catalog has this name", *where, "catalog")
        elif set(catalog.scope) != set(value.get("scope", {})):
            report(f"the catalog's scope is {', '.join(catalog.scope) or 'empty'}: name a source for each", *where)
    return {pointer: CatalogField(value["catalog"], value.get("scope", {})) for pointer, value in named.items()}


def _catalog(name: str, value: Mapping[str, Any], condition: Condition, report: Report, *, path: Path) -> Catalog:
    scope = tuple(value.get("scope", ()))
    for index, parameter in enumerate(scope):
        if parameter in RESERVED:
            report("this parameter has a meaning of its own: choose another name", *path, "scope", index)
    items = [
        _item(item, scope, condition, report, path=(*path, "items", index)) for index, item in enumerate(value["items"])
    ]
    seen: set[str] = set()
    for index, item in enumerate(items):
        if item.value in seen:
            report("the value is used twice", *path, "items", index, "value")
        seen.add(item.value)
    return Catalog(
        id=name,
        items=tuple(sorted(items, key=lambda item: item.place)),
        scope=scope,
        when=_optional(value, "when", condition, path),
        owner_when=_optional(value, "owner_when", condition, path),
    )


def _item(
    value: Mapping[str, Any], scope: tuple[str, ...], condition: Condition, report: Report, *, path: Path
) -> CatalogItem:
    for name in value.get("scope", {}):
        if name not in scope:
            report("the catalog has no such scope parameter", *path, "scope", name)
    changed = None
    if "changed_at" in value:
        try:
            changed = parse_instant(value["changed_at"])
        except ValueError:
            report("not a moment with a zone, such as 2026-01-31T12:00:00Z", *path, "changed_at")
    return CatalogItem(
        value=value["value"],
        label=value.get("label", value["value"]),
        description=value.get("description"),
        risk_level=value.get("risk_level"),
        owner=value.get("owner"),
        when=_optional(value, "when", condition, path),
        scope={name: frozenset(values) for name, values in value.get("scope", {}).items()},
        status=value.get("status", "active"),
        changed_at=changed,
    )


def _optional(value: Mapping[str, Any], name: str, condition: Condition, path: Path) -> BoolExpression | None:
    return condition(value[name], (*path, name)) if name in value else None


def _has_field(schema: Any, pointer: str) -> bool:
    """Whether the schema lists this member; where it refers elsewhere, that cannot be told."""
    for name in pointer.split("/")[1:]:
        if not isinstance(schema, Mapping):
            return False
        if schema.keys() & {"$ref", "allOf", "anyOf", "oneOf"}:
            return True
        schema = schema.get("properties", {}).get(name.replace("~1", "/").replace("~0", "~"))
    return schema is not None

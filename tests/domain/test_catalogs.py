"""Which values of a catalog are visible and acceptable, as a pure function (ARS-109 to ARS-111, ARS-113)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from arap_service.domain.catalogs import (
    Catalog,
    CatalogField,
    CatalogItem,
    catalog_tuple,
    check_values,
    list_items,
    value_at,
)
from arap_service.protocol.canonical import TOOL_CALL, Tuple4
from arap_service.protocol.expressions import Environment, Facts

NOW = datetime(2026, 4, 30, tzinfo=UTC)
ENVIRONMENT = Environment({"subject": "map"})
ALICE = ENVIRONMENT.bind({"subject": {"id": "alice"}})


def only(name: str) -> Any:
    """A condition that holds for one subject."""
    return ENVIRONMENT.compile_bool(f'subject.id == "{name}"')


def catalog(*items: CatalogItem, **members: Any) -> Catalog:
    """A catalog of these items."""
    return Catalog("c", tuple(sorted(items, key=lambda item: item.place)), **members)


def faults(listed: Catalog, value: object, *, facts: Facts | None = ALICE, **given: Any) -> list[str]:
    """The codes with which `value` is refused."""
    field = CatalogField("c", {name: f"/context/{name}" for name in listed.scope})
    found = check_values(
        {"/requested_access/v~1w": field},
        {"c": listed},
        {"requested_access": {"v/w": value}, "context": given},
        facts=facts,
        denied_at=NOW,
    )
    return [f"{error['pointer']} {error['code']}" for error in found]


@pytest.mark.requirement("ARS-110")
def test_hidden_items_are_in_no_list_and_no_total() -> None:
    listed = catalog(CatalogItem("a", "A", when=only("bob")), CatalogItem("b", "B"), CatalogItem("c", "C"))
    page = list_items(listed, ALICE, scope={}, limit=1)
    assert [item["value"] for item in page.items] == ["b"]
    assert (page.total, page.after) == (2, ("b", "b"))
    last = list_items(listed, ALICE, scope={}, limit=1, after=page.after)
    assert ([item["value"] for item in last.items], last.after) == (["c"], None)


@pytest.mark.requirement("ARS-109")
def test_value_is_refused_with_a_code_and_no_hint_of_hidden_ones() -> None:
    listed = catalog(CatalogItem("a", "A", when=only("bob")), CatalogItem("b", "B"))
    assert faults(listed, "b") == []
    assert faults(listed, "a") == faults(listed, "z") == ["/requested_access/v~1w unknown"]
    assert faults(listed, 5) == ["/requested_access/v~1w type"]
    assert faults(listed, ["b", "z"]) == ["/requested_access/v~1w/1 unknown"]
    assert faults(listed, None) == []
    assert faults(listed, "b", facts=None) == ["/requested_access/v~1w unknown"]
    assert faults(catalog(CatalogItem("b", "B"), when=only("bob")), "b") == ["/requested_access/v~1w unknown"]


@pytest.mark.requirement("ARS-109")
def test_value_is_refused_outside_its_scope() -> None:
    listed = catalog(CatalogItem("a", "A", scope={"app": frozenset({"x"})}), scope=("app",))
    assert faults(listed, "a", app="x") == []
    assert faults(listed, "a", app="y") == ["/requested_access/v~1w unknown"]
    assert faults(listed, "a") == faults(listed, "a", app=["x"]) == ["/requested_access/v~1w scope"]


@pytest.mark.requirement("ARS-109")
def test_value_whose_risk_or_owner_changed_after_the_denial_is_refused() -> None:
    assert faults(catalog(CatalogItem("a", "A", changed_at=NOW)), "a") == []
    later = NOW.replace(hour=1)
    assert faults(catalog(CatalogItem("a", "A", changed_at=later)), "a") == ["/requested_access/v~1w changed"]


def test_conditions_read_what_the_denial_binds_and_nothing_else() -> None:
    subject = {"type": "user", "id": "a", "properties": {"act": {"sub": "bot"}, "level": 1}}
    context = {"tenant": "t", "said": "x", TOOL_CALL: {"tool": "t"}}
    about = catalog_tuple(Tuple4(subject, {"id": "r"}, {"name": "n"}, context), ["tenant", TOOL_CALL])
    assert about.subject == {"type": "user", "id": "a", "properties": {"level": 1}}
    assert about.context == {"tenant": "t"}


def test_pointer_through_what_is_no_object_leads_to_nothing() -> None:
    assert value_at({"a": {"b": "c"}}, "/a/b") == "c"
    assert value_at({"a": "text"}, "/a/b") is None
    assert value_at({}, "/a/b") is None

"""Catalogs of a rules file: what arrives, and what is refused with its line (ARS-K, PDP-45)."""

from datetime import UTC, datetime

import pytest

from arap_service.domain.catalogs import CatalogField
from arap_service.domain.policy_load import PolicyInvalid, load_policy

HEAD = """version: 1
rules: []
catalogs:
  roles:
    scope: [app]
    items:
      - {value: writer, changed_at: '2026-04-30T22:00:00+02:00', scope: {app: [a, b]}, status: disabled}
      - {value: reader, label: A reader, owner: o, risk_level: low, description: d}
templates:
  t:
    title: T
    explanation: E
    steps: [{id: s, title: S, groups: [g]}]
"""
WHOLE = (
    HEAD
    + """    request_schema:
      type: object
      properties: {requested_access: {type: object, properties: {role: {}, app: {}}}}
    catalogs:
      /requested_access/role: {catalog: roles, scope: {app: /requested_access/app}}
"""
)


def problems(text: str) -> list[str]:
    """The faults of a file, each with line and place."""
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(text)
    return [str(problem) for problem in refused.value.problems]


def changed(old: str, new: str) -> list[str]:
    """The faults that this change makes."""
    assert old in WHOLE
    return problems(WHOLE.replace(old, new))


def test_catalog_and_fields_arrive_in_the_order_of_the_labels() -> None:
    policy = load_policy(WHOLE)
    reader, writer = policy.catalogs["roles"].items
    assert (reader.value, reader.label, reader.owner, reader.risk_level, reader.description) == (
        "reader",
        "A reader",
        "o",
        "low",
        "d",
    )
    assert (writer.label, writer.status, writer.scope) == ("writer", "disabled", {"app": frozenset({"a", "b"})})
    assert writer.changed_at == datetime(2026, 4, 30, 20, tzinfo=UTC)
    assert policy.templates["t"].catalogs == {
        "/requested_access/role": CatalogField("roles", {"app": "/requested_access/app"})
    }


@pytest.mark.requirement("PDP-45")
def test_catalogs_without_a_schema_are_refused() -> None:
    text = HEAD + "    catalogs: {/requested_access/role: {catalog: roles}}\n"
    assert problems(text) == [
        "line 14: /templates/t/catalogs: catalogs need a request_schema whose fields they fill",
    ]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("{catalog: roles,", "{catalog: rolls,", "line 18: {}/catalog: no catalog has this name"),
        ("{app: /req", "{zap: /req", "line 18: {}: the catalog's scope is app: name a source for each"),
        ("/requested_access/app}", "/context/app}", "line 18: {}: the request_schema has no field /context/app"),
        ("{role: {}, app", "{roll: {}, app", "line 18: {}: the request_schema has no field /requested_access/role"),
        ("scope: [app]", "scope: [q]", "line 5: /catalogs/roles/scope/0: this parameter has a meaning of its own"),
        ("{app: [a, b]}", "{ap: [a]}", "line 7: /catalogs/roles/items/0/scope/ap: the catalog has no such scope"),
        ("22:00:00+02:00", "yesterday", "line 7: /catalogs/roles/items/0/changed_at: not a moment with a zone"),
        ("value: reader", "value: writer", "line 8: /catalogs/roles/items/1/value: the value is used twice"),
        ("owner: o", "when: nobody", "line 8: /catalogs/roles/items/1/when: not a usable condition"),
        ("status: disabled", "status: gone", "line 7: /catalogs/roles/items/0/status:"),
    ],
)
def test_fault_is_named_with_its_line(old: str, new: str, fault: str) -> None:
    place = fault.format("/templates/t/catalogs/~1requested_access~1role")
    assert any(each.startswith(place) for each in changed(old, new)), changed(old, new)


def test_field_behind_a_reference_of_the_schema_is_believed() -> None:
    text = WHOLE.replace("properties: {role: {}, app: {}}", "$ref: '#/$defs/x'").replace(
        "      type: object\n      properties:", "      $defs: {x: {}}\n      type: object\n      properties:"
    )
    assert load_policy(text).templates["t"].catalogs.keys() == {"/requested_access/role"}


def test_field_within_what_takes_no_members_is_refused() -> None:
    found = changed("/requested_access/app}", "/requested_access/app/id/no}")
    place = "line 18: /templates/t/catalogs/~1requested_access~1role"
    assert found == [f"{place}: the request_schema has no field /requested_access/app/id/no"]
    boolean = WHOLE.replace("app: {}}", "app: true}").replace("/requested_access/app}", "/requested_access/app/id}")
    assert "has no field /requested_access/app/id" in problems(boolean)[0]

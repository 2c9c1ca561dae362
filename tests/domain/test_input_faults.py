"""Faults of the input of a request: where and by which rule (ARS-105)."""

from typing import Any, Final

from arap_service.domain.input_faults import Fault, faults_of, lacks_input

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "context": {"type": "object", "required": ["ticket"]},
        "requested_access": {
            "type": "object",
            "required": ["role"],
            "properties": {"role": {"enum": ["reader"]}, "days": {"type": "integer", "maximum": 3}},
        },
    },
}


def test_missing_member_is_named_where_it_would_stand_and_no_value_is() -> None:
    given = {"context": {}, "requested_access": {"days": 7, "role": "canary"}}
    assert set(faults_of(SCHEMA, given)) == {
        Fault(("context", "ticket"), "required"),
        Fault(("requested_access", "days"), "maximum"),
        Fault(("requested_access", "role"), "enum"),
    }
    assert faults_of(SCHEMA, {"context": {"ticket": 1}, "requested_access": {"role": "reader"}}) == ()


def test_input_is_lacking_while_anything_but_the_context_is_demanded() -> None:
    assert lacks_input(SCHEMA, {"ticket": 1})
    of_context = {"properties": {"context": {"required": ["ticket"]}}}
    assert not lacks_input(of_context, {"ticket": 1})
    assert lacks_input(of_context, {})

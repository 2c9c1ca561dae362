"""What a request schema finds wrong with the input of a request: places and rules, never values.

The schema describes an object with the members `context` and `requested_access`, so that it says which value belongs
where (ARS-105, ARS-106). Where the input comes from is decided elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from arap_service.domain.policy_load import refuse_to_fetch


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken rule of the schema and its place; of a missing member the place where it would stand."""

    path: tuple[str | int, ...]
    code: str


def faults_of(schema: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Everything that `schema` finds wrong with `given`."""
    validator = jsonschema_rs.Draft202012Validator(dict(schema), retriever=refuse_to_fetch)
    return tuple(_fault(error) for error in validator.iter_errors(dict(given)))


def lacks_input(schema: Mapping[str, Any], context: Mapping[str, Any]) -> bool:
    """Whether a request with this context and nothing else would be refused for its input."""
    validator = jsonschema_rs.Draft202012Validator(dict(schema), retriever=refuse_to_fetch)
    return not validator.is_valid({"context": dict(context), "requested_access": {}})


def _fault(error: jsonschema_rs.ValidationError) -> Fault:
    missing = getattr(error.kind, "property", None) if error.kind.name == "required" else None
    path = (*error.instance_path, missing) if isinstance(missing, str) else tuple(error.instance_path)
    return Fault(path, str(error.kind.name))

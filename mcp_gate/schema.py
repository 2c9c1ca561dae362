"""Checks values against JSON Schemas that others wrote, so that each check ends soon whatever is in them.

Patterns are tried in linear time or with a bounded number of steps back, no reference is ever fetched, and what would
be too much work is not begun.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NoReturn

import jsonschema_rs

from arap_service.protocol.canonical import json_pointer
from mcp_gate.schema_work import PATTERNS, TooMuchWork, Work


class SchemaInvalid(ValueError):
    """The schema is none that we can apply; the text repeats nothing of it."""


class Schema:
    """One compiled schema."""

    def __init__(self, document: Mapping[str, Any] | str) -> None:
        try:
            read = json.loads(document) if isinstance(document, str) else document
            if not isinstance(read, Mapping | bool):
                raise ValueError("no schema")  # noqa: TRY004 - as what the validator itself refuses
            own = read if isinstance(read, bool) else dict(read)
            self._validator = jsonschema_rs.validator_for(own, retriever=_refuse, pattern_options=PATTERNS)
            self._work = Work(own)
        except (ValueError, RecursionError, jsonschema_rs.ReferencingError):
            raise SchemaInvalid("the schema cannot be applied") from None

    def fault(self, value: object) -> str | None:
        """JSON pointer of the first member of `value` that violates the schema; None when nothing does.

        Raises:
            SchemaInvalid: to check `value` would take too long.
        """
        first = next(self._errors(value), None)
        return None if first is None else json_pointer(first.instance_path)

    def missing(self, value: object) -> frozenset[tuple[str, str]] | None:
        """The required members that `value` lacks, each with the pointer of its object; None if more is wrong.

        Raises:
            SchemaInvalid: to check `value` would take too long.
        """
        lacking = set()
        for error in self._errors(value):
            if not isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):
                return None
            lacking.add((json_pointer(error.instance_path), error.kind.property))
        return frozenset(lacking)

    def _errors(self, value: object) -> Iterator[jsonschema_rs.ValidationError]:
        try:
            self._work.bound(value)
            return self._validator.iter_errors(value)
        except (TooMuchWork, ValueError, RecursionError):  # the validator's own limit of depth is a ValueError
            raise SchemaInvalid("the value cannot be checked against the schema") from None


@lru_cache(maxsize=512)
def compiled(document: str) -> Schema:
    """The schema of a canonical JSON text, compiled once.

    Raises:
        SchemaInvalid: it cannot be applied.
    """
    return Schema(document)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"a reference is not followed ({len(uri)} characters)")

"""Checks values against JSON Schemas that others wrote: linear-time patterns, and no reference is ever fetched."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

import jsonschema_rs

from arap_service.protocol.canonical import json_pointer


class SchemaInvalid(ValueError):
    """The schema is none that we can apply; the text repeats nothing of it."""


class Schema:
    """One compiled schema."""

    def __init__(self, document: Mapping[str, Any] | str) -> None:
        try:
            self._validator = jsonschema_rs.validator_for(
                document if isinstance(document, str) else dict(document), retriever=_refuse
            )
        except (ValueError, jsonschema_rs.ReferencingError):
            raise SchemaInvalid("the schema cannot be applied") from None

    def fault(self, value: object) -> str | None:
        """JSON pointer of the first member of `value` that violates the schema; None when nothing does."""
        first = next(self._validator.iter_errors(value), None)
        return None if first is None else json_pointer(first.instance_path)

    def missing(self, value: object) -> frozenset[tuple[str, str]] | None:
        """The required members that `value` lacks, each with the pointer of its object; None if more is wrong."""
        lacking = set()
        for error in self._validator.iter_errors(value):
            if not isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):
                return None
            lacking.add((json_pointer(error.instance_path), error.kind.property))
        return frozenset(lacking)


@lru_cache(maxsize=512)
def compiled(document: str) -> Schema:
    """The schema of a canonical JSON text, compiled once.

    Raises:
        SchemaInvalid: it cannot be applied.
    """
    return Schema(document)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"a reference is not followed ({len(uri)} characters)")

"""Compiles JSON Schemas that others wrote, so that checking a value against one ends soon whatever is in it.

A validator holds up the whole process while it works. So patterns are tried in linear time, and a schema is refused
that grows without bound when its references are written out, which a few lines can: each of two that name the next one
twice. No reference is ever fetched.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import jsonschema_rs

from arap_service.domain.policy_load import refuse_to_fetch

MOST: Final = 10_000
"""How many parts a schema may have once every reference is written out."""
_DEEPEST: Final = 200
_PATTERNS: Final = jsonschema_rs.RegexOptions(size_limit=1_000_000)
_MOVED: Final = ("$dynamicRef", "$recursiveRef", "$id")


class SchemaRefused(ValueError):
    """The schema is none, or none that we apply; the text repeats nothing of it."""


def cautious(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """What checks values against `schema`, by the dialect that it names.

    Raises:
        SchemaRefused: It is no schema, reaches out, has patterns that can take for ever, or is too much written out.
    """
    if _Sizes(schema).of(schema, depth=0) > MOST:
        raise SchemaRefused("the schema is too large with its references written out")
    try:
        return jsonschema_rs.validator_for(dict(schema), retriever=refuse_to_fetch, pattern_options=_PATTERNS)
    except (ValueError, jsonschema_rs.ReferencingError):
        raise SchemaRefused("the schema cannot be applied") from None


class _Sizes:
    """How large the parts of one schema are with their references written out; each reference is followed once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[str, int] = {}
        self._followed: list[str] = []

    def of(self, part: object, *, depth: int) -> int:
        """The size of `part`.

        Raises:
            SchemaRefused: It refers to itself, to something that is not there, or is nested too deeply.
        """
        if depth > _DEEPEST:
            raise SchemaRefused("the schema is nested too deeply")
        if isinstance(part, list):
            return sum(self.of(each, depth=depth + 1) for each in part)
        if not isinstance(part, Mapping):
            return 1
        if any(isinstance(part.get(name), str) for name in _MOVED if part is not self._root or name != "$id"):
            raise SchemaRefused("the schema has references that cannot be followed by reading")
        size = 1 + sum(self.of(each, depth=depth + 1) for each in part.values())
        reference = part.get("$ref")
        return size + self._target(reference, depth=depth) if isinstance(reference, str) else size

    def _target(self, reference: str, *, depth: int) -> int:
        if reference in self._known:
            return self._known[reference]
        if reference in self._followed:
            raise SchemaRefused("the schema refers to itself")
        self._followed.append(reference)
        size = self.of(_at(self._root, reference), depth=depth + 1)
        self._followed.pop()
        self._known[reference] = min(size, MOST + 1)
        return self._known[reference]


def _at(root: object, reference: str) -> object:
    """The part of `root` that a reference within it names."""
    if reference != "#" and not reference.startswith("#/"):
        raise SchemaRefused("the schema refers to something outside")
    here = root
    for name in reference.split("/")[1:]:
        key = unquote(name).replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and key in here:
            here = here[key]
        elif isinstance(here, Sequence) and not isinstance(here, str) and key.isascii() and key.isdigit():
            if int(key) >= len(here):
                raise SchemaRefused("the schema refers to something that is not there")
            here = here[int(key)]
        else:
            raise SchemaRefused("the schema refers to something that is not there")
    return here

"""Writes the settings references of the guides from the settings classes, so that they cannot disagree.

`python -m tools.settings_tables` rewrites the marked blocks; `--check` only says whether they are current. A setting
without a meaning, and a meaning without a setting, is an error.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import get_annotations
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from arap_service.settings import Settings
from mcp_gate.settings import GateSettings
from tools.marked import replace
from tools.settings_meanings import GATE, SERVICE

DOCS: Final = Path(__file__).parent.parent / "docs"
_HEAD: Final = "| key | value | default | meaning |\n|---|---|---|---|"
_BOUNDS: Final = {"ge": "from", "gt": "above", "le": "to", "max_length": "at most"}
_NAMES: Final = {bool: "true or false", int: "whole number", float: "number", str: "text", Path: "file"}


class Disagreement(ValueError):
    """The settings and their meanings do not fit together."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One table: the class at the top, the meanings, and the page that the table stands on."""

    top: type[BaseModel]
    meanings: Mapping[str, str]
    page: Path

    def table(self) -> str:
        """The whole table.

        Raises:
            Disagreement: A setting has no meaning, or the other way round.
        """
        used: set[str] = set()
        rows = list(self._rows(self.top, "", {}, used))
        if idle := self.meanings.keys() - used:
            raise Disagreement(f"no setting has the meaning {min(idle)}")
        return "\n".join([_HEAD, *rows])

    def _rows(self, model: type[BaseModel], prefix: str, shown: dict[type, str], used: set[str]) -> Iterator[str]:
        for name, field in model.model_fields.items():
            meaning = f"{_owner(model, name).__name__}.{name}"
            if meaning not in self.meanings:
                raise Disagreement(f"{meaning} has no meaning")
            used.add(meaning)
            key = f"{prefix}{name}"
            parts = [part for part in _models(field.annotation) if part is not model]
            said = self.meanings[meaning]
            known = [shown[part] for part in parts if part in shown]
            said += f" (keys as under `{known[0]}`)" if known else ""
            yield f"| `{key}` | {_type(field)} | {_default(field)} | {said} |"
            for part in parts:
                if part not in shown:
                    shown[part] = key
                    yield from self._rows(part, f"{key}{_step(field.annotation)}.", shown, used)


def _owner(model: type[BaseModel], name: str) -> type:
    return next(each for each in reversed(model.__mro__) if name in get_annotations(each))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _step(annotation: Any) -> str:
    origin = _container(annotation)
    return ".NAME" if origin is Mapping or origin is dict else "[]" if origin is tuple else ""


def _container(annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin in {Union, UnionType, Annotated}:
        inner = [each for each in get_args(annotation) if each is not type(None)]
        return _container(inner[0])
    return Mapping if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping) else origin


def _type(field: FieldInfo) -> str:
    said = _word(field.annotation)
    bounds = [
        f"{word} {getattr(each, name):g}"
        for each in field.metadata
        for name, word in _BOUNDS.items()
        if isinstance(getattr(each, name, None), int | float)
    ]
    return " ".join([said, *bounds])


def _word(annotation: Any) -> str:
    origin, inner = get_origin(annotation), [each for each in get_args(annotation) if each is not type(None)]
    if origin is Annotated:
        return _word(inner[0])
    if origin in {Union, UnionType}:
        return _word(inner[0])
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in inner)
    if _container(annotation) is Mapping:
        return "by name"
    if origin in {tuple, frozenset}:
        word = _word(inner[0])
        return "list" if word == "text" else f"list of {word}s"
    if annotation is SecretStr:
        return "secret"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return _NAMES.get(annotation, "text")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel) or value is None or value in ((), {}, frozenset()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, frozenset | tuple):  # a set has no order of its own
        value = ", ".join(map(str, sorted(value) if isinstance(value, frozenset) else value))
    return f"`{value}`"


REFERENCES: Final = (
    Reference(Settings, SERVICE, DOCS / "operating.md"),
    Reference(GateSettings, GATE, DOCS / "gate.md"),
)


def render(page: str, reference: Reference) -> str:
    """`page` with its table written anew."""
    return replace(page, "settings", reference.table())


def main() -> None:
    """Rewrite the pages, or with `--check` end with status 1 when one is out of date."""
    for reference in REFERENCES:
        page = reference.page.read_text(encoding="utf-8")
        drawn = render(page, reference)
        if "--check" in sys.argv[1:]:
            if drawn != page:
                sys.exit(f"{reference.page.name} is out of date: run python -m tools.settings_tables")
        else:
            reference.page.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()

"""The rules file as text: strict YAML in, JSON values with line numbers out.

Only what JSON can say is accepted, so that the file means the same to an editor's schema check and to us. The stock
loader keeps the last of duplicate keys in silence, which would turn a deny into a permit; here a duplicate is a fault.
What the values mean is decided in `policy_load.py`.
"""

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from arap_service.protocol.canonical import json_pointer

# libyaml reads ten times as fast; it nests on the machine's own stack, so what could be deep is read without it.
_FAST: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEP_FOR_FAST: Final = 500
_MOST_NODES: Final = 100_000
_DEEPEST: Final = 60
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_SCALARS: Final[Mapping[str, str]] = {
    "tag:yaml.org,2002:str": "str",
    "tag:yaml.org,2002:timestamp": "str",  # a date is its text here
    "tag:yaml.org,2002:value": "str",
    "tag:yaml.org,2002:int": "number",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:bool": "constant",
    "tag:yaml.org,2002:null": "constant",
}


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """One fault of a rules file: its line (from 1), the JSON pointer of the member and what is wrong."""

    line: int
    pointer: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.pointer or 'file'}: {self.message}"


@dataclass(slots=True)
class PolicyText:
    """A parsed rules file: the value, the line of every member by JSON pointer, and the faults found so far."""

    value: Any = None
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[PolicyProblem] = field(default_factory=list)

    def report(self, message: str, *path: object) -> None:
        """Note a fault of the member at `path`, on its line or that of the nearest member around it."""
        pointer = json_pointer(path)
        nearest = pointer
        while nearest and nearest not in self.lines:
            nearest = nearest.rpartition("/")[0]
        self.problems.append(PolicyProblem(self.lines.get(nearest, 1), pointer, message))


def read_text(text: str) -> PolicyText:
    """Parse `text`; faults are in the result's `problems`, and its `value` is only of use when there are none."""
    if _most_levels(text) <= _DEEP_FOR_FAST:
        with suppress(yaml.YAMLError):
            return _read(_FAST(text))
    result = PolicyText()  # the slow one says better what is wrong
    try:
        return _read(yaml.SafeLoader(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        problem = getattr(error, "problem", None)
        result.problems.append(PolicyProblem(line, "", f"not valid YAML: {problem or 'unreadable characters'}"))
    except RecursionError:
        result.problems.append(PolicyProblem(1, "", "nested too deeply"))
    return result


def _read(loader: yaml.SafeLoader) -> PolicyText:
    result = PolicyText()
    node = loader.get_single_node()
    if node is None:
        result.report("the file is empty")
    else:
        result.value = _Reader(loader, result).read(node, ())
    return result


def _most_levels(text: str) -> int:
    """No fewer levels than `text` can nest: each takes a bracket, a mark of a member, or a column of indentation."""
    lines = max((len(line) - len(line.lstrip(" ")) + _marks(line) for line in text.splitlines()), default=0)
    return text.count("[") + text.count("{") + lines


def _marks(line: str) -> int:
    return line.count("-") + line.count("?") + line.count(":")


class _Reader:
    """Turns nodes into values; an alias is expanded where it stands, within limits."""

    def __init__(self, loader: yaml.SafeLoader, result: PolicyText) -> None:
        self._loader = loader
        self._result = result
        self._nodes = 0

    def read(self, node: yaml.Node, path: tuple[object, ...]) -> Any:
        self._nodes += 1
        self._result.lines.setdefault(json_pointer(path), node.start_mark.line + 1)
        if len(path) > _DEEPEST or self._nodes > _MOST_NODES:  # also what ends an alias to itself
            raise yaml.MarkedYAMLError(problem="nested too deeply or too large", problem_mark=node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: tuple[object, ...]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or _SCALARS.get(key_node.tag) != "str":
                self._fault(line, path, "a key must be text: put it in quotes")
                continue
            key = self._text(key_node.value, key_node, path)
            if key in value:
                self._fault(line, (*path, key), "the key stands here twice")
                continue
            self._result.lines[json_pointer((*path, key))] = line
            value[key] = self.read(value_node, (*path, key))
        return value

    def _scalar(self, node: yaml.Node, path: tuple[object, ...]) -> Any:
        kind = _SCALARS.get(node.tag)
        if kind == "str":
            return self._text(node.value, node, path)
        if kind is None:
            self._fault(node.start_mark.line + 1, path, "a value of this kind has no place here")
            return None
        try:
            value = self._loader.construct_object(node)
        except (ValueError, LookupError):  # PyYAML resolves more texts to numbers than it can read, and takes our word
            self._fault(node.start_mark.line + 1, path, "no number or constant can be read here")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._fault(node.start_mark.line + 1, path, "a number must be finite")
        return value

    def _text(self, text: str, node: yaml.Node, path: tuple[object, ...]) -> str:
        # What an escape sequence can smuggle in, and what no database or expression could hold.
        if "\x00" in text or _HALF_CHARACTER.search(text):
            self._fault(node.start_mark.line + 1, path, "a text must hold neither NUL nor half a character")
            return ""
        return text

    def _fault(self, line: int, path: tuple[object, ...], message: str) -> None:
        self._result.problems.append(PolicyProblem(line, json_pointer(path), message))

"""Reads the YAML files of an operator: UTF-8, no key twice, nothing but keys and values at the top.

What a file means is decided by who reads it; `SettingsInvalid` is how all of them refuse one.
"""

from pathlib import Path
from typing import Any

import yaml


class SettingsInvalid(Exception):
    """The configuration is refused; `problems` holds one line for each fault, none of them shows a value."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class _UniqueKeys(yaml.SafeLoader):
    """YAML without repeated keys, since the usual loader keeps the last of them in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - the loader's own signature
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise SettingsInvalid((f"line {key_node.start_mark.line + 1}: the key {key!r} stands there twice",))
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file in which no key stands twice.

    Raises:
        SettingsInvalid: It cannot be read or holds something else.
    """
    try:
        with path.open("rb") as file:
            values = yaml.load(file, Loader=_UniqueKeys)  # noqa: S506 - a SafeLoader with one more rule
    except OSError as error:
        raise SettingsInvalid((f"{path}: cannot be read ({error.strerror})",)) from None
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        # The errors of Python are what PyYAML meets in values such as `!!bool maybe`.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}"
        raise SettingsInvalid((f"{path}: is not valid YAML{where}",)) from None
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise SettingsInvalid((f"{path}: must hold keys and values",))
    return values

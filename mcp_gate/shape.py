"""How deeply a JSON value may be nested, in either direction; counts without recursion, so that no value breaks it."""

from collections.abc import Mapping
from typing import Any, Final

# Strict readers take 128 levels, and a question or a submission wraps the arguments in a few of its own.
MOST_DEEP_ARGUMENTS: Final = 100
# Parsers of MCP messages end at 200 levels, some earlier, and a task is wrapped around the result.
MOST_DEEP_RESULT: Final = 128


def is_deeper(value: Any, most: int) -> bool:
    """Whether more than `most` containers are inside one another in `value`."""
    level = [value]
    for _ in range(most + 1):
        level = [found for found in level if isinstance(found, Mapping | list | tuple)]
        if not level:
            return False
        level = [inner for found in level for inner in (found.values() if isinstance(found, Mapping) else found)]
    return True

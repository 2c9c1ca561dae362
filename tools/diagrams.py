"""Draws the state diagrams of the documentation from the transition tables, so that they cannot disagree.

`python -m tools.diagrams` rewrites the marked blocks of docs/architecture.md; `--check` only says whether they are
current. The picture shows what the tables say and decides nothing.
"""

import re
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from arap_service.domain import task
from arap_service.protocol.arap import TaskStatus
from mcp_gate import lifecycle
from tools.marked import replace

PAGE: Final = Path(__file__).parent.parent / "docs" / "architecture.md"
State = TypeVar("State", bound=StrEnum)


def mermaid(
    transitions: Iterable[tuple[tuple[State, type], State]], *, start: State, terminal: Callable[[State], bool]
) -> str:
    """A Mermaid state diagram of a transition table's items; events between the same two states share an arrow."""
    order = {state: place for place, state in enumerate(type(start))}
    arrows: dict[tuple[State, State], list[str]] = {}
    for (source, event), target in transitions:
        arrows.setdefault((source, target), []).append(_words(event.__name__))
    lines = ["stateDiagram-v2", f"    [*] --> {start.value}"]
    for source, target in sorted(arrows, key=lambda pair: (order[pair[0]], order[pair[1]])):
        lines.append(f"    {source.value} --> {target.value}: {' / '.join(sorted(arrows[source, target]))}")
    ends = {target for _, target in arrows if terminal(target)}
    lines += [f"    {end.value} --> [*]" for end in sorted(ends, key=order.__getitem__)]
    return "\n".join(lines)


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def diagrams() -> dict[str, str]:
    """Each generated block of the page, by the name in its markers."""
    return {
        "access request task": mermaid(
            task.TRANSITIONS.items(), start=TaskStatus.PENDING, terminal=lambda status: status is not TaskStatus.PENDING
        ),
        "gate task": mermaid(
            lifecycle.TRANSITIONS.items(),
            start=lifecycle.Phase.INTENT,
            terminal=lambda phase: phase is lifecycle.Phase.DONE,
        ),
    }


def render(page: str) -> str:
    """`page` with every marked block drawn anew.

    Raises:
        ValueError: A block is missing from the page.
    """
    for name, drawing in diagrams().items():
        page = replace(page, name, f"```mermaid\n{drawing}\n```")
    return page


def main() -> None:
    """Rewrite the page, or with `--check` end with status 1 when it is out of date."""
    page = PAGE.read_text(encoding="utf-8")
    drawn = render(page)
    if "--check" in sys.argv[1:]:
        sys.exit(f"{PAGE.name} is out of date: run python -m tools.diagrams" if drawn != page else 0)
    PAGE.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()

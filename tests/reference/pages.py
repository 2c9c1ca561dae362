"""The generated blocks of docs/reference, by the names in their markers.

`mcp FLOW` and `backend FLOW` are the transcripts of a flow on one wire, `sequence FLOW` is its picture, and `phases` is
the gate's table in the words of MCP. What stands between the blocks is written by hand.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from mcp_gate import lifecycle
from mcp_gate.lifecycle import Phase
from tests.reference.tape import Exchange, sequence, shown

FOLDER: Final = Path(__file__).parent.parent.parent / "docs" / "reference"
BLOCK: Final = re.compile(r"<!-- generated: (.+?) -->\n(.*?)\n<!-- end -->", re.DOTALL)


def pages() -> list[Path]:
    """The pages of the chapter."""
    return sorted(FOLDER.glob("*.md"))


def blocks_of(flow: str, exchanges: Iterable[Exchange]) -> Mapping[str, str]:
    """Every block that a recorded flow can stand in."""
    told = list(exchanges)
    wires = {f"{wire} {flow}": shown([each for each in told if each.wire == wire]) for wire in ("mcp", "backend")}
    return {name: f"```\n{text}\n```" for name, text in wires.items()} | {
        f"sequence {flow}": f"```mermaid\n{sequence(told)}\n```"
    }


def phases() -> str:
    """The phases of a gate task, what the client sees in each, and by which events it leaves."""
    rows = ["| phase | status that the client sees | ends or goes on by |", "|---|---|---|"]
    for phase in Phase:
        targets: dict[str, list[str]] = {}
        for (source, event), target in lifecycle.TRANSITIONS.items():
            if source is phase:
                targets.setdefault(target.value, []).append(_words(event.__name__))
        ways = "; ".join(f"{', '.join(sorted(events))} → `{target}`" for target, events in targets.items())
        rows.append(f"| `{phase.value}` | {_status(phase)} | {ways or 'deleted after its retention'} |")
    return "\n".join(rows)


def _status(phase: Phase) -> str:
    if phase is Phase.INTENT:
        return "not announced yet"
    if phase is Phase.DONE:
        return "`completed`, `failed` or `cancelled`"
    return f"`{lifecycle.mcp_status(phase, None)}`"


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def written() -> Mapping[str, list[tuple[Path, str]]]:
    """What the pages have: for each block's name, where it stands and with which text."""
    found: dict[str, list[tuple[Path, str]]] = {}
    for page in pages():
        for name, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            found.setdefault(name, []).append((page, text))
    return found

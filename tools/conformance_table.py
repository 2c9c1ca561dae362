"""Writes the table of rules of docs/arap-conformance.md from the catalogue, so that the two cannot disagree.

`python -m tools.conformance_table` rewrites the marked block. Which rules are tested: `python -m tests.requirements`.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Final

from tools.marked import replace

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "arap-conformance.md"
CATALOGUE: Final = ROOT / "tests" / "requirements.json"


def table() -> str:
    """One row for each group, with how many rules of which level it has; the last row is the sum."""
    groups: dict[str, Counter[str]] = {}
    for row in json.loads(CATALOGUE.read_text(encoding="utf-8")):
        groups.setdefault(row["group"].partition(" (")[0], Counter())[row["level"]] += 1
    groups["all"] = sum(groups.values(), Counter())
    rows = [
        f"| {' | '.join([name, *(str(levels[level]) for level in ('MUST', 'SHOULD', 'MAY')), str(levels.total())])} |"
        for name, levels in groups.items()
    ]
    return "\n".join(["| group | MUST | SHOULD | MAY | rules |\n|---|---|---|---|---|", *rows])


def render(page: str) -> str:
    """`page` with the table written anew."""
    return replace(page, "groups", table())


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

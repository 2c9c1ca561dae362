"""Writes the tables of docs/simulator.md from the tables of the simulator, so that they cannot disagree.

`python -m tools.simulator_tables` rewrites the marked blocks; `--check` only says whether they are current.
"""

import sys
from pathlib import Path
from typing import Final

from arap_service.domain.behaviours import BEHAVIOURS, PARAMETERS, Behaviour
from arap_service.simulator.judging import CHECKS
from arap_service.simulator.scenarios import ONE_CALL, SCENARIOS
from tools.marked import replace

PAGE: Final = Path(__file__).parent.parent / "docs" / "simulator.md"


def behaviours() -> str:
    """The table of behaviours, and that of their numbers."""
    rows = [
        f"| `{each.name}` | {each.group} | {each.does} | {each.client} | {', '.join(each.rules)} | {_numbers(each)} |"
        for each in BEHAVIOURS.values()
    ]
    head = (
        "| behaviour | about | what it does | what a correct client does | rules | numbers |\n|---|---|---|---|---|---|"
    )
    numbers = [f"| `{name}` | {each.least:g} to {each.most:g} | {each.means} |" for name, each in PARAMETERS.items()]
    return "\n".join([head, *rows, "", "| number | bounds | means |\n|---|---|---|", *numbers])


def scenarios() -> str:
    """The table of scenarios, with the rules that each can show."""
    rows = []
    for each in SCENARIOS.values():
        rules = sorted({CHECKS[check].rule for check in each.checks}, key=lambda rule: int(rule.removeprefix("PEP-")))
        asks = "" if each.asks == ONE_CALL else f" {each.asks}"
        rows.append(f"| `{each.name}` | {each.says}{asks} | {', '.join(rules)} |")
    return "\n".join(["| scenario | what happens | rules |\n|---|---|---|", *rows])


def _numbers(behaviour: Behaviour) -> str:
    defaults = {name: behaviour.times if name == "times" else PARAMETERS[name].default for name in behaviour.parameters}
    return ", ".join(f"`{name}` ({'no end' if value is None else f'{value:g}'})" for name, value in defaults.items())


def render(page: str) -> str:
    """`page` with both tables written anew.

    Raises:
        ValueError: A block is missing from the page.
    """
    for name, table in (("behaviours", behaviours()), ("scenarios", scenarios())):
        page = replace(page, name, table)
    return page


def main() -> None:
    """Rewrite the page, or with `--check` end with status 1 when it is out of date."""
    page = PAGE.read_text(encoding="utf-8")
    drawn = render(page)
    if "--check" in sys.argv[1:]:
        sys.exit(f"{PAGE.name} is out of date: run python -m tools.simulator_tables" if drawn != page else 0)
    PAGE.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()

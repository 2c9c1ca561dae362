"""`python -m tests.sep2848.evidence NAME=FILE …`: writes docs/evidence/sep-2848.json from reports (`--json`) of runs.

Kept of each run: the verdict of every check, and the numbers. Nothing of a machine, no message, no address.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from mcp_gate.conformance.catalogue import CHECKS
from mcp_gate.conformance.rules import traceability
from tests.sep2848.family import FAULTS

EVIDENCE: Final = Path(__file__).parents[2] / "docs" / "evidence" / "sep-2848.json"


def kept(report: dict[str, Any]) -> dict[str, Any]:
    """What is kept of one report."""
    verdicts: dict[str, list[str]] = {}
    for check in report["checks"]:
        verdicts.setdefault(check["verdict"], []).append(check["id"].removeprefix("sep-2848-"))
    return {"transport": report["transport"], "summary": report["summary"], "verdicts": verdicts}


def document(reports: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The evidence as a whole."""
    rows = traceability()["requirements"]
    return {
        "checks": len(CHECKS),
        "sentences": {
            "with a check": len({row["text"] for row in rows if "check" in row}),
            "with a reason why not": len({row["text"] for row in rows if "excluded" in row}),
        },
        "gates with one fault, each found by one check": len(FAULTS),
        "runs": {name: kept(report) for name, report in sorted(reports.items())},
    }


def main() -> None:
    """Write it."""
    reports = {}
    for given in sys.argv[1:]:
        name, _, file = given.partition("=")
        reports[name] = json.loads(Path(file).read_text(encoding="utf-8"))
    EVIDENCE.write_text(json.dumps(document(reports), indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

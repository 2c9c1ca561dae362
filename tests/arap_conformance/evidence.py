"""`python -m tests.arap_conformance.evidence NAME=FILE …`: writes docs/evidence/arap.json from reports (`--json`).

Kept of each run: the verdict of every check, and the numbers. Nothing of a machine, no message, no address.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from arap_service.conformance.catalogue import CHECKS
from arap_service.conformance.traceability import BINDING, rows, sentences
from tests.arap_conformance.family import FAULTS

EVIDENCE: Final = Path(__file__).parents[2] / "docs" / "evidence" / "arap.json"


def kept(report: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of one report; what passed is a number, and everything else is named."""
    verdicts: dict[str, list[str]] = {}
    for check in report["checks"]:
        if check["verdict"] != "pass":
            verdicts.setdefault(check["verdict"], []).append(check["id"].removeprefix("arap-"))
    return {"summary": report["summary"], "not passed": verdicts}


def document(reports: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The evidence as a whole."""
    found = {sentence: named for sentence, named in sentences(rows()).items() if sentence[2] in BINDING}
    return {
        "checks": len(CHECKS),
        "normative sentences": {
            "with a check": sum(bool(named) for named in found.values()),
            "with a reason why not": sum(not named for named in found.values()),
        },
        "services with one fault, each found by one check": len(FAULTS),
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

"""Runs the public MCP conformance suite against the fixture and reads what it reports.

`python -m tests.node.conformance` runs it and writes `docs/evidence/conformance.json`, which the tests compare with.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.node.programs import CONFORMANCE, ROOT, run
from tests.node.serving import serving

EVIDENCE: Final = ROOT / "docs" / "evidence" / "conformance.json"
REVISIONS: Final = ("2026-07-28", "2025-11-25")
# Run beside the required ones: it wants streams that are cut off and resumed, which needs a store of events.
NOT_OURS: Final = frozenset({"server-sse-polling"})
GOOD: Final = frozenset({"SUCCESS", "INFO"})
_FOLDER: Final = re.compile(r"server-(?P<scenario>.+?)-\d{4}-\d\d-\d\dT[\d-]+Z")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run against one revision gave: its status, what it printed, and the checks of each scenario."""

    status: int
    printed: str
    checks: Mapping[str, tuple[Mapping[str, Any], ...]]

    def passed(self, scenario: str) -> list[str]:
        """The checks of a scenario that are passed, by id, in order."""
        return [str(check["id"]) for check in self.checks.get(scenario, ()) if check["status"] in GOOD]

    def others(self, scenario: str) -> list[str]:
        """The checks of a scenario that are not passed, and why."""
        found = (check for check in self.checks.get(scenario, ()) if check["status"] not in GOOD)
        return [f"{check['id']} {check['status']}: {check.get('errorMessage', '')}" for check in found]


def run_required(url: str, revision: str, *, folder: Path) -> Outcome:
    """Run everything that a revision requires, and what the suite runs beside it."""
    results = folder / f"results-{revision}"
    script = [str(CONFORMANCE), "server", "--url", url, "--requirements", revision, "-o", str(results)]
    done = run(script, home=folder)
    checks: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for reported in sorted(results.glob("server-*/checks.json")):
        named = _FOLDER.fullmatch(reported.parent.name)
        assert named is not None, reported.parent.name
        checks[named["scenario"]] = tuple(json.loads(reported.read_text()))
    return Outcome(done.returncode, done.stdout + done.stderr, checks)


def figures(outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """What is kept of the runs: the passed checks of each scenario, and the others by name."""
    return {
        revision: {
            "scenarios": len(outcome.checks),
            "passed": sum(len(outcome.passed(scenario)) for scenario in outcome.checks),
            "checks": {scenario: outcome.passed(scenario) for scenario in sorted(outcome.checks)},
            "not passed": [
                f"{scenario}: {line.partition(':')[0]}"
                for scenario in sorted(outcome.checks)
                for line in outcome.others(scenario)
            ],
        }
        for revision, outcome in outcomes.items()
    }


def versions() -> Iterator[tuple[str, str]]:
    """The suite's version, as the lock has it."""
    lock = json.loads((Path(__file__).parent / "package-lock.json").read_text())
    name = "@modelcontextprotocol/conformance"
    yield name, lock["packages"][f"node_modules/{name}"]["version"]


def main() -> None:
    """Run the suite and write the evidence."""
    with tempfile.TemporaryDirectory() as folder, serving() as url:
        outcomes = {revision: run_required(url, revision, folder=Path(folder)) for revision in REVISIONS}
    document = {"suite": dict(versions()), "revisions": figures(outcomes)}
    EVIDENCE.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

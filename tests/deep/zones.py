"""Runs tests where the clocks of the machine show another time than UTC: none may depend on where it is run.

Africa/Lagos is an hour ahead all year; America/St_Johns is behind by hours and a half, with summer time; Asia/Kathmandu
is ahead by hours and three quarters. A file of tests touches time if it knows a clock, or if a module of ours does that
it imports: whatever stores, sends, shows or compares an instant has one of `CLOCKS`, and its tests import it.
"""

import ast
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.deep.workshop import outcomes_in

ROOT: Final = Path(__file__).parents[2]
ZONES: Final = ("Africa/Lagos", "America/St_Johns", "Asia/Kathmandu")
CLOCKS: Final = frozenset({"calendar", "datetime", "email.utils", "tests.clock", "time", "time_machine", "zoneinfo"})
OURS: Final = frozenset({"arap_service", "mcp_gate"})
NARROW: Final = ("tests/protocol/test_arap.py", "tests/domain/test_task.py", "tests/gate/test_lifecycle.py")
"""What every run of the tests tries in each zone: without databases, so it takes a second or two."""


def touching_time(root: Path = ROOT) -> list[str]:
    """Every file of tests that touches time."""
    return [str(file.relative_to(root)) for file in sorted((root / "tests").rglob("test_*.py")) if _touches(file, root)]


def _touches(file: Path, root: Path) -> bool:
    names = _known_to(file)
    if names & CLOCKS or "clock" in _wanted_by(file):
        return True
    ours = (root.joinpath(*name.split(".")).with_suffix(".py") for name in names if name.partition(".")[0] in OURS)
    return any(module.is_file() and bool(_known_to(module) & CLOCKS) for module in ours)


@cache
def _known_to(file: Path) -> frozenset[str]:
    """What a file imports, modules and members alike."""
    found = set[str]()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return frozenset(found)


def _wanted_by(file: Path) -> set[str]:
    """The fixtures that its tests ask for."""
    return {node.arg for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.arg)}


def passes_in(zone: str, tests: Sequence[str]) -> bool:
    """Whether `tests` pass in a process whose local time is that of `zone`; what failed is printed."""
    return outcomes_of(zone, tests) is not None


def outcomes_of(zone: str, tests: Sequence[str], *, jobs: int = 0) -> Counter[str] | None:
    """How many of `tests` passed or were skipped where the local time is that of `zone`; None if not all did.

    They are run in this many processes; none is the quickest for a few. Many are run in sight, as they take long.
    """
    with tempfile.TemporaryDirectory(prefix="arap-zones-") as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", f"-n{jobs}", "-p", "no:cacheprovider", "--timeout=600", f"--junit-xml={report}"]
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=ROOT,
            env={**os.environ, "TZ": zone},
            capture_output=not jobs,
            text=True,
            check=False,
        )
        if ended.returncode == 0:
            return Counter(outcomes_in(report).values())
    print(f"TZ={zone}:\n{(ended.stdout or '')[-4000:]}{(ended.stderr or '')[-2000:]}")
    return None

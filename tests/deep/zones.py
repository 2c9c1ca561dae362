"""Runs tests where the clocks of the machine show another time than UTC: none may depend on where it is run.

Africa/Lagos is an hour ahead all year; America/St_Johns is behind by hours and a half, with summer time; Asia/Kathmandu
is ahead by hours and three quarters.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ZONES: Final = ("Africa/Lagos", "America/St_Johns", "Asia/Kathmandu")
FOLDERS: Final = (
    "tests/api",
    "tests/auditing",
    "tests/domain",
    "tests/gate",
    "tests/protocol",
    "tests/requests",
    "tests/store",
    "tests/web",
    "tests/test_audit.py",
    "tests/test_backup.py",
    "tests/test_courier.py",
    "tests/test_issuer.py",
    "tests/test_keys.py",
    "tests/test_monitoring.py",
    "tests/test_reevaluation.py",
    "tests/test_workers.py",
)
"""Whatever stores, sends, shows or compares an instant."""
NARROW: Final = ("tests/protocol/test_arap.py", "tests/domain/test_task.py", "tests/gate/test_lifecycle.py")
"""What every run of the tests tries in each zone: without databases, so it takes a second or two."""


def passes_in(zone: str, tests: Sequence[str]) -> bool:
    """Whether `tests` pass in a process whose local time is that of `zone`; what failed is printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--timeout=600", *tests]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "TZ": zone}, capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        print(f"TZ={zone}:\n{ended.stdout[-4000:]}{ended.stderr[-2000:]}")
    return ended.returncode == 0

"""Instants are instants wherever the service runs; `python -m tests.deep zones` tries all that touches time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deep.zones import NARROW, ROOT, ZONES, passes_in, touching_time


@pytest.mark.parametrize("zone", ZONES)
def test_what_touches_time_passes_where_clocks_show_another_time(zone: str) -> None:
    show = [sys.executable, "-c", "import time; print(time.localtime(0)[3:5])"]
    local = subprocess.run(show, env={**os.environ, "TZ": zone}, check=True, capture_output=True, text=True).stdout
    assert local.strip() != "(0, 0)", "the machine does not know this zone, so the run would prove nothing"
    assert passes_in(zone, NARROW)


def test_a_file_of_tests_touches_time_if_it_or_what_it_tests_knows_a_clock(tmp_path: Path) -> None:
    files = {
        "arap_service/late.py": "from datetime import datetime",
        "arap_service/plain.py": "import json",
        "tests/test_late.py": "from arap_service.late import now",
        "tests/test_member.py": "from arap_service import late",
        "tests/test_own.py": "import time",
        "tests/test_fixture.py": "def test_it(clock): ...",
        "tests/test_plain.py": "from arap_service.plain import read",
        "tests/late.py": "import time",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    expected = ["tests/test_fixture.py", "tests/test_late.py", "tests/test_member.py", "tests/test_own.py"]
    assert touching_time(tmp_path) == expected


def test_the_files_that_touch_time_are_those_of_every_part() -> None:
    """What is always tried is among them, and no part with a clock of its own is left out."""
    found = touching_time(ROOT)
    assert {*NARROW} <= {*found}
    assert {"api", "auditing", "domain", "gate", "protocol", "requests", "store", "web"} <= {
        f.split("/")[1] for f in found
    }

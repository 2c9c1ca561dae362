"""Instants are instants wherever the service runs; `python -m tests.deep zones` tries all that touches time."""

import os
import subprocess
import sys

import pytest

from tests.deep.zones import NARROW, ZONES, passes_in


@pytest.mark.parametrize("zone", ZONES)
def test_what_touches_time_passes_where_clocks_show_another_time(zone: str) -> None:
    show = [sys.executable, "-c", "import time; print(time.localtime(0)[3:5])"]
    local = subprocess.run(show, env={**os.environ, "TZ": zone}, check=True, capture_output=True, text=True).stdout
    assert local.strip() != "(0, 0)", "the machine does not know this zone, so the run would prove nothing"
    assert passes_in(zone, NARROW)

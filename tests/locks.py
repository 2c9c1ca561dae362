"""The lock files: how they are made, and whether they are current.

A lock holds names, versions and hashes, and no address. Its first line is a digest of what it was made from, so
that a forgotten `make lock` is found without asking any index. Order matters: `demo` is made under the constraints
of `dev`, never the other way round, which would silently take older versions.
"""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT: Final = Path(__file__).parent.parent
PROJECT: Final = "pyproject.toml"
NPM: Final = "tests/node/package-lock.json"
STAMP: Final = "# made from "
PIN: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;]+)", re.MULTILINE)
ADDRESS: Final = re.compile(r"://|index-url|find-links|^\s*-e\b|@ ", re.MULTILINE)
COMPILE: Final = (
    *("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"),
    *("--no-emit-index-url", "--no-annotate", "--no-header"),
)


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock: its name, the inputs in `locks/`, the parts of the project that it covers, and its constraint."""

    name: str
    inputs: tuple[str, ...]
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    under: str | None = None
    # Where one package asks for another's extras, pip takes the row for it only if the row has them too.
    keeps_extras: bool = False

    @property
    def path(self) -> str:
        """Where it lies, from the top of the repository."""
        return f"locks/{self.name}.lock"


DEV: Final = Lock("dev", ("build.in",), ("conformance", "gate", "postgres", "service"), ("dev",))
DEMO: Final = Lock("demo", ("build.in",), ("gate", "service"), under="dev")
GIT_SERVER: Final = Lock("git-server", ("git-server.in",))
FASTMCP_TASKS: Final = Lock("fastmcp-tasks", ("fastmcp-tasks.in",), keeps_extras=True)
MCP_HANGAR: Final = Lock("mcp-hangar", ("mcp-hangar.in",), keeps_extras=True)
LOCKS: Final = (DEV, DEMO, GIT_SERVER, FASTMCP_TASKS, MCP_HANGAR)


def wanted(lock: Lock, root: Path = ROOT) -> list[str]:
    """The requirements that the lock must answer, sorted."""
    found = [
        line
        for name in lock.inputs
        for line in (root / "locks" / name).read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    if lock.extras:
        project = tomllib.loads((root / PROJECT).read_text(encoding="utf-8"))
        found += project["project"]["dependencies"]
        for extra in lock.extras:
            found += project["project"]["optional-dependencies"][extra]
        for group in lock.groups:
            found += project["dependency-groups"][group]
    return sorted(found)


def stamp(lock: Lock, root: Path = ROOT) -> str:
    """First line of the lock: a digest of what it is made from, the constraint included."""
    made_from = {"wanted": wanted(lock, root)}
    if lock.under:
        text = (root / f"locks/{lock.under}.lock").read_text(encoding="utf-8")
        made_from["under"] = [hashlib.sha256(text.encode()).hexdigest()]
    return STAMP + hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


def blocks(text: str) -> dict[str, list[str]]:
    """The rows of a lock with their hashes, by canonical name; a package has several where platforms differ."""
    found: dict[str, list[str]] = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        if match := PIN.match(block):
            found.setdefault(canonicalize_name(match["name"]), []).append(block)
    return found


def pins(text: str) -> dict[str, set[Version]]:
    """The versions that a lock fixes, by canonical name."""
    found: dict[str, set[Version]] = {}
    for match in PIN.finditer(text):
        found.setdefault(canonicalize_name(match["name"]), set()).add(Version(match["version"]))
    return found


def problems(lock: Lock, root: Path = ROOT) -> Iterator[str]:
    """Why the lock may not be used, one sentence each; nothing when it is current."""
    text = (root / lock.path).read_text(encoding="utf-8")
    if text.splitlines()[0] != stamp(lock, root):
        yield f"{lock.path} was made from other requirements; run: make lock"
    if ADDRESS.search(text):
        yield f"{lock.path} names an address"
    for name, rows in blocks(text).items():
        if not all("--hash=sha256:" in row for row in rows):
            yield f"{lock.path} has no hash for {name}"
    yield from _unmet(lock, pins(text), root)
    if lock.under:
        above = pins((root / f"locks/{lock.under}.lock").read_text(encoding="utf-8"))
        for name, versions in pins(text).items():
            if versions - above.get(name, set()):
                yield f"{lock.path} fixes {name} otherwise than {lock.under}"


def _unmet(lock: Lock, fixed: Mapping[str, set[Version]], root: Path) -> Iterator[str]:
    for requirement in map(Requirement, wanted(lock, root)):
        versions = fixed.get(canonicalize_name(requirement.name), set())
        if not versions:
            yield f"{lock.path} lacks {requirement.name}"
        for version in versions:
            if not requirement.specifier.contains(version, prereleases=True):
                yield f"{lock.path} fixes {requirement.name} {version}, outside {requirement.specifier}"


def make(lock: Lock, root: Path = ROOT) -> None:
    """Resolve again, keeping the versions of the present lock that still fit.

    Raises:
        subprocess.CalledProcessError: when uv finds no solution; the present lock is then unchanged.
    """
    command = [sys.executable, "-m", *COMPILE, "--output-file", lock.path]
    command += ["--no-strip-extras"] if lock.keeps_extras else []
    command += [PROJECT] if lock.extras else []
    command += [f"locks/{name}" for name in lock.inputs]
    command += [word for extra in lock.extras for word in ("--extra", extra)]
    command += [word for group in lock.groups for word in ("--group", group)]
    command += ["--constraints", f"locks/{lock.under}.lock"] if lock.under else []
    subprocess.run(command, cwd=root, check=True)
    body = (root / lock.path).read_text(encoding="utf-8")
    (root / lock.path).write_text(f"{stamp(lock, root)}\n{body}", encoding="utf-8")


def npm_problems(root: Path = ROOT) -> Iterator[str]:
    """Why the lock of the programs from npm may not be used, one sentence each."""
    text = (root / NPM).read_text(encoding="utf-8")
    if ADDRESS.search(text):
        yield f"{NPM} names an address; run: python -m tests.locks npm"
    for name, row in json.loads(text)["packages"].items():
        if name and "integrity" not in row:
            yield f"{NPM} has no hash for {name}"


def clean_npm(root: Path = ROOT) -> None:
    """Take out what npm writes besides names, versions and hashes: where its authors want money sent."""
    document = json.loads((root / NPM).read_text(encoding="utf-8"))
    for row in document["packages"].values():
        row.pop("funding", None)
    (root / NPM).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Make all locks again, in their order; with `npm`, only clean the one that npm has written."""
    clean_npm()
    if list(arguments) == ["npm"]:
        return 0
    for lock in LOCKS:
        make(lock)
        print(f"{lock.path}: {len(pins((ROOT / lock.path).read_text(encoding='utf-8')))} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

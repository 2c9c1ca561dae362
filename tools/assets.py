"""Fetches the front-end files that the desk and its tests need, and refuses what the lock does not name.

`python -m tools.assets` packs each package named in `assets.lock.json` with npm, compares every file with its recorded
SHA-256 and writes it where the lock says; nothing is written unless all of them match. `--update` records what was
fetched instead, after a version was changed by hand. `--check` fetches nothing and verifies the committed files.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypedDict

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "tools" / "assets.lock.json"
LARGEST_FILE: Final = 4 * 1024 * 1024


class Asset(TypedDict):
    """One committed file: where it comes from, where it lives, what it must hash to."""

    package: str
    version: str
    licence: str
    member: str
    path: str
    sha256: str


class AssetError(Exception):
    """A file is missing, cannot be fetched or is not what the lock says."""


def read_lock(lock: Path = LOCK) -> list[Asset]:
    """The assets in the order of the lock file."""
    assets: list[Asset] = json.loads(lock.read_text(encoding="utf-8"))["assets"]
    return assets


def digest(content: bytes) -> str:
    """SHA-256 in lower-case hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def mismatches(assets: Sequence[Asset], read: Callable[[Asset], bytes | None]) -> list[str]:
    """One line for each asset whose content is absent or hashes to something else."""
    problems = []
    for asset in assets:
        content = read(asset)
        if content is None:
            problems.append(f"{asset['path']}: missing")
        elif digest(content) != asset["sha256"]:
            problems.append(f"{asset['path']}: not the file that the lock names")
    return problems


def committed(asset: Asset, *, root: Path = ROOT) -> bytes | None:
    """The file as it stands in the tree, or nothing when it does not."""
    path = root / asset["path"]
    return path.read_bytes() if path.is_file() else None


def fetch(asset: Asset) -> bytes:
    """The member of the published package, by npm's ordinary client.

    Raises:
        AssetError: when npm fails or the package has no such file.
    """
    with tempfile.TemporaryDirectory() as folder:
        name = f"{asset['package']}@{asset['version']}"
        command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", folder, name]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603 - no shell, names from the lock
            archive = next(Path(folder).glob("*.tgz"))
            with tarfile.open(archive, "r:gz") as tar:
                member = tar.extractfile(f"package/{asset['member']}")
                if member is None:
                    raise AssetError(f"{name} has no file {asset['member']}")
                return member.read(LARGEST_FILE)
        except (OSError, subprocess.SubprocessError, StopIteration, KeyError) as error:
            raise AssetError(f"{name} could not be fetched ({type(error).__name__}); is npm installed?") from error


def refresh(*, update: bool) -> None:
    """Fetch everything, then write everything; with `update` the lock takes the new hashes.

    Raises:
        AssetError: when a fetched file differs from the lock; no file has been touched then.
    """
    assets = read_lock()
    fetched = {asset["path"]: fetch(asset) for asset in assets}
    if update:
        for asset in assets:
            asset["sha256"] = digest(fetched[asset["path"]])
        LOCK.write_text(json.dumps({"assets": assets}, indent=2) + "\n", encoding="utf-8")
    problems = mismatches(assets, lambda asset: fetched[asset["path"]])
    if problems:
        raise AssetError("\n".join(problems))
    for asset in assets:
        path = ROOT / asset["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(fetched[asset["path"]])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status says whether the tree now agrees with the lock."""
    parser = argparse.ArgumentParser(prog="tools.assets", description="Front-end files, by version and hash.")
    parser.add_argument("--check", action="store_true", help="verify the committed files, fetch nothing")
    parser.add_argument("--update", action="store_true", help="record what is fetched in the lock")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            problems = mismatches(read_lock(), committed)
            if problems:
                raise AssetError("\n".join(problems))
        else:
            refresh(update=options.update)
    except AssetError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("front-end files agree with tools/assets.lock.json\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

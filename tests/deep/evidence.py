"""Writes what a long run found to `docs/evidence`: which commit, which seed, how many, and each result.

No absolute path and no time of day is in it, so that two runs of one commit and one seed can be compared. With
`ARAP_DEEP_ADD=1` the figures of the runs before stay, each with its commit and seed: a long part can be done in pieces.
"""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent.parent
FOLDER: Final = ROOT / "docs" / "evidence"


def write(part: str, *, seed: int, counts: Mapping[str, int], results: list[Any], folder: Path = FOLDER) -> Path:
    """Store the evidence of one part; the path of its file."""
    file = folder / f"{part}.json"
    evidence = {
        "part": part,
        **_source(),
        "python": platform.python_version(),
        "seed": seed,
        "counts": dict(counts),
        **_before(file),
        "results": results,
    }
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(evidence, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def _before(file: Path) -> dict[str, Any]:
    if os.environ.get("ARAP_DEEP_ADD", "0") == "0" or not file.exists():
        return {}
    last = json.loads(file.read_text(encoding="utf-8"))
    figures = {name: last[name] for name in ("commit", "changed_files", "seed", "counts")}
    return {"runs_before": [*last.get("runs_before", []), figures]}


def _source() -> dict[str, Any]:
    """The commit that was tested, and whether anything but the evidence differed from it."""
    changed = [line for line in _git("status", "--porcelain").splitlines() if "docs/evidence/" not in line]
    return {"commit": _git("rev-parse", "HEAD").strip(), "changed_files": len(changed)}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout

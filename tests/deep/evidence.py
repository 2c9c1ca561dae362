"""Writes what a long run found to `docs/evidence`: which commit, which seed, how many, and each result.

No absolute path and no time of day is in it, so that two runs of one commit and one seed can be compared.
"""

import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent.parent
FOLDER: Final = ROOT / "docs" / "evidence"


def write(part: str, *, seed: int, counts: Mapping[str, int], results: list[Any], folder: Path = FOLDER) -> Path:
    """Store the evidence of one part; the path of its file."""
    evidence = {
        "part": part,
        **_source(),
        "python": platform.python_version(),
        "seed": seed,
        "counts": dict(counts),
        "results": results,
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{part}.json"
    file.write_text(json.dumps(evidence, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def _source() -> dict[str, Any]:
    """The commit that was tested, and whether anything but the evidence differed from it."""
    changed = [line for line in _git("status", "--porcelain").splitlines() if "docs/evidence/" not in line]
    return {"commit": _git("rev-parse", "HEAD").strip(), "changed_files": len(changed)}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout

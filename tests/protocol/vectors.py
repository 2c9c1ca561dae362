"""Reads the files of `tests/vectors`: cases that the specifications and the catalogue give as data."""

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[1] / "vectors"


def load(name: str) -> Any:
    """The content of one file, by its name without suffix."""
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))

"""What a measurement says: one JSON object a line, with what it is compared to and whether the goal is reached.

A figure never stands alone: what it is compared to was measured in the same run, in turns with it. Goals are those of
the design's table of figures.
"""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import JsonValue

ROOT: Final = Path(__file__).resolve().parent.parent.parent

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Load:
    """One round of load: how many requests were answered in how many seconds, and how long one took (ms)."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        """Answered requests in a second."""
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the benchmark; `reached` is None when what it should be compared to could not be had."""

    name: str
    unit: str
    ours: float
    beside: Literal["floor", "peer"]
    other: float | None
    goal: str
    reached: bool | None
    details: Mapping[str, JsonValue] = field(default_factory=dict)

    def line(self, machine: Mapping[str, JsonValue]) -> str:
        """The figure as JSON, with the machine that it was measured on."""
        ratio = None if self.other is None else round(self.ours / self.other, 3)
        return json.dumps(
            {
                "name": self.name,
                "unit": self.unit,
                "ours": round(self.ours, 3),
                self.beside: None if self.other is None else round(self.other, 3),
                "ratio": ratio,
                "goal": self.goal,
                "reached": self.reached,
                **{key: _rounded(value) for key, value in self.details.items()},
                "machine": dict(machine),
            }
        )


def _rounded(value: JsonValue) -> JsonValue:
    return round(value, 3) if isinstance(value, float) else value


def summary(rounds: Sequence[Load]) -> Load:
    """The middle of several rounds, each quantity by itself."""
    return Load(
        requests=round(statistics.median(load.requests for load in rounds)),
        seconds=statistics.median(load.seconds for load in rounds),
        p50_ms=statistics.median(load.p50_ms for load in rounds),
        p99_ms=statistics.median(load.p99_ms for load in rounds),
    )


def rate(rounds: Iterable[Load]) -> float:
    """The middle of the rates of several rounds."""
    return statistics.median(load.per_second for load in rounds)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie, of at least one value."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def in_turns(keys: Sequence[Key], rounds: int, measure: Callable[[Key], Value]) -> dict[Key, list[Value]]:
    """Measure every key once a round, each round beginning with another one, so that drift falls on all alike."""
    found: dict[Key, list[Value]] = {key: [] for key in keys}
    for number in range(rounds):
        start = number % len(keys)
        for key in (*keys[start:], *keys[:start]):
            found[key].append(measure(key))
    return found


def machine() -> dict[str, JsonValue]:
    """What the figures were measured on: cores, load before the run, Python, commit."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "commit": described.stdout.strip() or None,
    }

"""How long a run measures: the whole one for figures, the quick one to see that it works."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Rounds in turns, seconds of load in each, how many of what is counted, and whether peers are fetched."""

    rounds: int
    seconds: float
    warm_seconds: float
    submissions: int
    calls: int
    install: bool


WHOLE: Final = Size(rounds=5, seconds=3, warm_seconds=1, submissions=1000, calls=200, install=True)
QUICK: Final = Size(rounds=1, seconds=1, warm_seconds=1, submissions=64, calls=10, install=False)

"""A chart as the numbers that a template draws: bars of days, in parts, on a scale that ends at a round number.

Pure; the table beside the chart says the same to those who do not see it. Colours are the style sheet's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from arap_service.reports import DayFigures

WIDTH: Final = 960
HEIGHT: Final = 240
_LEFT: Final = 44
_BOTTOM: Final = 28
_TOP: Final = 10
_MOST_BARS: Final = 62
_ROUND: Final = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class Box:
    """One part of a bar; `kind` is approved, denied or other."""

    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A number or day beside the chart, and where."""

    text: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything to draw; `lines` are the heights of the scale."""

    boxes: tuple[Box, ...]
    scale: tuple[Mark, ...]
    days: tuple[Mark, ...]
    step: int
    """How many days one bar stands for."""


def chart_of(days: Sequence[DayFigures]) -> Chart:
    """The bars for these days; of a long period several days share one."""
    step = -(-len(days) // _MOST_BARS)
    bars = [days[at : at + step] for at in range(0, len(days), step)]
    sums = [tuple(sum(getattr(day, kind) for day in bar) for kind in ("approved", "denied", "other")) for bar in bars]
    top = round_up(max((sum(each) for each in sums), default=0))
    slot = (WIDTH - _LEFT) / max(1, len(bars))
    floor = HEIGHT - _BOTTOM
    unit = (floor - _TOP) / top
    boxes: list[Box] = []
    for number, each in enumerate(sums):
        y = float(floor)
        for kind, count in zip(("approved", "denied", "other"), each, strict=True):
            if count:
                y -= count * unit
                x = _LEFT + slot * (number + 0.14)
                boxes.append(Box(kind, round(x, 1), round(y, 1), round(slot * 0.72, 1), round(count * unit, 1)))
    scale = tuple(
        Mark(f"{value:g}", _LEFT - 8, round(floor - value * unit, 1))
        for value in sorted({0, top / 2, top})
        if value == int(value)
    )
    every = -(-len(bars) // 8)
    named = tuple(
        Mark(f"{bar[0].day.day} {bar[0].day:%b}", round(_LEFT + slot * (number + 0.5), 1), HEIGHT - 8)
        for number, bar in enumerate(bars)
        if number % every == 0
    )
    return Chart(tuple(boxes), scale, named, step)


def round_up(value: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 … that is not smaller."""
    size = 1
    while True:
        for first in _ROUND:
            if first * size >= value:
                return first * size
        size *= 10

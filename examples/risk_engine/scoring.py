"""How risky a transfer is: amount, hour and novelty, each worth points. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

Verdict = Literal["approve", "deny", "human"]
LOW: Final = 30
HIGH: Final = 80
OFFICE_HOURS: Final = range(7, 19)


@dataclass(frozen=True, slots=True)
class Score:
    """The points, and what they were given for."""

    points: int
    reasons: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Few points are approved, many denied; whatever lies between is for a human being."""
        return "approve" if self.points <= LOW else "deny" if self.points >= HIGH else "human"

    @property
    def sentence(self) -> str:
        """The score for those who read the record."""
        return f"Risk {self.points}: {', '.join(self.reasons) or 'nothing unusual'}."


def score(amount: int | None, payee: str, *, known: Collection[str], at: datetime) -> Score:
    """The score of a transfer at this moment; an amount that cannot be read is the highest risk."""
    found: list[tuple[int, str]] = []
    if amount is None or amount > 10_000:
        found.append((50, "amount not readable" if amount is None else "large amount"))
    elif amount > 1_000:
        found.append((20, "considerable amount"))
    if at.hour not in OFFICE_HOURS:
        found.append((30, "outside office hours"))
    if payee not in known:
        found.append((35, "payee not paid before"))
    return Score(sum(points for points, _ in found), tuple(reason for _, reason in found))

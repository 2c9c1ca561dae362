"""What differs between two values, member by member and exactly: for whoever decides something that was decided before.

What a reader may not see of either is compared with nothing. Of long texts only the parts that differ are given, with
how much around them is equal, so that a change at the end of a long one is not overlooked. Design.md section 7.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Literal

from arap_service.domain.revealing import Reveal, Shown, reveal

Change = Literal["changed", "added", "gone"]
SHORT: Final = 160
"""Texts up to this length are given whole."""
_AROUND: Final = 40


@dataclass(frozen=True, slots=True)
class Difference:
    """One member that is not what it was; an absent one has no text and the kind absent."""

    pointer: str
    change: Change
    before: str
    after: str
    kind_before: str
    kind_after: str
    equal_before: int = 0
    equal_behind: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The members that differ, in their order now, and how many do not, or could not be compared."""

    differences: tuple[Difference, ...]
    equal: int
    secrets: int
    hidden: int


def compare(before: Any, now: Any, *, reveals: Collection[Reveal], mask: Collection[str]) -> Comparison:
    """`now` beside `before`, as far as every one of `reveals` lets a reader see; nothing of what `mask` names."""
    old, unseen_old = _seen(before, reveals, mask)
    new, unseen_new = _seen(now, reveals, mask)
    found: list[Difference] = []
    equal = 0
    for place in (*new, *(place for place in old if place not in new)):
        was, is_now = old.get(place), new.get(place)
        if (was is not None and was.masked) or (is_now is not None and is_now.masked):
            continue
        if was is not None and is_now is not None and was.exact == is_now.exact:
            equal += 1
        else:
            found.append(_difference(was, is_now))
    secrets = {place for seen in (old, new) for place, shown in seen.items() if shown.masked}
    return Comparison(tuple(found), equal, len(secrets), len(unseen_old | unseen_new))


def _seen(value: Any, reveals: Collection[Reveal], mask: Collection[str]) -> tuple[Mapping[str, Shown], set[str]]:
    views = [reveal(value, allowed=allowed, mask=mask) for allowed in reveals]
    first, *others = [{shown.place: shown for shown in view.shown} for view in views]
    seen = {place: shown for place, shown in first.items() if all(place in other for other in others)}
    return seen, {name for view in views for name in view.hidden}


def _difference(was: Shown | None, is_now: Shown | None) -> Difference:
    if was is None or is_now is None:
        known = is_now or was
        assert known is not None  # noqa: S101  # a place comes from one of the two
        change: Change = "gone" if is_now is None else "added"
        return Difference(
            known.pointer,
            change,
            "" if was is None else was.text,
            "" if is_now is None else is_now.text,
            "absent" if was is None else was.kind,
            "absent" if is_now is None else is_now.kind,
        )
    lead, behind = _shared(was.text, is_now.text)
    return Difference(
        is_now.pointer,
        "changed",
        was.text[lead : len(was.text) - behind],
        is_now.text[lead : len(is_now.text) - behind],
        was.kind,
        is_now.kind,
        lead,
        behind,
    )


def _shared(one: str, other: str) -> tuple[int, int]:
    """How many characters before and behind the difference of two long texts to leave out."""
    if max(len(one), len(other)) <= SHORT:
        return 0, 0
    lead = _equal(one, other)
    behind = _equal(one[lead:][::-1], other[lead:][::-1])
    return max(0, lead - _AROUND), max(0, behind - _AROUND)


def _equal(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))

"""All gates with one fault."""

from typing import Any

from tests.sep2848 import faults, more_faults
from tests.sep2848.faults import Broken

__all__ = ["FAULTS", "Broken", "faults", "more_faults"]


def _leaves(kind: Any) -> list[Any]:
    below = kind.__subclasses__()
    found = [leaf for one in below for leaf in _leaves(one)]
    return [*([kind] if "found_by" in vars(kind) else []), *found]


FAULTS: tuple[type[Broken], ...] = tuple(_leaves(Broken))

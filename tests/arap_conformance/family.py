"""Every service with a fault."""

from typing import Any, Final

from tests.arap_conformance import broken_approvals, broken_binding, broken_ends, broken_tasks
from tests.arap_conformance.broken import Broken

MODULES: Final = (broken_binding, broken_tasks, broken_ends, broken_approvals)


def _leaves(kind: Any) -> list[Any]:
    below = [leaf for one in kind.__subclasses__() for leaf in _leaves(one)]
    return [*([kind] if "found_by" in vars(kind) else []), *below]


FAULTS: Final[tuple[type[Broken], ...]] = tuple(_leaves(Broken))

"""All checks in the order in which they are run."""

from collections.abc import Sequence
from typing import Final

from mcp_gate.conformance import (
    checks_binding,
    checks_capability,
    checks_client,
    checks_creation,
    checks_decision,
    checks_endings,
    checks_exposure,
    checks_input,
)
from mcp_gate.conformance.model import Check

CHECKS: Final[tuple[Check, ...]] = (
    *checks_capability.CHECKS,
    *checks_creation.CHECKS,
    *checks_decision.CHECKS,
    *checks_endings.CHECKS,
    *checks_binding.CHECKS,
    *checks_input.CHECKS,
    *checks_exposure.CHECKS,
    *checks_client.CHECKS,
)
GROUPS: Final[tuple[str, ...]] = tuple(dict.fromkeys(check.group for check in CHECKS))


class NoSuchCheck(Exception):
    """A name is neither a check's nor a group's."""


def chosen(names: Sequence[str]) -> tuple[Check, ...]:
    """The checks with these ids, or of these groups, in their order; all of them when nothing is named.

    Raises:
        NoSuchCheck: A name is not known.
    """
    known = {check.id for check in CHECKS}
    wanted = set[str]()
    for name in names:
        full = name if name in known else f"sep-2848-{name}"
        if name not in GROUPS and full not in known:
            raise NoSuchCheck(f"there is no check and no group {name!r}; --list shows them")
        wanted.add(name if name in GROUPS else full)
    return tuple(check for check in CHECKS if not wanted or check.id in wanted or check.group in wanted)

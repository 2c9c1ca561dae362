"""All checks in the order in which they are run."""

from collections.abc import Sequence
from typing import Final

from blackbox_kit.choosing import NoSuchCheck, chosen_of, groups_of
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
from mcp_gate.conformance.table import PREFIX

__all__ = ["CHECKS", "GROUPS", "NoSuchCheck", "chosen"]

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
GROUPS: Final = groups_of(CHECKS)


def chosen(names: Sequence[str]) -> tuple[Check, ...]:
    """The checks with these ids, or of these groups, in their order; all of them when nothing is named.

    Raises:
        NoSuchCheck: A name is not known.
    """
    return chosen_of(CHECKS, names, prefix=PREFIX)

"""Which checks of a catalogue are meant."""

from collections.abc import Sequence
from typing import TypeVar

from blackbox_kit.model import Check

AnyCheck = TypeVar("AnyCheck", bound=Check)


class NoSuchCheck(Exception):
    """A name is neither a check's nor a group's."""


def groups_of(checks: Sequence[Check]) -> tuple[str, ...]:
    """Their groups, in their order."""
    return tuple(dict.fromkeys(check.group for check in checks))


def chosen_of(checks: Sequence[AnyCheck], names: Sequence[str], *, prefix: str) -> tuple[AnyCheck, ...]:
    """The checks with these ids, or of these groups, in their order; all of them when nothing is named.

    Raises:
        NoSuchCheck: A name is not known.
    """
    known, groups = {check.id for check in checks}, groups_of(checks)
    wanted = set[str]()
    for name in names:
        full = name if name in known else prefix + name
        if name not in groups and full not in known:
            raise NoSuchCheck(f"there is no check and no group {name!r}; --list shows them")
        wanted.add(name if name in groups else full)
    return tuple(check for check in checks if not wanted or check.id in wanted or check.group in wanted)

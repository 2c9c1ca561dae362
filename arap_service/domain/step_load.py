"""The steps of a template as a rules file gives them: who they name, how many they take, and what they wait for.

Notes faults that a schema cannot see, each at its place in the file: groups that are not there, steps that nobody could
complete, steps that wait for each other. What a step means is decided in `policy.py` and `workflow.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from arap_service.domain.policy import Step


class Report(Protocol):
    """Notes a fault of the member at this path."""

    def __call__(self, message: str, *path: object) -> None:
        """See the class."""
        ...


def read_steps(
    steps: Sequence[Mapping[str, Any]], *, groups: Mapping[str, str] | None, report: Report, path: tuple[object, ...]
) -> tuple[Step, ...]:
    """The steps in the order of the file; with `groups` they may name no other."""
    _check_order(steps, report, path)
    return tuple(_step(step, groups, report, (*path, index)) for index, step in enumerate(steps))


def _step(step: Mapping[str, Any], known: Mapping[str, str] | None, report: Report, path: tuple[object, ...]) -> Step:
    for index, group in enumerate(step.get("groups", [])):
        if known is not None and group not in known:
            report("no group has this name", *path, "groups", index)
    people, resolvers = step.get("people", []), step.get("resolvers", [])
    if not step.get("groups") and len(people) + len(resolvers) < step.get("quorum", 1):
        report("the step names fewer deciders than its quorum", *path, "quorum")
    return Step(
        id=step["id"],
        title=step["title"],
        groups=frozenset(step.get("groups", [])),
        people=frozenset(people),
        resolvers=frozenset(resolvers),
        quorum=step.get("quorum", 1),
        veto=step.get("veto", 1),
        repeat=step.get("repeat", False),
        after=frozenset(step.get("after", [])),
    )


def _check_order(steps: Sequence[Mapping[str, Any]], report: Report, path: tuple[object, ...]) -> None:
    waits = {step["id"]: frozenset(step.get("after", [])) for step in steps}
    is_whole = True
    for index, step in enumerate(steps):
        for place, name in enumerate(step.get("after", [])):
            if name not in waits:
                is_whole = False
                report("no step has this id", *path, index, "after", place)
    opened: set[str] = set()
    while further := {name for name, after in waits.items() if name not in opened and after <= opened}:
        opened |= further
    for index, step in enumerate(steps):
        if is_whole and step["id"] not in opened:
            report("the step can never open: steps wait for each other", *path, index, "after")

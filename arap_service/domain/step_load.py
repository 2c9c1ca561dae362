"""The steps of a template as a rules file gives them: who they name, how many they take, and what they wait for.

Notes faults that a schema cannot see, each at its place in the file: groups that are not there, steps that nobody could
complete, steps that wait for each other. What a step means is decided in `policy.py` and `workflow.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arap_service.domain.appointing import Relation
from arap_service.domain.catalog_load import Path, Report
from arap_service.domain.policy import Step
from arap_service.domain.timing import Escalation, Timing


@dataclass(frozen=True, slots=True)
class StepReader:
    """Reads steps; where there are `groups` they may name no other, and `check` notes what is wrong with a `who`."""

    groups: Mapping[str, str] | None
    check: Callable[[str, Path], None]
    report: Report

    def read(self, steps: Sequence[Mapping[str, Any]], path: Path) -> tuple[Step, ...]:
        """The steps in the order of the file."""
        _check_order(steps, self.report, path)
        return tuple(self._step(step, (*path, index)) for index, step in enumerate(steps))

    def _step(self, step: Mapping[str, Any], path: Path) -> Step:
        self._check(step, path)
        return Step(
            id=step["id"],
            title=step["title"],
            groups=frozenset(step.get("groups", [])),
            people=frozenset(step.get("people", [])),
            resolvers=frozenset(step.get("resolvers", [])),
            quorum=step.get("quorum", 1),
            veto=step.get("veto", 1),
            repeat=step.get("repeat", False),
            after=frozenset(step.get("after", [])),
            relations=frozenset(Relation(each["of"], each["is"]) for each in step.get("relations", [])),
            who=step.get("who"),
            timing=_timing(step),
        )

    def _check(self, step: Mapping[str, Any], path: Path) -> None:
        for index, group in enumerate(step.get("groups", [])):
            if self.groups is not None and group not in self.groups:
                self.report("no group has this name", *path, "groups", index)
        for index, group in enumerate(step.get("escalate", {}).get("groups", [])):
            if self.groups is not None and group not in self.groups:
                self.report("no group has this name", *path, "escalate", "groups", index)
        self._check_timing(step, path)
        if "who" in step:
            self.check(step["who"], (*path, "who"))
        named = len(step.get("people", [])) + len(step.get("resolvers", []))
        # How many are in a group, bear a relation or are named by an expression shows only later.
        if not {"groups", "relations", "who"}.intersection(step) and named < step.get("quorum", 1):
            self.report("the step names fewer deciders than its quorum", *path, "quorum")

    def _check_timing(self, step: Mapping[str, Any], path: Path) -> None:
        escalate: Mapping[str, Any] = step.get("escalate", {})
        deadline, then = step.get("deadline_seconds"), step.get("on_deadline")
        if then is not None and deadline is None:
            self.report("there is no deadline_seconds", *path, "on_deadline")
        if then == "escalate" and not escalate:
            self.report("escalate says to whom", *path, "on_deadline")
        if escalate and "after_seconds" not in escalate and then != "escalate":
            self.report("after_seconds says when", *path, "escalate")
        early = [*step.get("remind_seconds", []), escalate.get("after_seconds", 0)]
        if deadline is not None and then != "escalate" and max(early) >= deadline:
            self.report("the step is over before it reminds or escalates", *path, "deadline_seconds")


def _timing(step: Mapping[str, Any]) -> Timing:
    to = step.get("escalate")
    return Timing(
        remind_seconds=tuple(sorted(step.get("remind_seconds", []))),
        escalate=None
        if to is None
        else Escalation(to.get("after_seconds"), frozenset(to.get("groups", [])), frozenset(to.get("people", []))),
        deadline_seconds=step.get("deadline_seconds"),
        on_deadline=step.get("on_deadline", "expire"),
    )


def _check_order(steps: Sequence[Mapping[str, Any]], report: Report, path: Path) -> None:
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

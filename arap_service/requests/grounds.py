"""On what grounds somebody may decide: the rules in force at this moment, and what the request says.

A request keeps the steps that it was made with; whom their relations and expressions mean is judged anew each time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from arap_service.context import Context
from arap_service.domain.policy import Policy, Question, is_named_by
from arap_service.domain.reviewers import Person
from arap_service.protocol.canonical import TOOL_CALL
from arap_service.protocol.sealing import KeyRing
from arap_service.records import Part, asked_of, task_seal, tuple_of


@dataclass(frozen=True, slots=True)
class Grounds:
    """The rules in force, what opens a request, and the moment."""

    policy: Policy
    ring: KeyRing
    now: datetime

    def bonds_of(self, names: frozenset[str]) -> frozenset[str]:
        """What the entities say about whoever bears these names."""
        appointing = self.policy.appointing
        return frozenset() if appointing is None else appointing.borne_by(names)

    def names(self, who: str, part: Part, person: Person) -> bool:
        """Whether the expression `who` of a step names the person; no machine is named by one."""
        if person.client_id is not None or person.is_by_groups_only or self.policy.appointing is None:
            return False
        key = (part.task.id, part.item, person.id, person.groups, person.identities)
        known = self.policy.appointing.remembers(who, key=key)  # without opening what is sealed
        return (
            known if known is not None else is_named_by(self.policy, who, self._asked(part), told_of(person), key=key)
        )

    def _asked(self, part: Part) -> Question:
        seal = task_seal(part.task, self.ring)
        about, call = tuple_of(part, seal), asked_of(part, seal).get("tool_call")
        context = about.context if call is None else {**about.context, TOOL_CALL: call}
        return Question(about.subject, about.resource, about.action, context, part.task.client_id)


def grounds_of(ctx: Context) -> Grounds:
    """The grounds at this moment."""
    return Grounds(ctx.policy.current(), ctx.ring, ctx.clock())


def told_of(person: Person) -> Mapping[str, Any]:
    """What expressions over people are told of one."""
    return {"id": person.id, "groups": sorted(person.groups), "identities": sorted(person.identities)}

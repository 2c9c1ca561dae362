"""Makes a check of a function."""

from collections.abc import Awaitable, Callable
from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.trial import Trial

PROFILE: Final = "Access Request and Approval Profile"


def rule(
    id: str,  # noqa: A002 - it is called so everywhere
    group: str,
    sentence: str,
    *,
    requirements: tuple[str, ...],
    level: Level = Level.MUST,
    source: str = PROFILE,
    questions: tuple[str, ...] = ("requestable",),
    verbs: tuple[str, ...] = (),
    tokens: tuple[str, ...] = (),
    profiles: tuple[str, ...] = (),
) -> Callable[[Callable[[Trial], Awaitable[None]]], Check]:
    """`questions`, `verbs` and `tokens` are what the control file must have, `profiles` what the service must offer."""

    def made(function: Callable[[Trial], Awaitable[None]]) -> Check:
        return Check(
            f"arap-{id}", group, level, function, sentence, source, requirements, questions, verbs, tokens, profiles
        )

    return made

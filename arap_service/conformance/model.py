"""What a check is."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How binding the sentence is."""

    MUST = "MUST"
    SHOULD = "SHOULD"


class NotRun(Exception):
    """The check could not be brought to the point where the rule shows; the text says what stood in its way."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to find out, the sentence that it is about, and what the control file must offer for it."""

    id: str
    group: str
    level: Level
    run: Callable[[Any], Awaitable[None]]
    sentence: str
    source: str
    requirements: tuple[str, ...] = ()
    questions: tuple[str, ...] = ("requestable",)
    verbs: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()

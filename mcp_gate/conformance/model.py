"""What a check of this suite needs; the rest of what a check is stands in `blackbox_kit.model`."""

from dataclasses import dataclass

from blackbox_kit.model import (
    Check as AnyCheck,
)
from blackbox_kit.model import (
    Exchange,
    Json,
    Level,
    NotApplicable,
    NotKept,
    NotRun,
    Outcome,
    Report,
    Rule,
    Verdict,
)

__all__ = [
    "Check",
    "Exchange",
    "Json",
    "Level",
    "NotApplicable",
    "NotKept",
    "NotRun",
    "Outcome",
    "Report",
    "Rule",
    "Verdict",
]


@dataclass(frozen=True, slots=True)
class Check(AnyCheck):
    """One thing to find out. `verbs` and `calls` are what the control file must offer for it."""

    verbs: tuple[str, ...] = ()
    calls: tuple[str, ...] = ("gated",)
    of_client: bool = False
    always: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """A client, or calls and verbs."""
        return ("--client",) if self.of_client else (*(f"call {name}" for name in self.calls), *self.verbs)

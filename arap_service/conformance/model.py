"""What a check of this suite needs; the rest of what a check is stands in `blackbox_kit.model`."""

from dataclasses import dataclass

from blackbox_kit.model import Check as AnyCheck
from blackbox_kit.model import Level

__all__ = ["Check", "Level"]


@dataclass(frozen=True, slots=True)
class Check(AnyCheck):
    """One thing to find out, the sentence that it is about, and what must be there for it."""

    sentence: str = ""
    source: str = ""
    requirements: tuple[str, ...] = ()
    questions: tuple[str, ...] = ("requestable",)
    verbs: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Profiles of the service; questions, verbs and tokens of the control file."""
        return (
            *(f"profile {name}" for name in self.profiles),
            *(f"question {name}" for name in self.questions if name != "requestable"),
            *self.verbs,
            *(f"token {name}" for name in self.tokens),
        )

"""The control file: which calls to make, and how the deployment under test is told to approve, deny, restart and so on.

Everything that a deployment supplies. A verb is a command, run without a shell, or a URL to post to; `{marker}`,
`{task}` and `{tool}` in either stand for the call that is meant. docs/conformance.md.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from pydantic import Field, field_validator, model_validator

from blackbox_kit.hands import ControlInvalid, Deputy, Part, Secret, Times, Verb, filled, read_model
from blackbox_kit.model import Json

__all__ = ["CALLS", "VERBS", "Control", "ControlInvalid", "Hands", "Secret", "Times", "Verb", "read_control"]

VERBS: Final[Mapping[str, str]] = {
    "approve": "approve the pending call; whatever was decided before stays decided",
    "deny": "deny the pending call",
    "expire": "let the time of the pending call run out now",
    "ask": "have the pending call ask its client for input; it goes on once that is given",
    "revoke": "from now on policy denies this call, whatever is approved",
    "fail": "have the approval backend fail for good before anything is decided",
    "restart": "kill the server and start it again; on stdio the suite does that itself",
    "count": "print how often the tool was carried out for this marker, as one number",
}
CALLS: Final[Mapping[str, str]] = {
    "gated": "somebody must approve it",
    "permitted": "runs at once",
    "denied": "is denied and cannot be requested",
    "failing": "must be approved, and its tool then reports an error",
    "lost": "must be approved, and what its tool did cannot be known, because no answer comes",
    "before": "must be approved, and asks for input before the request can be made",
    "changed_tool": "the gated call with another tool",
    "changed_arguments": "the gated call with other arguments",
    "changed_subject": "the gated call about another subject, the caller being the same",
    "changed_resource": "the gated call about another resource",
}


class Call(Part):
    """A call of a tool; `{marker}` in its arguments is new for each call, so that no call joins another's task."""

    tool: str
    arguments: Json = Field(default_factory=dict)

    def marked(self, marker: str) -> Json:
        """The arguments with the marker in its places."""
        found = filled(self.arguments, {"marker": marker})
        return dict(found) if isinstance(found, Mapping) else {}


class Tokens(Part):
    """Bearer tokens: of the caller, and of another principal who must not see the caller's tasks."""

    first: Secret | None = None
    second: Secret | None = None


class Hidden(Part):
    """Texts that must never reach a client: of the backend's, and who decides."""

    artifacts: tuple[str, ...] = ()
    people: tuple[str, ...] = ()


class Phrases(Part):
    """Regular expressions that tell what a result's text states; English by default."""

    ran: str = r"\b(ran|run|executed|invoked|carried out|performed|completed|succeeded)\b"
    not_run: str = (
        r"(\bnot|\bnever|n['’]t)(,?\s+(yet|ever|be|been|being|and|will|would|was|has|have|not))*,?\s+"
        r"(run|ran|executed?|invoked?|carried out|performed?|called)\b"
        r"|\bnothing (was|has been) (run|executed|carried out)\b|without (running|executing)|no side effect"
    )
    unknown: str = (
        r"\b(may|might|could) (have|or may not have)|\bunknown\b|(cannot|could not|not) be (determined|known)"
    )

    @field_validator("*")
    @classmethod
    def _readable(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error:
            raise ValueError("is no regular expression") from None
        return pattern


class Control(Part):
    """A control file as a whole."""

    calls: dict[str, Call] = Field(default_factory=dict)
    verbs: dict[str, Verb] = Field(default_factory=dict)
    tokens: Tokens = Tokens()
    answers: Json = Field(default_factory=dict)
    hidden: Hidden = Hidden()
    phrases: Phrases = Phrases()
    seconds: Times = Times()

    @model_validator(mode="after")
    def _known(self) -> Self:
        for what, given, known in (("verb", self.verbs, VERBS), ("call", self.calls, CALLS)):
            for name in given:
                if name not in known:
                    raise ValueError(f"there is no {what} {name}; there are {', '.join(known)}")
        return self


def read_control(path: Path) -> Control:
    """The control file at `path`.

    Raises:
        ControlInvalid: It cannot be read, or says something that it cannot.
    """
    return read_model(path, Control)


class Hands(Deputy[Control]):
    """The hands of a deployment of a gate."""

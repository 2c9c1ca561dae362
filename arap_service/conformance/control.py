"""The control file: which questions to ask, and how the deployment under test is told to approve, deny and so on.

Everything that a deployment supplies. In questions `{marker}` is new for each request; in verbs `{task}`, `{marker}`
and `{item}` stand for what is meant. docs/conformance.md.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from blackbox_kit.hands import ControlInvalid, Deputy, Part, Secret, Times, Verb, filled, read_model
from blackbox_kit.model import Json

__all__ = ["PROFILES", "QUESTIONS", "ROLES", "VERBS", "Control", "ControlInvalid", "Hands", "Secret", "read_control"]

VERBS: Final[Mapping[str, str]] = {
    "approve": "approve the task; of several items all",
    "deny": "deny the task",
    "expire": "let the time of the pending task run out now",
    "ask": "have a reviewer ask the requester something",
    "approve_briefly": "approve the task for so short a time that it is over within seconds.end",
    "approve_wider": "approve more than was asked for: the question `within` too, the question `beyond` not",
    "approve_item": "approve the item number {item} of the task, counted from 0",
    "deny_item": "deny the item number {item} of the task",
    "revoke": "take the approval of the task back",
    "forbid": "from now on policy denies what the task is about, whatever is approved",
    "expire_denial": "let the time of the denials that were given so far run out now",
}
QUESTIONS: Final[Mapping[str, str]] = {
    "requestable": "is denied, and somebody can approve it",
    "permitted": "is permitted",
    "denied": "is denied, and nothing can be requested",
    "automatic": "is denied, and approved as soon as it is requested",
    "with_context": "is requestable, and has a member of the context that is bound",
    "with_number": "is requestable, and has a number in a place that is bound",
    "form": "is requestable, and needs input",
    "catalog": "is requestable, and its input has values of a catalog",
    "other_subject": "is requestable, and differs from `requestable` in its subject alone",
    "other_resource": "is requestable, and differs from `requestable` in its resource alone",
    "other_action": "is requestable, and differs from `requestable` in its action alone",
    "within": "is what approve_wider reaches beside `requestable`",
    "beyond": "is what approve_wider does not reach",
}
ROLES: Final[Mapping[str, str]] = {
    "pep": "an enforcement point with every right on its own requests",
    "again": "another token of the same enforcement point",
    "second": "another enforcement point with the same rights on its own requests, and none of the first one's tasks",
    "reader": "whoever may see the status of the first one's tasks, and nothing more",
}
PROFILES: Final[Mapping[str, str]] = {
    "token": "denials are bound by a token",
    "id": "denials are bound by the evaluation id alone",
    "state": "approvals carry a signed state",
    "cancellation": "the enforcement point can cancel",
    "callbacks": "callbacks",
    "bulk": "several items in one request",
    "forms": "schemas of what has to be added",
    "catalogs": "catalogs",
}


class Input(Part):
    """What a requester adds to the question."""

    context: Json = Field(default_factory=dict)
    requested_access: Json = Field(default_factory=dict)


class Question(Part):
    """A question for the decision point, and what a request about it needs besides."""

    subject: Json
    action: Json
    resource: Json
    context: Json = Field(default_factory=dict)
    input: Input = Input()

    @model_validator(mode="after")
    def _json(self) -> Self:
        try:
            json.dumps(self.model_dump(), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ValueError("has what is no JSON, such as a date without quotes") from None
        return self

    def asked(self, marker: str) -> Json:
        """The question on the wire."""
        whole = {"subject": self.subject, "action": self.action, "resource": self.resource, "context": self.context}
        found: Json = filled({name: value for name, value in whole.items() if value}, {"marker": marker})
        return found

    def added(self, marker: str) -> Input:
        """The input of a request."""
        return Input.model_validate(filled(self.input.model_dump(), {"marker": marker}))


class Hmac(Part):
    """A signature over the body in a header, hexadecimal after an optional prefix."""

    header: str
    secret: Secret
    prefix: str = ""


class Callbacks(Part):
    """Where the suite listens, where the service is to call it, and how the service shows who it is."""

    listen: Annotated[str, Field(pattern=r"^[0-9.]+:\d+$")]
    endpoint: str
    certificate: Path | None = None
    key: Path | None = None
    bearer: Secret | None = None
    hmac: Hmac | None = None
    standard_webhooks: Secret | None = None
    unregistered: str = "https://callbacks.example.com/never-registered"
    inside: tuple[str, ...] = ("https://127.0.0.1:1/inside", "https://169.254.169.254/latest", "https://10.0.0.1/x")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(one is not None for one in (self.bearer, self.hmac, self.standard_webhooks)) != 1:
            raise ValueError("needs exactly one of bearer, hmac and standard_webhooks")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("needs certificate and key, or neither")
        return self


class Hidden(Part):
    """Texts that must reach no enforcement point: who decides, and what its caller may not choose in a catalog."""

    people: tuple[str, ...] = ()
    catalog: tuple[str, ...] = ()


class Control(Part):
    """A control file as a whole."""

    tokens: dict[str, Secret] = Field(default_factory=dict)
    questions: dict[str, Question] = Field(default_factory=dict)
    verbs: dict[str, Verb] = Field(default_factory=dict)
    callbacks: Callbacks | None = None
    profiles: tuple[str, ...] | None = None
    hidden: Hidden = Hidden()
    seconds: Times = Times()

    @model_validator(mode="after")
    def _known(self) -> Self:
        for what, given, known in (
            ("token", self.tokens, ROLES),
            ("question", self.questions, QUESTIONS),
            ("verb", self.verbs, VERBS),
            ("profile", self.profiles or (), PROFILES),
        ):
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
    """The hands of a deployment of an access request service."""

    @property
    def folder(self) -> Path:
        """Where the control file lies."""
        return self._folder

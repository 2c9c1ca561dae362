"""What an operator configures of the local backend: rules about tools, and who may approve.

Checked by itself here; which tools exist is not known. Design section 8, `local`.
"""

from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mcp_gate.values import Name, Seconds, Section


class LocalApprover(Section):
    """Somebody who may decide: the SHA-256 of a random secret, and the other names that he goes by.

    `identities` are subjects, clients and agents that are this person too: he never decides what one of them asked.
    """

    secret_hash: Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
    identities: tuple[Name, ...] = ()


class LocalRule(Section):
    """What is decided about tools, or about other methods, whose name fits a pattern with `*`, `?` and `[…]`."""

    tools: tuple[Name, ...] = ()
    methods: tuple[Name, ...] = ()
    decision: Literal["permit", "deny", "request"]
    approvers: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.tools) == bool(self.methods):
            raise ValueError("needs either tools or methods")
        if (self.decision == "request") != bool(self.approvers):
            raise ValueError("needs approvers if, and only if, the decision is request")
        if self.methods and self.decision == "request":
            raise ValueError("only calls of tools can be requested; permit or deny a method")
        return self

    def covers(self, tool: str | None, method: str) -> bool:
        """Whether the rule is about the call of `tool`, or about `method` when no tool is called."""
        name, patterns = (method, self.methods) if tool is None else (tool, self.tools)
        return any(fnmatchcase(name, pattern) for pattern in patterns)


class Local(Section):
    """Approvals that are kept in the gate's own database and decided on the command line.

    The first rule that matches decides, and no match denies. Times are in seconds: how long a request waits, how long
    an approval may be used, how long both are remembered.
    """

    rules: tuple[LocalRule, ...]
    approvers: dict[Name, LocalApprover] = Field(default_factory=dict)
    pending_seconds: Seconds = 86_400
    approval_seconds: Seconds = 900
    retention_seconds: Seconds = 2_592_000

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        unknown = {name for rule in self.rules for name in rule.approvers} - self.approvers.keys()
        if unknown:
            raise ValueError(f"rules name approvers that are not under approvers: {', '.join(sorted(unknown))}")
        if self.retention_seconds < self.pending_seconds + self.approval_seconds:
            raise ValueError("retention_seconds must be at least pending_seconds and approval_seconds together")
        return self

    def rule_for(self, tool: str | None, method: str) -> LocalRule | None:
        """The rule that decides; None denies."""
        return next((rule for rule in self.rules if rule.covers(tool, method)), None)

"""What holds of a question before any approval: the rules, and the decision point upstream where there is one.

Puts the rules of `domain/policy.py` and the answer that `upstream.py` gets together by `domain/upstream.py`. Where the
rules were made for standing behind another decision point and none is configured, everything is denied.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from arap_service.context import Context
from arap_service.domain.policy import Convertible, Deny, Judgement, Policy, Question, judge
from arap_service.domain.upstream import UNAVAILABLE, Answer, Refused, Silent, combine, is_code, is_mandatory, passed_on
from arap_service.protocol.canonical import Tuple4

_NOTHING_CONVERTIBLE: Final = Convertible()


@dataclass(frozen=True, slots=True)
class Standing:
    """The judgement in force, and the answer from upstream that it rests on, if one was sought."""

    judgement: Judgement
    theirs: Answer | None = None

    @property
    def is_unanswered(self) -> bool:
        """Whether a later question may find what this one could not."""
        return isinstance(self.theirs, Silent)

    @property
    def shown(self) -> Mapping[str, Any]:
        """What of the answer goes to the caller with the decision."""
        return passed_on(self.theirs, self.judgement)

    @property
    def said(self) -> str | None:
        """What upstream said in one word, for the audit; None where it was not asked."""
        match self.theirs:
            case None:
                return None
            case Refused(reason=reason):
                # Whatever else it is, it is no code: text of any length, which an audit log would keep for good.
                return f"denied: {reason}" if is_code(reason) else "denied"
            case Silent(code=code):
                return f"silent: {code}"
            case _:
                return "permitted"


async def stand(ctx: Context, policy: Policy, question: Question, *, deadline: float | None = None) -> Standing:
    """The standing of `question`; upstream is asked until `deadline` on the clock of the event loop at most."""
    ours = judge(policy, question)
    if ctx.upstream is None:
        return Standing(ours) if policy.upstream is None else Standing(Deny(None, UNAVAILABLE))
    if is_mandatory(ours):
        return Standing(ours)
    about = Tuple4(question.subject, question.resource, question.action, question.context)
    theirs = await ctx.upstream.ask(about, deadline=deadline)
    if isinstance(theirs, Silent):
        ctx.log.warning("upstream_unavailable", code=theirs.code, client_id=question.client_id)
    return Standing(combine(policy.upstream or _NOTHING_CONVERTIBLE, ours, theirs), theirs)

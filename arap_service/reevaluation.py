"""Use case: answer an evaluation that presents an approval.

What the approval is worth is decided in `domain/reevaluation.py`; here its record and its signed state are fetched and
proven first. When it is one of ours, the outcome goes into that request's audit chain in the transaction that read the
record, so that no revocation slips in between. Nothing is consumed (PDP-07). Access Request and Approval Profile,
"Verify the Approval", "Deny a Re-evaluation".
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from arap_service import audit
from arap_service.context import Context
from arap_service.denials import Offer, issue_offer, plain_denial, prepare_offer, record_offer
from arap_service.domain.binding import Claims, claims_from
from arap_service.domain.callers import Caller
from arap_service.domain.errors import InvalidDenialBinding
from arap_service.domain.policy import Policy, Question, Requestable, is_provisioned, is_within
from arap_service.domain.reevaluation import (
    ApprovalRecord,
    Invalid,
    PresentedApproval,
    Reason,
    Verdict,
    judge_approval,
    present,
)
from arap_service.domain.upstream import RETRY_SECONDS, UNAVAILABLE
from arap_service.keys import APPROVAL_TYP, TokenInvalid
from arap_service.protocol.arap import format_instant
from arap_service.protocol.canonical import Tuple4
from arap_service.protocol.sealing import SealBroken
from arap_service.records import Part, approval_record
from arap_service.requests.reviews import note_use
from arap_service.standing import Standing, stand
from arap_service.store.database import WriteSession
from arap_service.store.items import find_item
from arap_service.store.votes import find_approval


async def reevaluate(
    ctx: Context, caller: Caller, policy: Policy, *, about: Tuple4, deadline: float | None = None
) -> dict[str, Any]:
    """The AuthZEN response to an evaluation whose context has an `approval`, of whatever shape.

    Upstream is asked without the approval, and its answer is not awaited beyond `deadline`.
    """
    approval = present(about.context["approval"])
    plain = about._replace(context={name: value for name, value in about.context.items() if name != "approval"})
    question = Question(*plain, caller.client_id)
    case = _Case(
        ctx=ctx,
        caller=caller,
        policy=policy,
        about=plain,
        question=question,
        approval=approval,
        state=await _state(ctx, approval),
        standing=await stand(ctx, policy, question, deadline=deadline),
    )
    if approval is not None and not ctx.settings.independent:
        if ctx.rehearsal is not None:
            await ctx.rehearsal.before_reevaluation(approval.id)
        known = await ctx.database.read(lambda session: find_approval(session, approval.id))
        if known is not None:
            return await ctx.database.write(lambda session: case.decide_on_record(session, approval.id))
    return await case.decide_without_record()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One re-evaluation: the question without its approval, what was presented, and what the rules say now."""

    ctx: Context
    caller: Caller
    policy: Policy
    about: Tuple4
    question: Question
    approval: PresentedApproval | None
    state: Claims | Invalid | None
    standing: Standing

    async def decide_without_record(self) -> dict[str, Any]:
        """Judge by the signed state alone, or find that there is nothing to go by."""
        verdict = self._verdict(None)
        offer = None
        if verdict.next_action == "request" and isinstance(self.standing.judgement, Requestable):
            offer = await issue_offer(
                self.ctx,
                self.caller,
                self.policy,
                about=self.about,
                requestable=self.standing.judgement,
                reason=verdict.finding,
            )
        return self._response(verdict, offer)

    def decide_on_record(self, session: WriteSession, approval_id: str) -> dict[str, Any]:
        """Judge by the record as it is now, and leave an entry in the request's audit chain (PDP-78)."""
        found = self._record(session, approval_id)
        record = None if found is None else found[0]
        verdict = self._verdict(record)
        if self.ctx.rehearsal is not None and record is not None and verdict.decision:
            verdict = self.ctx.rehearsal.reconsider(verdict, record)
        offer = None
        if verdict.next_action == "request" and isinstance(self.standing.judgement, Requestable):
            offer = prepare_offer(
                self.ctx,
                self.caller,
                self.policy,
                about=self.about,
                requestable=self.standing.judgement,
                reason=verdict.finding,
            )
        if offer is not None:
            record_offer(session, offer)
        response = self._response(verdict, offer)
        if record is not None:
            self._audit(session, record, verdict, str(response["context"]["evaluation_id"]))
        if found is not None and verdict.decision and verdict.approval_id is not None:
            note_use(self.ctx, session, found[1], approval_id, now=self.ctx.clock())
        return response

    def _record(self, session: WriteSession, approval_id: str) -> tuple[ApprovalRecord, Part] | None:
        # PDP-65: a revocation comes wholly before or wholly after, in the audit chain as well.
        found = find_approval(session, approval_id, for_update=True)
        if found is None:
            return None
        approval, task = found
        row = find_item(session, task.id, approval.item) if approval.item else None
        part = Part(task, row)
        try:
            return approval_record(approval, part, self.ctx.ring), part
        except SealBroken:
            self.ctx.log.warning("approval_record_broken", approval_id=approval_id)
            return None

    def _verdict(self, record: ApprovalRecord | None) -> Verdict:
        settings, state = self.ctx.settings, self.state
        is_own = isinstance(state, Claims) and state.issuer == settings.access_request_endpoint
        if record is None and is_own and not settings.independent:
            state = Invalid("unrecorded")  # PDP-65: signed by us, yet nobody can tell whether it still stands
        provisioned = None
        if isinstance(self.standing.judgement, Requestable):
            provisioned = is_provisioned(self.policy, self.standing.judgement.template, self.question)
        return judge_approval(
            self.question,
            self.approval,
            record=record,
            state=state,
            standing=self.standing.judgement,
            provisioned=provisioned,
            now=self.ctx.clock(),
            signed_only_seconds=settings.limits.signed_approval_seconds,
            is_within=lambda bound: is_within(self.policy, bound, self.question),
        )

    def _response(self, verdict: Verdict, offer: Offer | None) -> dict[str, Any]:
        if verdict.decision:
            context: dict[str, Any] = {
                **self.standing.shown,
                "evaluation_id": self.ctx.keys.mint_evaluation_id("permit"),
            }
            if verdict.approval_id is not None and verdict.approved_until is not None:
                until = format_instant(verdict.approved_until)
                context["approval"] = {"id": verdict.approval_id, "approved_until": until}  # PDP-75
            return {"decision": True, "context": context}
        if offer is not None:
            return {"decision": False, "context": {**offer.context, "next_action": "request"}}
        if self.standing.is_unanswered and verdict.reason is Reason.POLICY_DENIED:
            # The approval is good; only whether it is needed, or enough, cannot be known now.
            return plain_denial(self.ctx, UNAVAILABLE, next_action="retry", retry_after=RETRY_SECONDS)
        # PDP-72: a request without an offer is none.
        action = "none" if verdict.next_action == "request" else verdict.next_action
        waiting = {} if verdict.retry_after is None else {"retry_after": verdict.retry_after}
        return plain_denial(self.ctx, verdict.finding, next_action=action, **waiting)

    def _audit(self, session: WriteSession, record: ApprovalRecord, verdict: Verdict, evaluation_id: str) -> None:
        said = self.standing.said
        audit.append(
            session,
            record.task_id,
            kind="reevaluated",
            actor=self.caller.principal,
            detail={
                "approval_id": record.id,
                "approval_status": str(record.status),
                "client_id": self.caller.client_id,
                "decision": verdict.decision,
                "evaluation_id": evaluation_id,
                "finding": verdict.finding,
                "policy_version": self.policy.version,
                **({} if said is None else {"upstream": said}),
            },
            now=self.ctx.clock(),
            evaluation_id=record.evaluation_id,
        )
        self.ctx.log.info(
            "reevaluated",
            approval_id=record.id,
            client_id=self.caller.client_id,
            decision=verdict.decision,
            evaluation_id=evaluation_id,
            finding=verdict.finding,
            task_id=record.task_id,
        )


async def _state(ctx: Context, approval: PresentedApproval | None) -> Claims | Invalid | None:
    if approval is None or approval.state is None:
        return None
    await ctx.trust.approval.prepare(approval.state)
    try:
        payload = ctx.keys.verify(approval.state, typ=APPROVAL_TYP, issuers=ctx.trust.approval)
        claims = claims_from(payload, token_id=approval.id)
    except TokenInvalid as error:
        return Invalid(error.code)
    except InvalidDenialBinding:
        return Invalid("claims")
    audience = payload.get("aud")
    if ctx.settings.identifier not in (audience if isinstance(audience, list) else [audience]):  # PDP-68
        return Invalid("aud")
    if claims.issued_at is not None and claims.issued_at > ctx.clock() + timedelta(
        seconds=ctx.settings.clock_skew_seconds
    ):
        return Invalid("iat")
    return claims

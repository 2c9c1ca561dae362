"""Services with one fault each: what an approval permits, and what is left of one that was taken back."""

from datetime import datetime
from typing import Any, ClassVar

from tests.arap_conformance.broken import Broken
from tests.arap_conformance.plain_decisions import STATE, text
from tests.arap_conformance.signatures import Json, Unreadable, opened, plain


class SpendsApprovals(Broken):
    found_by = "approval-permits"

    def permitted(self, approval: Json) -> Json:
        if approval.get("spent"):
            return {"decision": False, "context": {"reason": "approval_expired", "next_action": "none"}}
        approval["spent"] = not approval.get("wide")
        return super().permitted(approval)


class PermitsWithoutEnd(Broken):
    found_by = "permit-says-how-long"

    def permitted(self, approval: Json) -> Json:
        return {"decision": True}


class Lax(Broken):
    """An approval permits a question that differs in one part."""

    ignored: ClassVar[str] = ""
    in_batch = False

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        other = self.differing(asked, record["question"], record["members"])
        is_plain = not record["bulk"] and not record.get("wide") and not self.in_batch
        return super().is_in_scope(record, asked) or (is_plain and other == {self.ignored})

    def evaluate_many(self, asked: Json, client: str) -> Json:
        self.in_batch = True
        try:
            return super().evaluate_many(asked, client)
        finally:
            self.in_batch = False


class ApprovesForAnySubject(Lax):
    found_by, ignored = "approval-of-another-subject", "subject"


class ApprovesForAnyResource(Lax):
    found_by, ignored = "approval-of-another-resource", "resource"
    hinders = frozenset({"denial-says-what-next", "request-comes-with-an-offer"})


class ApprovesForAnyAction(Lax):
    found_by, ignored = "approval-of-another-action", "action"


class ApprovesInAnyContext(Lax):
    found_by, ignored = "approval-in-another-context", "context"


class ApprovesForAnyCaller(Broken):
    found_by = "approval-of-another-caller"

    def is_foreign(self, record: Json, client: str) -> bool:
        return False


class TakesAnyId(Broken):
    found_by = "unknown-approval"

    def decide(self, asked: Json, client: str) -> Json:
        given = asked.get("context", {}).get("approval")
        known = not isinstance(given, dict) or given.get("id") in self.approvals or len(str(given.get("id"))) < 8
        if known or "state" in given or self.rule(asked) == "deny":
            return super().decide(asked, client)
        return {"decision": True}


class BreaksOnBadApprovals(Broken):
    found_by = "malformed-approval"

    def decide(self, asked: Json, client: str) -> Json:
        given = asked.get("context", {}).get("approval", {})
        if not isinstance(given, dict):
            raise text(400, "That is no approval.")
        return super().decide(asked, client)


class TakesAnothersState(Broken):
    found_by = "swapped-id"

    def reference_denied(self, asked: Json, given: Any, client: str) -> Json | None:
        try:
            claims = opened(given["state"], signer=self.signers["ars"], typ=STATE)
        except (Unreadable, KeyError, TypeError):
            return super().reference_denied(asked, given, client)
        return super().reference_denied(asked, {**given, "id": claims["approval_id"]}, client)


class LooksAtNoState(Broken):
    found_by = "forged-state"

    def state_wrong(self, given: Json) -> str | None:
        wrong = super().state_wrong(given)
        return None if wrong == "signature" and given["id"] in self.approvals else wrong


class BelievesTheCaller(Broken):
    found_by = "expired-approval"

    def ends(self, record: Json, given: Json) -> datetime:
        return self.moment(given.get("approved_until"))


class OverridesPolicy(Broken):
    found_by = "policy-outranks-approval"

    def rule(self, asked: Json) -> str:
        found = super().rule(asked)
        return "request" if plain(self.question(asked)) in self.forbidden else found


class SaysNothingOfWhatNext(Broken):
    found_by = "denial-says-what-next"

    def decide(self, asked: Json, client: str) -> Json:
        found = super().decide(asked, client)
        if "next_action" in found.get("context", {}):
            del found["context"]["next_action"]
        return found


class InvitesWithoutAnOffer(Broken):
    found_by = "request-comes-with-an-offer"

    def decide(self, asked: Json, client: str) -> Json:
        found = super().decide(asked, client)
        if found.get("context", {}).get("next_action") == "request":
            del found["context"]["access_request"]
        return found


class InvitesWithAnEmptyOffer(Broken):
    found_by = "request-comes-with-an-offer"

    def decide(self, asked: Json, client: str) -> Json:
        found = super().decide(asked, client)
        if found.get("context", {}).get("next_action") == "request":
            found["context"]["access_request"] = {}
        return found


class ApprovesWholeBatches(Lax):
    found_by = "batch-is-judged-one-by-one"

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        return self.in_batch or super().is_in_scope(record, asked)


class ApprovesWithoutLimits(Broken):
    found_by = "wider-approval-reaches-as-far"

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        return bool(record.get("wide")) or super().is_in_scope(record, asked)


class ForgetsRevocations(Broken):
    found_by = "revoked-permits-nothing"

    def is_revoked(self, record: Json) -> bool:
        return False


class CancelsWhatItRevokes(Broken):
    found_by = "revoked-stays-approved"

    def revoke(self, task: Json, part: Json) -> None:
        super().revoke(task, part)
        part["status"] = "cancelled"
        self.settle(task)

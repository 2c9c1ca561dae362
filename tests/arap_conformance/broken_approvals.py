"""Services with one fault each: what an approval permits, and what is left of one that was taken back."""

import json
from datetime import datetime
from typing import Any, ClassVar

from tests.arap_conformance.broken import Broken
from tests.arap_conformance.plain_decisions import STATE, text
from tests.arap_conformance.signatures import Json, Unreadable, decoded, opened, plain


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
        return self.moment(given["approved_until"]) if "approved_until" in given else super().ends(record, given)


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


class ById(Broken):
    """The id of an approval alone, without its state, is believed in some way."""

    def reference_denied(self, asked: Json, given: Any, client: str) -> Json | None:
        if isinstance(given, dict) and "state" not in given and given.get("id") in self.approvals:
            return self.denied_by_id(asked, self.approvals[given["id"]], given, client)
        return super().reference_denied(asked, given, client)

    def denied_by_id(self, asked: Json, record: Json, given: Json, client: str) -> Json | None:
        """Why it does not count."""
        return super().reference_denied(asked, given, client)


class ByIdForAny(ById):
    """By the id alone, one part of the question does not matter."""

    found_by = "approval-of-another-subject"
    ignored: ClassVar[str] = "subject"

    def denied_by_id(self, asked: Json, record: Json, given: Json, client: str) -> Json | None:
        if self.differing(asked, record["question"], record["members"]) == {self.ignored} and not record.get("wide"):
            return None
        return super().denied_by_id(asked, record, given, client)


class ByIdForAnyResource(ByIdForAny):
    found_by, ignored = "approval-of-another-resource", "resource"


class ByIdForAnyAction(ByIdForAny):
    found_by, ignored = "approval-of-another-action", "action"


class ByIdInAnyContext(ByIdForAny):
    found_by, ignored = "approval-in-another-context", "context"


class ByIdForAnyCaller(ById):
    found_by = "approval-of-another-caller"

    def denied_by_id(self, asked: Json, record: Json, given: Json, client: str) -> Json | None:
        return super().denied_by_id(asked, record, given, record["client"])


class ByIdForEver(ById):
    found_by = "expired-approval"

    def denied_by_id(self, asked: Json, record: Json, given: Json, client: str) -> Json | None:
        found = super().denied_by_id(asked, record, given, client)
        return None if found and found["reason"] == "approval_expired" and not record.get("revoked") else found


class ByIdInSpiteOfRevocation(ById):
    found_by = "revoked-permits-nothing"

    def denied_by_id(self, asked: Json, record: Json, given: Json, client: str) -> Json | None:
        return super().denied_by_id(asked, record, given, client) if not record.get("revoked") else None


class BelievesUnsignedStates(Broken):
    """An approval that nobody gave, in a state that nobody signed."""

    found_by = "forged-state"
    algorithm: ClassVar[str] = "none"

    def reference_denied(self, asked: Json, given: Any, client: str) -> Json | None:
        if self.is_believed(given):
            return None
        return super().reference_denied(asked, given, client)

    def is_believed(self, given: Any) -> bool:
        state = given.get("state") if isinstance(given, dict) else None
        if not isinstance(state, str) or given["id"] in self.approvals:
            return False
        return bool(json.loads(decoded(state.partition(".")[0]))["alg"] == self.algorithm)

    def proved(self, given: Json) -> Json:
        if not self.is_believed(given):
            return super().proved(given)
        return {"id": given["id"], "until": self.now()}


class BelievesStatesOfAnyKey(BelievesUnsignedStates):
    found_by, algorithm = "forged-state", "ES256"


class ApprovesForKnownOthers(Broken):
    """Policy knows some subjects and actions only, and an approval for one of them is good for any other."""

    found_by = "approval-of-another-subject"
    known: ClassVar[Json] = {"subject": ("ada@example.com", "bob@example.com"), "action": ("pay", "read")}
    ignored: ClassVar[str] = "subject"

    def rule(self, asked: Json) -> str:
        subject, action = asked["subject"]["id"], asked["action"]["name"]
        if subject not in self.known["subject"] or action not in self.known["action"]:
            return "deny"
        return super().rule(asked)

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        member = "id" if self.ignored == "subject" else "name"
        same = {**asked[self.ignored], member: record["question"][self.ignored][member]}
        return super().is_in_scope(record, {**asked, self.ignored: same})


class ApprovesForKnownActions(ApprovesForKnownOthers):
    found_by, ignored = "approval-of-another-action", "action"


class ApprovesUnderAnyType(Broken):
    found_by = "approval-of-another-resource"

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        same = {**asked["resource"], "type": record["question"]["resource"]["type"]}
        is_wide = bool(record.get("wide"))
        return super().is_in_scope(record, asked if is_wide else {**asked, "resource": same})


class ApprovesMoreOfTheSubject(Broken):
    found_by = "approval-of-another-subject"

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        was = record["question"]["subject"]
        same = {name: value for name, value in asked["subject"].items() if name in was}
        return super().is_in_scope(record, {**asked, "subject": same})


class NarrowsWiderApprovals(Broken):
    found_by = "wider-approval-reaches-as-far"

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        return super().is_in_scope({**record, "wide": False}, asked)


class OffersTheOldDenialAgain(Broken):
    found_by = "request-comes-with-an-offer"

    def __init__(self, base: str = "https://plain.example", **more: Any) -> None:
        super().__init__(base, **more)
        self.tokens: list[str] = []

    def decide(self, asked: Json, client: str) -> Json:
        found = super().decide(asked, client)
        if found.get("context", {}).get("next_action") == "request":
            given = asked["context"]["approval"]["id"]
            if given in self.approvals and not self.approvals[given].get("revoked"):
                found["context"]["access_request"]["binding_token"] = self.tokens[-2]
        return found

    def binding_token(self, evaluation_id: str, record: Json) -> str:
        self.tokens.append(super().binding_token(evaluation_id, record))
        return self.tokens[-1]


class WidensAwayWhatWasAsked(Broken):
    found_by = "wider-approval-reaches-as-far"

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        is_the_same = not self.differing(asked, record["question"], record["members"])
        return super().is_in_scope(record, asked) and not (record.get("wide") and is_the_same)

"""Services with one fault each: status, access, cancellation, callbacks, several items, catalogs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from tests.arap_conformance.broken import Broken
from tests.arap_conformance.plain_decisions import EVERYTHING, Answer, Refusal, instant
from tests.arap_conformance.signatures import Json
from tests.arap_conformance.subject import PROJECTS, problem

# ---- status ----


class ForgetsItsAddress(Broken):
    found_by = "pending-is-shown"

    def status(self, task_id: str, caller: Json) -> Answer:
        answer = super().status(task_id, caller)
        if answer.body["task"]["status"] == "pending" and "items" not in answer.body["task"]:
            del answer.body["task"]["status_endpoint"]
        return answer


class HasAModeOfItsOwn(Broken):
    found_by = "approved-has-its-result"

    def shown(self, task: Json, caller: Json) -> Json:
        found = super().shown(task, caller)
        if "result" in found:
            found["result"]["mode"] = "grant"
        return found


class ApprovesForEver(Broken):
    found_by = "approval-ends"
    also = frozenset({"permit-says-how-long"})  # which tells the same end

    def result(self, part: Json) -> Json:
        found = super().result(part)
        found["approval"]["approved_until"] = "for ever"
        return found

    def permitted(self, approval: Json) -> Json:
        found = super().permitted(approval)
        found["context"]["approval"]["approved_until"] = "for ever"
        return found


class CountsItsApprovals(Broken):
    found_by = "approval-ids-are-unguessable"

    def new_approval_id(self) -> str:
        return f"approval-{len(self.approvals) + 1:024d}"


class ApprovesWhatItDenied(Broken):
    found_by = "denied-is-no-approval"

    def shown(self, task: Json, caller: Json) -> Json:
        found = super().shown(task, caller)
        if task["status"] == "denied":
            found["result"] = {"mode": "reevaluate", "approval": {"id": "a-0", "approved_until": instant(self.now())}}
        return found


class CallsExpiryAFailure(Broken):
    found_by = "expired-is-said"
    hinders = frozenset({"expired-cannot-be-approved"})

    def decide_part(self, verb: str, task: Json, part: Json) -> None:
        super().decide_part(verb, task, part)
        if verb == "expire":
            part["status"] = "failed"


class ChangesItsMind(Broken):
    found_by = "an-end-is-an-end"

    def may_still(self, verb: str, task: Json, part: Json) -> bool:
        return part["status"] in {"pending", "approved", "denied"}


class EndsWithAQuestion(Broken):
    found_by = "a-question-is-no-end"

    def ask(self, task: Json) -> None:
        for part in task["parts"]:
            part["status"] = "failed"
        self.settle(task)


class HasAWordOfItsOwn(Broken):
    found_by = "unknown-task"

    def unknown(self, task: Json | None) -> Refusal:
        return problem("not-here", 404)


class SignsForNobody(Broken):
    found_by = "state-is-signed-for-the-pdp"

    def state_claims(self, approval: Json) -> Json:
        claims = super().state_claims(approval)
        del claims["aud"]
        return claims

    def is_for_us(self, claims: Json) -> bool:
        return bool(claims["iss"] == self.base + "/ars")


# ---- access ----


class ShowsTasksToNobody(Broken):
    found_by = "status-needs-authentication"

    def caller(self, headers: Json, operation: str) -> Json:
        if operation == "status" and "authorization" not in headers:
            return self.callers["token-1"] | {"token": ""}
        return super().caller(headers, operation)


class Open(Broken):
    """One operation forgets to ask whose task it is."""

    right: ClassVar[str]

    def is_his(self, task: Json, caller: Json, right: str) -> bool:
        return right == self.right or super().is_his(task, caller, right)


class ShowsTasksToAnybody(Open):
    found_by, right = "other-caller-cannot-read", "status"
    hinders = frozenset({"foreign-looks-unknown"})

    def is_his(self, task: Json, caller: Json, right: str) -> bool:
        return super().is_his(task, caller, right if task["status"] == "pending" else "nothing")


class CancelsForAnybody(Open):
    found_by, right = "other-caller-cannot-cancel", "cancel"


class TellsThatItIsThere(Broken):
    found_by = "foreign-looks-unknown"

    def unknown(self, task: Json | None) -> Refusal:
        return super().unknown(task) if task is None else problem("not-yours", 403)


class LetsReadersCancel(Broken):
    found_by = "reader-cannot-cancel"

    def allow(self, caller: Json, right: str) -> None:
        super().allow(caller, "status" if right == "cancel" else right)


class GivesReadersTheResult(Broken):
    found_by = "reader-gets-no-result"

    def own_result(self, part: Json, results: bool) -> Json:  # noqa: FBT001 - as it is there
        return super().own_result(part, True)


class HoldsTasksByTheToken(Broken):
    found_by = "new-token-keeps-the-task"

    def open(self, body: Json, caller: Json, bindings: Sequence[Json]) -> Json:
        task = super().open(body, caller, bindings)
        task["token"] = caller["token"]
        return task

    def is_his(self, task: Json, caller: Json, right: str) -> bool:
        own = caller["client"] == task["client"]
        return super().is_his(task, caller, right) and (not own or caller["token"] == task["token"])


class NamesItsApprovers(Broken):
    found_by = "approvers-are-not-shown"

    def handle(self, task: Json) -> Json:
        found = super().handle(task)
        return found | ({"display": {"title": "Approved by Carol"}} if task["status"] == "approved" else {})


# ---- cancellation ----


class CancelsWithoutAWord(Broken):
    found_by = "cancel-ends-the-task"

    async def cancel(self, task_id: str, caller: Json, body: Json | None) -> Answer:
        return replace(await super().cancel(task_id, caller, body), status=202)


class CancelsForNobody(Broken):
    found_by = "cancel-needs-authentication"

    def caller(self, headers: Json, operation: str) -> Json:
        if operation == "cancel" and "authorization" not in headers:
            return self.callers["token-1"] | {"token": ""}
        return super().caller(headers, operation)


class CancelsAgain(Broken):
    found_by = "ended-cannot-be-cancelled"

    def is_cancellable(self, task: Json) -> bool:
        return (not task["bulk"] and task["status"] == "cancelled") or super().is_cancellable(task)


class ApprovesWhatWasCancelled(Broken):
    found_by = "cancelled-cannot-be-approved"

    def may_still(self, verb: str, task: Json, part: Json) -> bool:
        return super().may_still(verb, task, part) or part["status"] == "cancelled"


# ---- callbacks ----


class LosesTheState(Broken):
    found_by = "callback-tells-the-task"

    def notice(self, task: Json, callback: Json) -> Json:
        return {"task": super().notice(task, callback)["task"]}


class CallsAnonymously(Broken):
    found_by = "callback-is-authenticated"

    def notice_headers(self) -> Json:
        return {}


class TellsEverything(Broken):
    found_by = "callback-events-are-chosen"

    def is_wanted(self, event: str, events: Sequence[str]) -> bool:
        return True


class CallsAnybodyOutside(Broken):
    found_by = "callback-must-be-registered"

    def may_go(self, endpoint: Any, caller: Json) -> bool:
        return super().may_go(endpoint, caller) or not self.is_inside(endpoint)


class CallsAnythingInside(Broken):
    found_by = "callback-goes-nowhere-inside"

    def may_go(self, endpoint: Any, caller: Json) -> bool:
        return super().may_go(endpoint, caller) or self.is_inside(endpoint)


class FailsWithItsReceiver(Broken):
    found_by = "callback-failure-changes-nothing"

    def undelivered(self, task: Json) -> None:
        for part in task["parts"]:
            part["status"] = "failed"
        self.settle(task)


# ---- several items ----


class TurnsItemsRound(Broken):
    found_by = "items-are-mirrored"

    def shown(self, task: Json, caller: Json) -> Json:
        found = super().shown(task, caller)
        if task["bulk"] and all(part["status"] == "pending" for part in task["parts"]):
            found["task"]["items"].reverse()
        return found


class TakesBothForms(Broken):
    found_by = "items-stand-alone"

    def are_items(self, body: Json) -> bool:
        return super().are_items({name: body[name] for name in body if name not in {"resource", "action"}})


class BindsTheFirstItemOnly(Broken):
    found_by = "every-item-is-bound"

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        if "items" not in body or part is body["items"][0]:
            super().compare(body, part, denial, found)


class CallsPartialApproved(Broken):
    found_by = "partial-is-said"

    def aggregate(self, found: set[str]) -> str:
        return "approved" if found == {"approved", "denied"} else super().aggregate(found)


class CallsHalfDoneApproved(Broken):
    found_by = "partial-is-said"

    def aggregate(self, found: set[str]) -> str:
        return "approved" if found == {"approved", "pending"} else super().aggregate(found)


class SharesApprovalsAmongItems(Broken):
    found_by = "items-approvals-are-their-own"

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        if record["bulk"] and self.differing(asked, record["question"], record["members"]) == {"resource"}:
            return True
        return super().is_in_scope(record, asked)


class CancelsWhatHasEnded(Broken):
    found_by = "bulk-cancel-leaves-ends"

    def end(self, task: Json, status: str) -> None:
        super().end(task, status)
        if task["bulk"]:
            for part in task["parts"]:
                part["status"] = status
            self.settle(task)


class IgnoresItems(Broken):
    found_by = "unsupported-items-are-refused"
    offers = EVERYTHING - {"bulk"}

    async def submit(self, body: Any, caller: Json, key: str | None) -> Answer:
        if isinstance(body, dict) and body.get("items"):
            body = {**body["items"][0], **{name: body[name] for name in body if name != "items"}}
        return await super().submit(body, caller, key)


# ---- schemas and catalogs ----


class LosesItsSchema(Broken):
    found_by = "schema-can-be-read"

    def schema(self) -> Answer:
        return Answer(404)


class TakesIncompleteInput(Broken):
    found_by = "input-is-validated"

    def required(self, given: Json) -> None:
        """Whatever is given."""


class OffersCatalogsAlone(Broken):
    found_by = "catalogs-come-with-a-schema"

    def form(self, asked: Json, said: Json) -> Json:
        found = super().form(asked, said)
        if "request_catalogs_url" in found:
            del found["request_schema_url"]
        return found


class ShowsCatalogsToNobody(Broken):
    found_by = "catalog-needs-authentication"

    def caller(self, headers: Json, operation: str) -> Json:
        if operation == "catalog" and "authorization" not in headers:
            return self.callers["token-1"] | {"token": ""}
        return super().caller(headers, operation)


class CallsItemsSomethingElse(Broken):
    found_by = "catalog-answers-with-items"

    def catalog(self, query: Json, caller: Json) -> Json:
        if query.keys() - {"q", "cursor", "limit", "evaluation"}:
            raise problem("invalid-request", 400)
        return super().catalog(query, caller)


class RepeatsAnItem(Broken):
    found_by = "catalog-pages-go-on"

    def page(self, found: Sequence[Json], start: int, most: int) -> Json:
        return super().page(found, max(start - 1, 0), most) if start else super().page(found, start, most)


class ShowsWhatIsHidden(Broken):
    found_by = "catalog-hides"

    def projects(self) -> list[Json]:
        return PROJECTS


class TakesAnyValue(Broken):
    found_by = "catalog-values-are-validated"

    def catalog_value(self, given: Json) -> None:
        """Whatever is given."""

"""Services with one fault each: what happens once a task has ended, and what others, readers and callbacks are told."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.arap_conformance.broken import Broken
from tests.arap_conformance.plain_decisions import Answer, Refusal
from tests.arap_conformance.signatures import Json, Signer
from tests.arap_conformance.subject import PROJECTS, problem

AT_ONCE = 0.02  # seconds in which the next look comes; shorter than the suite lets pass here


class CancelsWhatWasDecided(Broken):
    found_by = "decided-cannot-be-cancelled"
    decided = frozenset({"approved", "denied"})

    def is_cancellable(self, task: Json) -> bool:
        return super().is_cancellable(task) or (not task["bulk"] and task["status"] in self.decided)

    def is_open(self, part: Json) -> bool:
        return super().is_open(part) or part["status"] in self.decided

    def end(self, task: Json, status: str) -> None:
        if not task["bulk"]:
            super().end(task, status)
            return
        for part in task["parts"]:
            if part["status"] == "pending":
                part["status"] = status
        self.settle(task)


class SaysYesToALateCancellation(Broken):
    found_by = "decided-cannot-be-cancelled"

    def is_cancellable(self, task: Json) -> bool:
        return super().is_cancellable(task) or (not task["bulk"] and task["status"] in {"approved", "denied"})


class ApprovesWhatHasExpired(Broken):
    found_by = "expired-cannot-be-approved"

    def may_still(self, verb: str, task: Json, part: Json) -> bool:
        return super().may_still(verb, task, part) or (part["status"] == "expired" and verb == "approve")


class ShowsOthersWhatWasApproved(Broken):
    found_by = "other-caller-gets-no-result"

    def is_his(self, task: Json, caller: Json, right: str) -> bool:
        return super().is_his(task, caller, right) or (task["status"] == "approved" and right == "status")


class GivesReadersTheResultsOfItems(Broken):
    found_by = "reader-gets-no-result"

    def shown(self, task: Json, caller: Json) -> Json:
        may = set(caller["may"]) | {"result"} if task["bulk"] else caller["may"]
        return super().shown(task, {**caller, "may": may})


class LetsReadersSubmit(Broken):
    found_by = "reader-cannot-submit"

    def __init__(self, base: str = "https://plain.example", **more: Any) -> None:
        super().__init__(base, **more)
        self.callers["token-4"] = {"client": "pep", "may": {"status"}}

    def allow(self, caller: Json, right: str) -> None:
        if right != "submit":
            super().allow(caller, right)


class CancelsForOthersALittleLater(Broken):
    found_by = "other-caller-cannot-cancel"

    def mine(self, task_id: str, caller: Json, right: str) -> Json:
        try:
            return super().mine(task_id, caller, right)
        except Refusal:
            if right == "cancel" and task_id in self.tasks and caller["client"] == "neighbour":
                self.tasks[task_id]["late"] = time.monotonic() + AT_ONCE
            raise

    def sweep(self, task: Json) -> None:
        super().sweep(task)
        if time.monotonic() >= task.get("late", float("inf")):
            self.end(task, "cancelled")


class NamesWhoDenied(Broken):
    found_by = "approvers-are-not-shown"

    def handle(self, task: Json) -> Json:
        return super().handle(task) | ({"decided_by": "carol"} if task["status"] == "denied" else {})


class NamesWhoCancelled(Broken):
    found_by = "approvers-are-not-shown"

    def handle(self, task: Json) -> Json:
        return super().handle(task) | ({"was_with": "CAROL"} if task["status"] == "cancelled" else {})


class NamesApproversInCallbacks(Broken):
    found_by = "approvers-are-not-shown"

    def notice(self, task: Json, callback: Json) -> Json:
        return super().notice(task, callback) | {"decided_by": "Carol"}


class TellsDenialsAnonymously(Broken):
    found_by = "callback-is-authenticated"
    told: Json

    async def tell(self, task: Json) -> None:
        self.told = task
        await super().tell(task)

    def notice_headers(self) -> Json:
        return {} if self.told["status"] == "denied" else super().notice_headers()


class TellsAResultWithoutAMode(Broken):
    found_by = "callback-tells-the-task"

    def notice(self, task: Json, callback: Json) -> Json:
        return super().notice(task, callback) | {"result": {"approval": {}}}


class HidesOnTheFirstPageOnly(Broken):
    found_by = "catalog-hides"

    def catalog(self, query: Json, caller: Json) -> Json:
        if query.get("q") or query.get("cursor", "0") == "0":
            return super().catalog(query, caller)
        start = int(query["cursor"])
        return self.page(PROJECTS, start, int(query.get("limit", "50")))


class LosesItemsBetweenPages(Broken):
    found_by = "catalog-pages-go-on"

    def page(self, found: Sequence[Json], start: int, most: int) -> Json:
        return super().page(found, start + 1 if start else 0, most)


class HasItemsWithoutValues(Broken):
    found_by = "catalog-answers-with-items"

    def catalog(self, query: Json, caller: Json) -> Json:
        page = super().catalog(query, caller)
        if "conformance_unknown" not in query:
            return page
        return page | {"items": [{"label": item["label"]} for item in page["items"]]}


class NamesItselfWithSlashes(Broken):
    found_by = "identifier-is-the-one-asked"

    def metadata(self) -> Json:
        return super().metadata() | {"policy_decision_point": self.base + "///"}


class LosesItsKeys(Broken):
    found_by = "keys-published"
    hinders = frozenset({"keys-are-public", "keys-are-labelled", "token-is-signed", "state-is-signed-for-the-pdp"})

    def jwks(self) -> Json:
        return {"keys": "none"}


class BeginsApproved(Broken):
    found_by = "pending-is-shown"
    also = frozenset({"a-question-is-no-end"})  # during which it is pending as well

    def shown(self, task: Json, caller: Json) -> Json:
        found = super().shown(task, caller)
        if task["status"] == "pending" and not task["bulk"]:
            found["result"] = {"mode": "reevaluate", "approval": {"id": "a-early"}}
        return found


class ApprovesWithoutAResult(Broken):
    found_by = "approved-has-its-result"
    also = frozenset({"resolved-at-once"})  # which is said of the same
    hinders = frozenset(
        {
            *("approval-ends", "approval-ids-are-unguessable", "state-is-signed-for-the-pdp", "approval-permits"),
            *("permit-says-how-long", "approval-of-another-subject", "approval-of-another-resource"),
            *("approval-of-another-action", "approval-in-another-context", "approval-of-another-caller"),
            *("swapped-id", "forged-state", "expired-approval", "policy-outranks-approval", "denial-says-what-next"),
            *("request-comes-with-an-offer", "batch-is-judged-one-by-one", "wider-approval-reaches-as-far"),
            *("revoked-permits-nothing", "revoked-stays-approved", "reader-gets-no-result"),
            "other-caller-gets-no-result",
        }
    )

    def shown(self, task: Json, caller: Json) -> Json:
        return super().shown(task, caller) if task["bulk"] else {"task": self.handle(task)}


class LeavesOutTheEndOfApprovals(Broken):
    found_by = "approved-has-its-result"
    also = frozenset({"approval-ends", "permit-says-how-long"})  # whose object it is

    def result(self, part: Json) -> Json:
        found = super().result(part)
        del found["approval"]["approved_until"]
        return found


class SignsStatesForNobodysIssuer(Broken):
    found_by = "state-is-signed-for-the-pdp"

    def state_claims(self, approval: Json) -> Json:
        return super().state_claims(approval) | {"iss": ""}

    def is_for_us(self, claims: Json) -> bool:
        return bool(claims["aud"] == self.base)


class CancelsAndForgets(Broken):
    found_by = "cancel-ends-the-task"

    async def cancel(self, task_id: str, caller: Json, body: Json | None) -> Answer:
        if body is None:
            return await super().cancel(task_id, caller, body)
        task = self.mine(task_id, caller, "cancel")
        shown = self.shown({**task, "status": "cancelled"}, caller)
        return Answer(200, shown)


class CallsTheSecondTimeGone(Broken):
    found_by = "ended-cannot-be-cancelled"
    also = frozenset({"errors-are-problems"})  # which looks at the status of every problem

    async def cancel(self, task_id: str, caller: Json, body: Json | None) -> Answer:
        try:
            return await super().cancel(task_id, caller, body)
        except Refusal as refusal:
            if refusal.answer.status != 409 or self.tasks[task_id]["status"] != "cancelled":
                raise
            raise Refusal(replace(refusal.answer, status=410)) from None


class ConfirmsAnothersCancellation(Broken):
    found_by = "other-caller-cannot-cancel"

    async def cancel(self, task_id: str, caller: Json, body: Json | None) -> Answer:
        if task_id in self.tasks and self.tasks[task_id]["client"] != caller["client"] == "neighbour":
            return Answer(204)
        return await super().cancel(task_id, caller, body)


class HasPartsOfItsOwn(Broken):
    found_by = "items-are-mirrored"

    def shown(self, task: Json, caller: Json) -> Json:
        found = super().shown(task, caller)
        for item in found["task"].get("items", []):
            if item["status"] == "pending" and all(part["status"] == "pending" for part in task["parts"]):
                item["status"] = "waiting"
        return found


class BreaksOnBothForms(Broken):
    found_by = "items-stand-alone"

    def are_items(self, body: Json) -> bool:
        if "resource" in body:
            raise problem("broken", 500)
        return super().are_items(body)


class GivesDeniedItemsAnApproval(Broken):
    found_by = "partial-is-said"

    def own_result(self, part: Json, results: bool) -> Json:  # noqa: FBT001 - as it is there
        if part["status"] != "denied":
            return super().own_result(part, results)
        return {"result": {"mode": "reevaluate", "approval": {"id": "a-none"}}} if results else {}

    def shown(self, task: Json, caller: Json) -> Json:
        found = super().shown(task, caller)
        if not task["bulk"]:
            found = {"task": found["task"]} | (found if task["status"] == "approved" else {})
        return found


class CancelsNothingOfAHalf(Broken):
    found_by = "bulk-cancel-leaves-ends"

    def is_cancellable(self, task: Json) -> bool:
        return all(part["status"] == "pending" for part in task["parts"])


class KeepsTheResultForLater(Broken):
    found_by = "resolved-at-once"

    def accepted(self, task: Json, caller: Json, status: int) -> Answer:
        answer = super().accepted(task, caller, status)
        return replace(answer, body={"task": answer.body["task"]})


class CallsTasksByNothing(Broken):
    found_by = "submission-becomes-task"

    def accepted(self, task: Json, caller: Json, status: int) -> Answer:
        answer = super().accepted(task, caller, status)
        if status == 201:
            return answer
        return replace(answer, body={**answer.body, "task": {**answer.body["task"], "status": None}})


class TellsAList(Broken):
    found_by = "callback-tells-the-task"

    def notice(self, task: Json, callback: Json) -> Any:
        return [super().notice(task, callback)]


class CountsItsPages(Broken):
    found_by = "catalog-pages-go-on"

    def page(self, found: Sequence[Json], start: int, most: int) -> Json:
        page = super().page(found, start, most)
        return page | ({"next_cursor": start + most} if "next_cursor" in page else {})


class KnowsNoSecondPage(Broken):
    found_by = "catalog-pages-go-on"
    hinders = frozenset({"catalog-hides"})

    def catalog(self, query: Json, caller: Json) -> Json:
        if "cursor" in query:
            raise problem("invalid-request", 400)
        return super().catalog(query, caller)


class PointsNowhere(Broken):
    found_by = "catalog-answers-with-items"
    also = frozenset(  # which begin with the same document
        {"catalog-needs-authentication", "catalog-pages-go-on", "catalog-hides", "catalog-values-are-validated"}
    )

    def catalogs(self, evaluation: str) -> Json:
        return {"fields": {"project": super().catalogs(evaluation)["fields"]["/requested_access/project"]}}


class ApprovesWhatItLetExpire(Broken):
    found_by = "expired-is-said"
    also = frozenset({"expired-cannot-be-approved"})  # which looks for the same

    def shown(self, task: Json, caller: Json) -> Json:
        found = super().shown(task, caller)
        if task["status"] == "expired":
            found["result"] = {"mode": "reevaluate", "approval": {"id": "a-0"}}
        return found


class SignsStatesWithAKeyOfItsOwn(Broken):
    found_by = "state-is-signed-for-the-pdp"

    def jwks(self) -> Json:
        return {"keys": [self.signers["pdp"].jwk(), Signer("ars-1").jwk()]}

"""Services with one fault each: what a submission is bound to, with and without a token, and the form of errors."""

from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from tests.arap_conformance.broken import Broken
from tests.arap_conformance.plain_decisions import Answer, Refusal
from tests.arap_conformance.signatures import Json, plain
from tests.arap_conformance.subject import problem


class CarelessById(Broken):
    """Without a token, some difference between denial and submission does not matter."""

    found_by = "id-binds-the-question"
    ignored: ClassVar[str] = "subject"
    is_by_token = True

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        self.is_by_token = "binding_token" in denial
        super().compare(body, part, denial, found)

    def matters(self, differing: set[str]) -> bool:
        return super().matters(differing if self.is_by_token else differing - {self.ignored})


class TakesAnyResourceById(CarelessById):
    found_by, ignored = "id-binds-the-question", "resource"


class TakesAnyActionById(CarelessById):
    found_by, ignored = "id-binds-the-question", "action"


class TakesAnyContextById(CarelessById):
    found_by, ignored = "id-binds-the-question", "context"


class KnowsNoEndById(Broken):
    found_by = "id-keeps-its-end"

    def fresh(self, found: Json, echoed: datetime, *, by_token: bool) -> None:
        if by_token:
            super().fresh(found, echoed, by_token=by_token)


class BelievesTheEchoById(Broken):
    found_by = "id-keeps-its-end"

    def fresh(self, found: Json, echoed: datetime, *, by_token: bool) -> None:
        if by_token or echoed <= found["protected"]:
            super().fresh(found, echoed, by_token=by_token)


class Blind(Broken):
    """A member of the subject, resource or action is not compared."""

    def seen(self, value: Json, was: Json) -> Json:
        """What is compared of a part, which was `was`."""
        return value

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        asked = {**body, "resource": part["resource"], "action": part["action"]}
        told = {name: self.seen(asked[name], found["question"][name]) for name in ("subject", "resource", "action")}
        super().compare(body | {"subject": told["subject"]}, part | told, denial, found)


class LooksAtNoTypeOfSubjects(Blind):
    found_by = "changed-subject"

    def seen(self, value: Json, was: Json) -> Json:
        return value | {"type": was["type"]} if was.get("type") == "user" else value


class LooksAtNoTypeOfResources(Blind):
    found_by = "changed-resource"

    def seen(self, value: Json, was: Json) -> Json:
        return value | {"type": was["type"]} if was.get("type") in {"ledger", "vault"} else value


class TakesMoreOfTheSubject(Blind):
    found_by = "changed-properties"

    def seen(self, value: Json, was: Json) -> Json:
        return {name: value[name] for name in value if name in was} if was.get("type") == "user" else value


class TakesMoreOfTheAction(Blind):
    found_by = "changed-properties"

    def seen(self, value: Json, was: Json) -> Json:
        return {name: value[name] for name in value if name in was} if "name" in was else value


class TakesLess(Blind):
    found_by = "changed-properties"

    def seen(self, value: Json, was: Json) -> Json:
        kept = was.get("properties", {}) | value.get("properties", {})
        return value | {"properties": kept} if kept else value


class HasErrorsOfOneStatus(Broken):
    found_by = "errors-are-problems"

    def repeated(self, body: Json, caller: Json, key: str) -> Answer | None:
        try:
            return super().repeated(body, caller, key)
        except Refusal as refusal:
            raise Refusal(replace(refusal.answer, status=400)) from None


class SaysUnknownInPlainText(Broken):
    found_by = "errors-are-problems"

    def unknown(self, task: Json | None) -> Refusal:
        return Refusal(replace(super().unknown(task).answer, kind="text/plain"))


class CallsTooLateABadRequest(Broken):
    found_by = "errors-are-problems"

    def in_time(self, found: Json) -> None:
        try:
            super().in_time(found)
        except Refusal as refusal:
            raise Refusal(replace(refusal.answer, status=400)) from None


class LeavesOutTheUrn(Broken):
    found_by = "unknown-task"

    def unknown(self, task: Json | None) -> Refusal:
        answer = super().unknown(task).answer
        return Refusal(replace(answer, body=answer.body | {"type": "unknown_task"}))


class LeavesOutTheUrnOfBinding(Broken):
    found_by = "unknown-evaluation"

    def by_id(self, evaluation_id: Any) -> Json:
        if evaluation_id is not None and evaluation_id not in self.evaluations:
            refusal = problem("invalid_denial_binding")
            raise Refusal(replace(refusal.answer, body={"type": "invalid_denial_binding", "status": 400}))
        return super().by_id(evaluation_id)


class BindsAnotherContext(Broken):
    found_by = "token-binds-the-question"

    def binding_claims(self, evaluation_id: str, record: Json) -> Json:
        claims = super().binding_claims(evaluation_id, record)
        return claims | {"context": dict.fromkeys(claims["context"], "another")}

    def by_token(self, token: Any) -> Json:
        found = super().by_token(token)
        return found | {"question": self.evaluations[found["evaluation_id"]]["question"]}


class HashesAnotherQuestion(Broken):
    found_by = "token-binds-the-question"

    def binding_claims(self, evaluation_id: str, record: Json) -> Json:
        return super().binding_claims(evaluation_id, record) | {"binding_hash": plain(record["question"])}

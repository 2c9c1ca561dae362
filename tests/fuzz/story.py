"""One good call of every operation, in an order in which each finds what it needs: no operation is only ever refused.

Between two rounds of calls at random somebody uses the service as it is meant. Every call is counted and judged like
those at random; what exists afterwards, open and ended, is what these can name.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from schemathesis import Response

from tests.fuzz.rules import QUESTIONS, thing
from tests.service import SECRET

Body = Mapping[str, Any]
_RECENT: Final = 6
_REPORT: Final = {"disposition": "approved-executed", "at": "2026-04-30T20:01:00Z", "generation": 1}
_CLIENT: Final = {"client_id": "gate", "client_secret": SECRET}
_EMERGENCY: Final = {"emergency": True, "business_justification": "The house is on fire."}


class Say(Protocol):
    """Makes a call of the operation with this id, as who usually makes it or as `caller`."""

    def __call__(
        self,
        operation: str,
        *,
        path: Body | None = None,
        body: Any = None,
        query: Body | None = None,
        caller: str | None = None,
    ) -> Response: ...


def _recent() -> deque[str]:
    return deque(maxlen=_RECENT)


@dataclass(slots=True)
class Known:
    """What exists by the answers so far, by the name of the parameter that can name it; the latest ones only."""

    named: dict[str, deque[str]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    good: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    denied: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=4 * _RECENT))

    def add(self, name: str, value: str) -> None:
        """One more that `name` can name."""
        latest = self.named.setdefault(name, _recent())
        if value not in latest:
            latest.append(value)

    def add_task(self, task_id: str) -> None:
        """One more request, which requesters and reviewers name differently."""
        for name in ("task_id", "request_id", "request"):
            self.add(name, task_id)

    def one_of(self, name: str, number: int) -> str | None:
        """One that `name` can name, if there is any."""
        latest = self.named.get(name)
        return latest[number % len(latest)] if latest else None


def denial_of(answer: Body) -> dict[str, Any] | None:
    """The `denial` of a request that rests on the answer to an evaluation; None if nothing can be requested."""
    context = answer.get("context", {})
    if "access_request" not in context:
        return None
    offer = context["access_request"]
    return {name: offer[name] for name in ("binding_token", "expires_at")} | {"evaluation_id": context["evaluation_id"]}


@dataclass(frozen=True, slots=True)
class Story:
    """A requester, a reviewer and an operator at work; `meanwhile` does what the background of the service would."""

    say: Say
    known: Known
    meanwhile: Callable[[], None]
    callback: str

    def tell_more(self) -> None:
        """Have something open again, because calls at random may have ended all that was."""
        self._requested(0)
        self._requested(2)
        for question in QUESTIONS[:2]:
            self._denied(question)

    def tell(self) -> None:
        """Go through it once."""
        self._look_around()
        task = self._requested(0)
        self._talked_about(task)
        self._approved_and_used(task)
        self._requested(1)
        self._bundle()
        self._with_fields()
        self._emergency()
        self._decided_for_good()
        self._withdrawn()
        self._delivered()
        self._requested(0)
        self._requested(2)

    def _look_around(self) -> None:
        for operation in ("pdp_metadata", "pdp_keys", "issuer_metadata", "issuer_jwks", "health_metrics"):
            self.say(operation)
        for operation in ("health_alive", "health_ready", "resolver_queue", "audit_entries", "events_events"):
            self.say(operation)
        self.say("issuer_token", body={"grant_type": "client_credentials"} | _CLIENT)
        about = {name: QUESTIONS[-1][name] for name in ("subject", "resource", "action")}
        self.say("search_subjects", body={**about, "subject": {"type": "user"}})
        self.say("search_resources", body={**about, "resource": {"type": "tool"}})
        self.say("search_actions", body={name: about[name] for name in ("subject", "resource")})

    def _denied(self, question: Body) -> dict[str, Any]:
        answer = self.say("pdp_single", body=dict(question)).json()
        denial = denial_of(answer)
        assert denial is not None, answer
        self.known.add("evaluation_id", denial["evaluation_id"])
        return {**question, "denial": denial}

    def _submitted(self, body: Body) -> str:
        answer = self.say("requests_submit", body=dict(body))
        task_id = str(answer.json()["task"]["id"])
        self.known.add_task(task_id)
        return task_id

    def _requested(self, number: int, **more: Any) -> str:
        return self._submitted(self._denied(QUESTIONS[number]) | more)

    def _version(self, task_id: str) -> int:
        shown = self.say("resolver_detail", path={"request_id": task_id}).json()
        self.known.versions[task_id] = shown["version"]
        return int(shown["version"])

    def _talked_about(self, task_id: str) -> None:
        request = {"request_id": task_id}
        self.say("conversation_claim", path=request)
        self.say("conversation_comment", path=request, body={"text": "I shall look at it."})
        self.say("conversation_release", path=request)
        self.say("conversation_ask", path=request, body={"message": "What for?"})
        asked = self.say("conversation_question", path={"task_id": task_id}).json()
        answer = {"version": asked["version"], "input": {"answer": "Rent."}}
        self.say("conversation_answer", path={"task_id": task_id}, body=answer)

    def _approved_and_used(self, task_id: str) -> None:
        said = {"decision": "approve", "version": self._version(task_id)}
        self.say("resolver_decide", path={"request_id": task_id}, body=said)
        approval = self.say("requests_status", path={"task_id": task_id}).json()["result"]["approval"]
        question = dict(QUESTIONS[0])
        self.say("pdp_single", body={**question, "context": {**question["context"], "approval": approval}})
        self.say("requests_report", path={"task_id": task_id}, body=_REPORT)
        self.say("resolver_report", path={"approval_id": approval["id"]}, body=_REPORT)
        other = self._requested(0)
        said["version"] = self._version(other)
        self.say("resolver_decide", path={"request_id": other}, body=said)
        result = self.say("requests_status", path={"task_id": other}).json()["result"]
        self.known.add("approval_id", result["approval"]["id"])
        self.say("resolver_revoke", path={"approval_id": result["approval"]["id"]}, body={"reason": "No more."})
        self.known.add("approval_id", approval["id"])

    def _bundle(self) -> None:
        questions = [thing("account", "ledger", action, {"tenant": "acme"}) for action in ("open", "close")]
        shared = {name: questions[0][name] for name in ("subject", "context")}
        asked = [{name: question[name] for name in ("resource", "action")} for question in questions]
        answers = self.say("pdp_batch", body={**shared, "evaluations": asked}).json()["evaluations"]
        items = [{**item, "denial": denial_of(answer)} for item, answer in zip(asked, answers, strict=True)]
        task_id = self._submitted({**shared, "items": items})
        shown = self.say("resolver_detail", path={"request_id": task_id}).json()["items"]
        said = {"decision": "approve", "version": shown[0]["version"], "item": 1}
        self.say("resolver_decide", path={"request_id": task_id}, body=said)
        self.say("requests_report_item", path={"task_id": task_id, "item": 1}, body=_REPORT)
        self.known.add("item", "1")

    def _with_fields(self) -> None:
        body = self._denied(QUESTIONS[3])
        denial = {"evaluation_id": body["denial"]["evaluation_id"]}
        self.known.add("template", "access")
        self.known.add("catalog", "roles")
        self.say("pdp_request_schema", path={"template": "access"})
        self.say("catalogs_document", path={"template": "access"}, query=denial)
        self.say("catalogs_values", path={"catalog": "roles"}, query=denial)
        self._submitted({**body, "requested_access": {"role": "reader"}})

    def _emergency(self) -> None:
        task_id = self._requested(4, requested_access=_EMERGENCY)
        said = {"decision": "approve", "version": self._version(task_id)}
        self.say("resolver_decide", path={"request_id": task_id}, body=said, caller="on-call")
        approval = self.say("requests_status", path={"task_id": task_id}).json()["result"]["approval"]
        self.say("requests_report", path={"task_id": task_id}, body=_REPORT)
        self.say("reviews_list_reviews")
        review = {"outcome": "justified", "note": "It was burning indeed."}
        self.say("reviews_close", path={"approval_id": approval["id"]}, body=review)

    def _decided_for_good(self) -> None:
        request = {"request_id": self._requested(2)}
        said = {"decision": "approve", "version": self._version(request["request_id"])}
        self.say("resolver_decide", path=request, body=said)
        rules = [self.say("standing_rules_propose", path=request, body={"days": 3}).json()["id"] for _ in range(2)]
        self.say("standing_rules_list_rules")
        self.say("standing_rules_confirm", path={"rule_id": rules[0]}, caller="operator")
        for rule_id in rules:
            self.say("standing_rules_end", path={"rule_id": rule_id}, caller="operator")
            self.known.add("rule_id", rule_id)

    def _withdrawn(self) -> None:
        self.say("requests_cancel", path={"task_id": self._requested(0)}, body={"reason": "Not needed."})
        self.say("conversation_cancel", path={"request_id": self._requested(0)})

    def _delivered(self) -> None:
        task_id = self._requested(0, callback={"endpoint": self.callback, "events": ["denied"]})
        said = {"decision": "deny", "version": self._version(task_id), "reason": "Not now."}
        self.say("resolver_decide", path={"request_id": task_id}, body=said)
        listed = self.say("deliveries_page", query={"request": task_id}).json()["items"]
        delivery = {"delivery_id": str(listed[0]["id"])}
        self.known.add("delivery_id", delivery["delivery_id"])
        self.say("deliveries_detail", path=delivery)
        self.say("deliveries_redeliver", path=delivery)
        self.meanwhile()
        [gone, *_] = self.say("deliveries_silenced").json()
        self.say("deliveries_enable", body={name: gone[name] for name in ("client_id", "endpoint")})
        self.say("audit_checkpoint")

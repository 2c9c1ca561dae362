"""A decision point in raw dicts: evaluation, requestable denials, and what an approval changes.

Written from the Authorization API and the access-request draft, sharing nothing with ours. The beginning of the id of a
resource says what the rule is: `open`, `closed`, or else the access can be requested. Every decision is a method, so
that `broken.py` can spoil one.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.arap_conformance.signatures import Json, Signer, Unreadable, opened, plain

DENIAL_SECONDS = 300
BOUND = ("project", "agent", "arguments_hash")
MACHINERY = ("approval", "access_request", "evaluation_id", "evaluated_at", "reason")
BINDING, STATE = "denial+jwt", "approval+jwt"
CAPABILITY = "urn:openid:authzen:capability:access-request"
EVERYTHING = frozenset(
    {
        "denial-by-token",
        "denial-by-id",
        "approval-by-id",
        "approval-by-state",
        "bulk",
        "callbacks",
        "catalogs",
        "cancel",
    }
)
FINAL = {"permit_on_first_permit": True, "deny_on_first_deny": False}


@dataclass
class Answer:
    """What is sent back: a document or a text."""

    status: int
    body: Any = None
    headers: Json = field(default_factory=dict)
    kind: str = "application/json"


class Refusal(Exception):
    """An error, as it is answered."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def text(status: int, words: str, **headers: str) -> Refusal:
    """An error of the Authorization API."""
    return Refusal(Answer(status, words, headers, "text/plain"))


def instant(moment: datetime) -> str:
    """As RFC 3339 has it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def unacted(subject: Json) -> Json:
    """A subject without its actor, which may be moved elsewhere."""
    properties = {name: value for name, value in subject.get("properties", {}).items() if name != "act"}
    rest = {name: value for name, value in subject.items() if name != "properties"}
    return rest | ({"properties": properties} if properties else {})


class PlainDecisions:
    """`evaluations` and `approvals` are shared with the request service; `forbidden` is what policy has closed."""

    def __init__(self, base: str = "https://plain.example", *, parts: frozenset[str] = EVERYTHING) -> None:
        self.base, self.parts = base, parts
        self.ahead = timedelta()
        self.signers = {"pdp": Signer("pdp-1"), "ars": Signer("ars-1")}
        self.evaluations: dict[str, Json] = {}
        self.approvals: dict[str, Json] = {}
        self.forbidden: set[str] = set()
        self.stale: set[str] = set()
        self.issued: set[str] = set()

    def now(self) -> datetime:
        return datetime.now(UTC).replace(microsecond=0) + self.ahead

    @property
    def requests(self) -> str:
        return f"{self.base}/access/v1/requests"

    # ---- discovery ----

    def described(self) -> Answer:
        """The metadata as it is sent."""
        return Answer(200, self.metadata(), {"Cache-Control": "max-age=60"})

    def metadata(self) -> Json:
        return {
            "policy_decision_point": self.base,
            "access_evaluation_endpoint": f"{self.base}/access/v1/evaluation",
            "access_evaluations_endpoint": f"{self.base}/access/v1/evaluations",
            "access_request_endpoint": self.requests,
            "jwks_uri": f"{self.base}/keys",
            "capabilities": [CAPABILITY],
        }

    def jwks(self) -> Json:
        return {"keys": [signer.jwk() for signer in self.signers.values()]}

    # ---- evaluation ----

    def answered(self, asked: Any, client: str) -> Answer:
        """The decision as it is sent."""
        return Answer(200, self.evaluate(asked, client), {"Cache-Control": "no-store"})

    def evaluate(self, asked: Any, client: str) -> Json:
        """The answer to one question.

        Raises:
            Refusal: It is no question.
        """
        if not isinstance(asked, dict):
            raise text(400, "The body is no object.")
        if "evaluations" in asked and asked["evaluations"] != []:
            return self.evaluate_many(asked, client)
        if (wrong := self.wrong(asked)) is not None:
            raise text(400, wrong)
        return self.decide(asked, client)

    def wrong(self, asked: Json) -> str | None:
        """Why it is no question."""
        for name, members in (("subject", ("type", "id")), ("resource", ("type", "id")), ("action", ("name",))):
            value = asked.get(name)
            if not isinstance(value, dict) or not all(isinstance(value.get(one), str) for one in members):
                return f"{name} is missing or has the wrong form."
            if not isinstance(value.get("properties", {}), dict):
                return f"{name}.properties is no object."
        return None if isinstance(asked.get("context", {}), dict) else "context is no object."

    def evaluate_many(self, asked: Json, client: str) -> Json:
        entries, semantic = asked["evaluations"], asked.get("options", {}).get("evaluations_semantic", "execute_all")
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise text(400, "evaluations is no array of objects.")
        if semantic != "execute_all" and semantic not in FINAL:
            raise text(400, "The semantic is unknown.")
        defaults = {name: asked[name] for name in ("subject", "resource", "action", "context") if name in asked}
        answers: list[Json] = []
        for entry in entries:
            question = {**defaults, **entry}
            wrong = self.wrong(question)
            answers.append({"decision": False, "context": {"error": wrong}} if wrong else self.decide(question, client))
            if semantic in FINAL and answers[-1]["decision"] is FINAL[semantic]:
                break
        return {"evaluations": answers}

    def decide(self, asked: Json, client: str) -> Json:
        """The decision, an approval that came along considered."""
        given = asked.get("context", {}).get("approval")
        denied = None if given is None else self.reference_denied(asked, given, client)
        if denied is not None and denied.pop("outright", False):
            return {"decision": False, "context": denied}
        rule = self.rule(asked)
        if rule == "permit":
            return {"decision": True}
        if rule == "deny":
            said = {"reason": "policy_denied", "next_action": "none"} if given is not None else {"reason": "closed"}
            return {"decision": False, "context": {**self.evaluated(asked, client, requestable=False), **said}}
        if given is None:
            return {"decision": False, "context": self.requestable(asked, client)}
        if denied is None:
            record = self.approvals[given["id"]] if given["id"] in self.approvals else self.proved(given)
            return self.permitted(record)
        if denied["next_action"] == "request":
            return {"decision": False, "context": {**self.requestable(asked, client), **denied}}
        return {"decision": False, "context": {**self.evaluated(asked, client, requestable=False), **denied}}

    def rule(self, asked: Json) -> str:
        """What policy says by itself."""
        resource = asked["resource"]["id"]
        if resource.startswith("open"):
            return "permit"
        if resource.startswith("closed") or plain(self.question(asked, BOUND)) in self.forbidden:
            return "deny"
        return "request"

    def permitted(self, approval: Json) -> Json:
        shown = {"id": approval["id"], "approved_until": instant(approval["until"])}
        return {"decision": True, "context": {"approval": shown}}

    # ---- requestable denials ----

    def members(self, asked: Json) -> list[str]:
        """The members of the context that are bound."""
        return [name for name in BOUND if name in asked.get("context", {})]

    def question(self, asked: Json, members: Sequence[str] | None = None) -> Json:
        """What of a question is bound."""
        names = self.members(asked) if members is None else members
        context = asked.get("context", {})
        return {
            "subject": unacted(asked["subject"]),
            "resource": asked["resource"],
            "action": asked["action"],
            "context": {name: context[name] for name in names if name in context},
        }

    def evaluated(self, asked: Json, client: str, *, requestable: bool) -> Json:
        """Keep an evaluation that was denied; what its context says about it."""
        evaluation_id, now = self.new_evaluation_id(asked), self.now()
        self.issued.add(evaluation_id)
        self.evaluations[evaluation_id] = {
            "question": self.question(asked),
            "actor": self.actor_of(asked["subject"]),
            "members": self.members(asked),
            "ends": now + timedelta(seconds=DENIAL_SECONDS),
            "client": client,
            "requestable": requestable,
        }
        return {"evaluation_id": evaluation_id, "evaluated_at": instant(now)}

    def new_evaluation_id(self, asked: Json) -> str:
        return "e-" + secrets.token_hex(12)

    def actor_of(self, subject: Json) -> Json | None:
        act = subject.get("properties", {}).get("act")
        return act if isinstance(act, dict) else None

    def requestable(self, asked: Json, client: str) -> Json:
        """The context of a denial that can be requested."""
        said = self.evaluated(asked, client, requestable=True)
        record = self.evaluations[said["evaluation_id"]]
        offer: Json = {
            "endpoint": self.requests,
            "template": "plain",
            "expires_at": instant(record["ends"]),
            "display": {"title": "Ask for access"},
        }
        if "denial-by-token" in self.parts:
            offer["binding_token"] = self.binding_token(said["evaluation_id"], record)
        if "denial-by-id" not in self.parts:
            del self.evaluations[said["evaluation_id"]]
        return {**said, "reason": "approval_required", "access_request": offer | self.form(asked, said)}

    def form(self, asked: Json, said: Json) -> Json:
        """Where it stands what has to be added."""
        found = {}
        if "catalogs" in self.parts and asked["resource"]["id"].startswith(("form", "catalog")):
            found["request_schema_url"] = f"{self.base}/forms/plain/schema"
            if asked["resource"]["id"].startswith("catalog"):
                found["request_catalogs_url"] = f"{self.base}/forms/plain/catalogs?evaluation={said['evaluation_id']}"
        return found

    def binding_token(self, evaluation_id: str, record: Json) -> str:
        """The denial, signed for the request service."""
        return self.signers["pdp"].sign(self.binding_claims(evaluation_id, record), typ=BINDING)

    def binding_claims(self, evaluation_id: str, record: Json) -> Json:
        return {
            "iss": self.base,
            "aud": self.requests,
            "iat": int(self.now().timestamp()),
            "exp": int(record["ends"].timestamp()),
            "jti": secrets.token_hex(12),
            "evaluation_id": evaluation_id,
            "denial_expires_at": instant(record["ends"]),
            "binding_context_members": record["members"],
            "client": record["client"],
            "actor": record["actor"],
            **record["question"],
        }

    # ---- approvals ----

    def reference_denied(self, asked: Json, given: Any, client: str) -> Json | None:
        """Why an approval that came along does not count; `outright` if nothing else counts then either."""
        nothing = {"reason": "approval_unverifiable", "next_action": "none"}
        if not isinstance(given, dict) or not isinstance(given.get("id"), str):
            return nothing
        state = given.get("state")
        if state is not None and (wrong := self.state_wrong(given)) is not None:
            return {**nothing, "outright": wrong == "mismatch"}
        record = self.approvals.get(given["id"])
        if record is None or "approval-by-id" not in self.parts:
            record = None if state is None else self.proved(given)
        if record is None or self.is_foreign(record, client):
            return nothing
        if self.is_over(record, given):
            return {"reason": "approval_expired", "next_action": "request"}
        if not self.is_in_scope(record, asked):
            return {"reason": "out_of_scope", "next_action": "request"}
        return None

    def state_wrong(self, given: Json) -> str | None:
        """What is wrong with a signed approval."""
        try:
            claims = opened(given["state"], signer=self.signers["ars"], typ=STATE)
        except Unreadable:
            return "signature"
        if not self.is_same_approval(claims, given):
            return "mismatch"
        return None if self.is_for_us(claims) else "issuer"

    def is_same_approval(self, claims: Json, given: Json) -> bool:
        return bool(claims["approval_id"] == given["id"])

    def is_for_us(self, claims: Json) -> bool:
        return bool(claims["iss"] == self.base + "/ars" and claims["aud"] == self.base)

    def proved(self, given: Json) -> Json:
        """The record of an approval: the one that is kept, or else what its signature says."""
        if given["id"] in self.approvals:
            return self.approvals[given["id"]]
        claims = opened(given["state"], signer=self.signers["ars"], typ=STATE)
        return {
            "id": claims["approval_id"],
            "until": datetime.fromtimestamp(claims["exp"], UTC),
            "client": claims["client"],
            "bulk": False,
            "members": claims["binding_context_members"],
            "question": {name: claims[name] for name in ("subject", "resource", "action", "context")},
        }

    def is_foreign(self, record: Json, client: str) -> bool:
        return bool(record["client"] != client)

    def is_over(self, record: Json, given: Json) -> bool:
        return self.is_revoked(record) or self.ends(record, given) <= self.now()

    def is_revoked(self, record: Json) -> bool:
        return bool(record.get("revoked"))

    def ends(self, record: Json, given: Json) -> datetime:
        """When an approval ends: what is kept counts, whatever is told."""
        found: datetime = record["until"]
        return found

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        """Whether the question is one that was approved: the same, or with a wide scope any resource of that type."""
        other = self.differing(asked, record["question"], record["members"])
        if record.get("wide") and other == {"resource"}:
            return bool(asked["resource"]["type"] == record["question"]["resource"]["type"])
        return not other

    def differing(self, asked: Json, bound: Json, members: Sequence[str]) -> set[str]:
        """The parts of a question that are not what was bound."""
        now = self.question(asked, members)
        return {name for name in bound if plain(now[name]) != plain(bound[name])}


def strict(raw: bytes) -> Any:
    """A JSON document that says everything once.

    Raises:
        ValueError: It is none.
    """

    def once(pairs: list[tuple[str, Any]]) -> Json:
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError
        return dict(pairs)

    def never(_: str) -> Any:
        raise ValueError

    return json.loads(raw.decode("utf-8"), object_pairs_hook=once, parse_constant=never)

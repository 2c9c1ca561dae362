"""Services with one fault each, by the check that must find it: discovery to the binding of submissions.

The others stand in `broken_tasks.py` and `broken_approvals.py`; `family.py` has them all.
"""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

import anyio.lowlevel
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from tests.arap_conformance.plain_decisions import EVERYTHING, Answer, Refusal
from tests.arap_conformance.signatures import Json, Signer, decoded, plain
from tests.arap_conformance.subject import PlainService, problem


class Broken(PlainService):
    """A service whose one fault the check named so must find."""

    found_by: ClassVar[str]
    also: ClassVar[frozenset[str]] = frozenset()  # checks that look at the very same thing as well
    hinders: ClassVar[frozenset[str]] = frozenset()  # checks that cannot be run because of it
    offers: ClassVar[frozenset[str]] = EVERYTHING

    def __init__(self, base: str = "https://plain.example", **more: Any) -> None:
        super().__init__(base, parts=self.offers, **more)


# ---- discovery ----


class SendsMetadataAsText(Broken):
    found_by = "metadata-found"

    def described(self) -> Answer:
        return replace(super().described(), kind="text/plain")


class NamesItselfOtherwise(Broken):
    found_by = "identifier-is-the-one-asked"

    def metadata(self) -> Json:
        return super().metadata() | {"policy_decision_point": self.base + "/other"}


class HidesItsRequestEndpoint(Broken):
    found_by = "request-endpoint-published"

    def metadata(self) -> Json:
        found = super().metadata()
        del found["access_request_endpoint"]
        return found


class PublishesPlainHttp(Broken):
    found_by = "endpoints-are-https"

    def metadata(self) -> Json:
        return super().metadata() | {"jwks_uri": f"{self.base}/keys".replace("https:", "http:")}


class ListsNoCapability(Broken):
    found_by = "capability-listed"

    def metadata(self) -> Json:
        return super().metadata() | {"capabilities": ["urn:example:something-else"]}


class PublishesNoKeys(Broken):
    found_by = "keys-published"
    hinders = frozenset({"token-is-signed", "state-is-signed-for-the-pdp"})

    def metadata(self) -> Json:
        found = super().metadata()
        del found["jwks_uri"]
        return found


class PublishesAPrivateKey(Broken):
    found_by = "keys-are-public"

    def jwks(self) -> Json:
        found = super().jwks()
        found["keys"][0]["d"] = "c2VjcmV0"
        return found


class PublishesKeysWithoutUse(Broken):
    found_by = "keys-are-labelled"

    def jwks(self) -> Json:
        return {"keys": [{name: jwk[name] for name in jwk if name != "use"} for jwk in super().jwks()["keys"]]}


# ---- denials ----


class DeniesWithAnError(Broken):
    found_by = "denial-is-an-answer"

    def answered(self, asked: Any, client: str) -> Answer:
        answer = super().answered(asked, client)
        offered = "access_request" in answer.body.get("context", {})
        return replace(answer, status=403) if offered and "approval" not in asked.get("context", {}) else answer


class OffersWithoutEnd(Broken):
    found_by = "denial-says-how-long"
    also = frozenset({"request-comes-with-an-offer"})  # whose offer has no end either
    hinders = frozenset({"token-proves-its-end", "later-end-is-refused"})

    def requestable(self, asked: Json, client: str) -> Json:
        found = super().requestable(asked, client)
        found["access_request"]["expires_at"] = "soon"
        return found

    def moment(self, value: Any) -> datetime:
        return self.now() + timedelta(seconds=300) if value == "soon" else super().moment(value)

    def fresh(self, found: Json, echoed: datetime, *, by_token: bool) -> None:
        super().fresh(found, found["protected"], by_token=by_token)


class OffersWhatCannotBeBound(Broken):
    found_by = "denial-can-be-bound"

    also = frozenset({"evaluations-have-ids", "request-comes-with-an-offer"})  # which are said of the same members

    def requestable(self, asked: Json, client: str) -> Json:
        found = super().requestable(asked, client)
        del found["evaluation_id"]
        offer = found["access_request"]
        offer["binding_token"] = {"jws": offer["binding_token"]}
        return found

    def by_token(self, token: Any) -> Json:
        return super().by_token(token["jws"] if isinstance(token, dict) else token)


class OffersBesideAPermit(Broken):
    found_by = "permit-offers-nothing"

    def decide(self, asked: Json, client: str) -> Json:
        found = super().decide(asked, client)
        if asked["resource"]["id"].startswith("open"):
            return found | {"context": self.requestable(asked, client)}
        return found


class OffersTheHopeless(Broken):
    found_by = "plain-denial-offers-nothing"

    def decide(self, asked: Json, client: str) -> Json:
        found = super().decide(asked, client)
        if asked["resource"]["id"].startswith("closed"):
            found["context"]["access_request"] = self.requestable(asked, client)["access_request"]
        return found


class RepeatsItsIds(Broken):
    found_by = "evaluations-have-ids"

    def new_evaluation_id(self, asked: Json) -> str:
        return "e-" + "".join(f"{ord(letter):x}" for letter in json.dumps(self.question(asked), sort_keys=True))


class HasAReasonOfTheHour(Broken):
    found_by = "reason-is-stable"

    def requestable(self, asked: Json, client: str) -> Json:
        return super().requestable(asked, client) | {"reason": f"denied-{len(self.issued)}"}


class SignsWithAKeyOfItsOwn(Broken):
    found_by = "token-is-signed"

    def jwks(self) -> Json:
        return {"keys": [Signer("pdp-1").jwk(), self.signers["ars"].jwk()]}


class TokenBroken(Broken):
    """Something is wrong with the claims of binding tokens, and the service does not mind."""

    def by_token(self, token: Any) -> Json:
        record = self.by_id(self.opened(token)["evaluation_id"])
        return record | {"once": self.opened(token)["jti"]}


class NamesNoAudience(TokenBroken):
    found_by = "token-names-its-audience"

    def binding_claims(self, evaluation_id: str, record: Json) -> Json:
        claims = super().binding_claims(evaluation_id, record)
        del claims["aud"]
        return claims


class ProvesNoEnd(TokenBroken):
    found_by = "token-proves-its-end"

    def binding_claims(self, evaluation_id: str, record: Json) -> Json:
        claims = super().binding_claims(evaluation_id, record)
        del claims["denial_expires_at"]
        return claims | {"exp": claims["exp"] + 3600}


class BindsAnotherQuestion(TokenBroken):
    found_by = "token-binds-the-question"

    def binding_claims(self, evaluation_id: str, record: Json) -> Json:
        return super().binding_claims(evaluation_id, record) | {"resource": {"type": "thing", "id": "something"}}


class BindsTheSubjectOnly(TokenBroken):
    found_by = "token-binds-the-question"

    def binding_claims(self, evaluation_id: str, record: Json) -> Json:
        claims = super().binding_claims(evaluation_id, record)
        return {name: claims[name] for name in claims if name not in {"resource", "action", "binding_hash"}}


class BindsTheMachinery(Broken):
    found_by = "machinery-is-not-bound"

    def members(self, asked: Json) -> list[str]:
        return [*super().members(asked), *(name for name in ("reason", "approval") if name in asked.get("context", {}))]


# ---- submissions ----


class TakesFromAnybody(Broken):
    found_by = "submission-needs-authentication"

    def caller(self, headers: Json, operation: str) -> Json:
        if operation == "submit" and "authorization" not in headers:
            return self.callers["token-1"] | {"token": ""}
        return super().caller(headers, operation)


class AsksForNothing(Broken):
    found_by = "submission-needs-authentication"

    def unauthenticated(self) -> Refusal:
        return problem("unauthenticated", 401)


class AnswersWithOk(Broken):
    found_by = "submission-becomes-task"

    def code(self, task: Json) -> int:
        return 200 if super().code(task) == 202 else 201


class SendsElsewhere(Broken):
    found_by = "location-is-the-status-endpoint"

    def accepted(self, task: Json, caller: Json, status: int) -> Answer:
        answer = super().accepted(task, caller, status)
        return replace(answer, headers=answer.headers | {"Location": self.requests})


class CountsItsTasks(Broken):
    found_by = "task-ids-are-unguessable"

    def new_task_id(self) -> str:
        return f"task-{len(self.tasks) + 1:024d}"


class CallsMissingBindingMalformed(Broken):
    found_by = "binding-is-required"

    def by_id(self, evaluation_id: Any) -> Json:
        if evaluation_id is None:
            raise problem("invalid-request", 400)
        return super().by_id(evaluation_id)


class SendsProblemsAsJson(Broken):
    found_by = "errors-are-problems"

    async def submit(self, body: Any, caller: Json, key: str | None) -> Answer:
        try:
            return await super().submit(body, caller, key)
        except Refusal as refusal:
            raise Refusal(replace(refusal.answer, kind="application/json")) from None


class TakesPlainDenials(Broken):
    found_by = "plain-denial-is-not-requestable"

    def by_id(self, evaluation_id: Any) -> Json:
        return super().by_id(evaluation_id) | {"requestable": True}


class RefusesWhatItDoesNotKnow(Broken):
    found_by = "unknown-members-are-ignored"

    def shape(self, body: Any) -> None:
        super().shape(body)
        if body.get("client", {}).keys() - {"id", "name", "actor", "source"}:
            raise problem("invalid-request", 400)


class CallsApprovedAccepted(Broken):
    found_by = "resolved-at-once"

    def code(self, task: Json) -> int:
        return 202


# ---- binding ----


class Careless(Broken):
    """With a token, some difference between denial and submission does not matter."""

    ignored: ClassVar[str]
    is_by_token = True

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        self.is_by_token = "binding_token" in denial
        super().compare(body, part, denial, found)

    def matters(self, differing: set[str]) -> bool:
        return super().matters(differing - {self.ignored} if self.is_by_token else differing)


class TakesAnySubject(Careless):
    found_by, ignored = "changed-subject", "subject"
    also = frozenset({"changed-properties"})  # which are a part of it


class TakesAnyAction(Careless):
    found_by, ignored = "changed-action", "action"
    also = frozenset({"changed-properties"})  # which are a part of it


class TakesAnyContext(Careless):
    found_by, ignored = "changed-context", "context"


class TakesWhatIsMissing(Broken):
    found_by = "changed-context"

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        bound, told = found["question"]["context"], body.get("context", {})
        missing = {name: bound[name] for name in bound if name not in told}
        super().compare(body | {"context": told | missing}, part, denial, found)


class TakesAnyResource(Broken):
    found_by = "changed-resource"
    hinders = frozenset({"errors-are-problems", "failure-spends-nothing"})

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        was, told = found["question"]["resource"], part["resource"]
        is_plain = not {"items", "callback"} & body.keys() and found["evaluation_id"] not in self.stale
        is_plain = is_plain and "binding_token" in denial
        if is_plain and plain(told.get("properties")) == plain(was.get("properties")):
            part = part | {"resource": was}
        super().compare(body, part, denial, found)


class IgnoresProperties(Broken):
    found_by = "changed-properties"

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        was, told = found["question"]["resource"], part["resource"]
        known = was.get("properties", {})
        rest = {name: value for name, value in told.get("properties", {}).items() if name in known}
        bare = {name: told[name] for name in told if name != "properties"}
        part = part | {"resource": bare | ({"properties": rest} if rest else {})}
        super().compare(body, part, denial, found)


class TakesOneForTrue(Broken):
    found_by = "values-have-types"

    def differing(self, asked: Json, bound: Json, members: Any) -> set[str]:
        now = self.question(asked, members)
        return {name for name in bound if loosely(now[name]) != loosely(bound[name])}


def loosely(value: Any) -> Any:
    """Without the difference between 1, true and "1"."""
    if isinstance(value, dict):
        return {name: loosely(member) for name, member in value.items()}
    if isinstance(value, list):
        return [loosely(item) for item in value]
    return str(int(value)) if isinstance(value, bool | int | float) else value


class ComparesTheWholeContext(Broken):
    found_by = "added-context-is-accepted"

    def __init__(self, base: str = "https://plain.example", **more: Any) -> None:
        super().__init__(base, **more)
        self.named: dict[str, set[str]] = {}

    def evaluated(self, asked: Json, client: str, *, requestable: bool) -> Json:
        said = super().evaluated(asked, client, requestable=requestable)
        self.named[said["evaluation_id"]] = set(asked.get("context", {}))
        return said

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        if set(body.get("context", {})) - self.named[found["evaluation_id"]]:
            raise problem("invalid_denial_binding")
        super().compare(body, part, denial, found)


class LooksAtNoSignature(Broken):
    found_by = "token-signature-is-verified"
    strict = False

    def bound(self, body: Json, part: Json, denial: Json, caller: Json) -> Json:
        self.strict = "evaluation_id" in denial
        return super().bound(body, part, denial, caller)

    def opened(self, token: Any) -> Json:
        head, _, rest = str(token).partition(".")
        header = json.loads(decoded(head))
        if self.strict or header.get("alg") != "EdDSA" or "jwk" in header:
            return super().opened(token)
        claims: Json = json.loads(decoded(rest.partition(".")[0]))
        return claims


class TakesOtherClaims(Broken):
    found_by = "token-signature-is-verified"

    def __init__(self, base: str = "https://plain.example", **more: Any) -> None:
        super().__init__(base, **more)
        self.signatures: set[str] = set()

    def binding_token(self, evaluation_id: str, record: Json) -> str:
        token = super().binding_token(evaluation_id, record)
        self.signatures.add(token.rpartition(".")[2])
        return token

    def opened(self, token: Any) -> Json:
        signed, _, signature = str(token).rpartition(".")
        if signature not in self.signatures:
            return super().opened(token)
        claims: Json = json.loads(decoded(signed.partition(".")[2]))
        return claims


class TakesUnsignedTokens(Broken):
    found_by = "unsigned-token-is-refused"

    def opened(self, token: Any) -> Json:
        head, _, rest = str(token).partition(".")
        if str(json.loads(decoded(head)).get("alg")).lower() == "none":
            claims: Json = json.loads(decoded(rest.partition(".")[0]))
            return claims
        return super().opened(token)


class TrustsTheKeyInTheToken(Broken):
    found_by = "own-key-is-refused"

    def opened(self, token: Any) -> Json:
        signed, _, signature = str(token).rpartition(".")
        head, _, payload = signed.partition(".")
        if "jwk" not in (header := json.loads(decoded(head))):
            return super().opened(token)
        x, y = (int.from_bytes(decoded(header["jwk"][name]), "big") for name in ("x", "y"))
        halves = (int.from_bytes(decoded(signature)[start : start + 32], "big") for start in (0, 32))
        ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key().verify(
            encode_dss_signature(*halves), signed.encode(), ec.ECDSA(SHA256())
        )
        claims: Json = json.loads(decoded(payload))
        return claims


class FallsBackToTheId(Broken):
    found_by = "token-outranks-id"

    def bound(self, body: Json, part: Json, denial: Json, caller: Json) -> Json:
        try:
            self.opened(denial.get("binding_token"))
        except Refusal:
            if denial.get("evaluation_id") in self.evaluations:
                denial = {name: denial[name] for name in denial if name != "binding_token"}
        return super().bound(body, part, denial, caller)


class TakesAnyId(Broken):
    found_by = "unknown-evaluation"

    def bound(self, body: Json, part: Json, denial: Json, caller: Json) -> Json:
        named = denial.get("evaluation_id")
        if "binding_token" not in denial and isinstance(named, str) and named not in self.evaluations:
            asked = {"subject": body["subject"], "resource": part["resource"], "action": part["action"]}
            said = self.evaluated(asked | {"context": body.get("context", {})}, caller["client"], requestable=True)
            denial = denial | {"evaluation_id": said["evaluation_id"]}
        return super().bound(body, part, denial, caller)


class BelievesTheEcho(Broken):
    found_by = "later-end-is-refused"

    def fresh(self, found: Json, echoed: datetime, *, by_token: bool) -> None:
        super().fresh(found, found["protected"], by_token=by_token)


class KnowsNoEnd(Broken):
    found_by = "expired-denial"

    def fresh(self, found: Json, echoed: datetime, *, by_token: bool) -> None:
        if not by_token or echoed != found["protected"]:
            super().fresh(found, echoed, by_token=by_token)


class TakesTokensTwice(Broken):
    found_by = "replayed-token"

    def spend(self, bindings: Any) -> None:
        """Never spent."""


# ---- order ----


class ReadsBeforeItAsks(Broken):
    found_by = "caller-before-body"

    def caller(self, headers: Json, operation: str) -> Json:
        if operation == "nothing":
            raise problem("invalid-request", 400)
        return super().caller(headers, operation)


class LooksAtTheClockFirst(Broken):
    found_by = "binding-before-expiry"

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        self.in_time(found)
        super().compare(body, part, denial, found)


class BindsBeforeItLooksAtTheKey(Broken):
    found_by = "key-before-binding"

    def repeated(self, body: Json, caller: Json, key: str) -> Answer | None:
        for part, denial in self.parts_of(body):
            self.bound(body, part, denial, caller)
        return super().repeated(body, caller, key)


class LooksAtTheCallbackFirst(Broken):
    found_by = "binding-before-callback"

    def parts_of(self, body: Json) -> list[tuple[Json, Json]]:
        self.destination(body, self.callers["token-1"])
        return super().parts_of(body)


# ---- idempotency ----


class ForgetsEqualBodies(Broken):
    found_by = "same-key-same-task"
    calling, is_crowded = 0, False

    async def submit(self, body: Any, caller: Json, key: str | None) -> Answer:
        self.calling += 1
        await anyio.lowlevel.checkpoint()
        self.is_crowded = self.is_crowded or self.calling > 1
        try:
            return await super().submit(body, caller, key)
        finally:
            self.calling -= 1
            self.is_crowded = self.is_crowded and self.calling > 0

    def repeated(self, body: Json, caller: Json, key: str) -> Answer | None:
        before = super().repeated(body, caller, key)
        if before is None or self.is_crowded or before.body["task"]["status"] != "pending":
            return before
        task = self.tasks[before.body["task"]["id"]] | {"id": self.new_task_id()}
        self.tasks[task["id"]] = task
        return self.accepted(task, caller, before.status)


class ComparesLetterByLetter(Broken):
    found_by = "same-key-same-task"

    def __init__(self, base: str = "https://plain.example", **more: Any) -> None:
        super().__init__(base, **more)
        self.texts: dict[str, str] = {}

    def is_equivalent(self, body: Json, before: str) -> bool:
        return super().is_equivalent(body, before) and json.dumps(body) == self.texts[before]

    def open(self, body: Json, caller: Json, bindings: Any) -> Json:
        self.texts[plain(body)] = json.dumps(body)
        return super().open(body, caller, bindings)


class TakesAnythingForEqual(Broken):
    found_by = "same-key-other-body"

    def is_equivalent(self, body: Json, before: str) -> bool:
        one = json.loads(before)
        return all(body.get(name) == one.get(name) for name in ("subject", "resource", "action", "denial"))


class SharesKeysAmongCallers(Broken):
    found_by = "keys-belong-to-their-caller"

    def owner(self, caller: Json) -> str:
        return "everybody"


class LosesARace(Broken):
    found_by = "equal-submissions-race"
    calling = 0

    async def submit(self, body: Any, caller: Json, key: str | None) -> Answer:
        self.calling += 1
        await anyio.lowlevel.checkpoint()
        try:
            return await super().submit(body, caller, key)
        finally:
            self.calling -= 1

    def repeated(self, body: Json, caller: Json, key: str) -> Answer | None:
        return None if self.calling > 1 else super().repeated(body, caller, key)

    def spend(self, bindings: Any) -> None:
        if self.calling == 1:
            super().spend(bindings)


class ForgetsKeysAtTheEnd(Broken):
    found_by = "key-outlives-the-end"

    def repeated(self, body: Json, caller: Json, key: str) -> Answer | None:
        before = super().repeated(body, caller, key)
        return before if before is None or before.body["task"]["status"] == "pending" else None


class SpendsOnFailure(Broken):
    found_by = "failure-spends-nothing"

    async def submit(self, body: Any, caller: Json, key: str | None) -> Answer:
        try:
            return await super().submit(body, caller, key)
        except Refusal as refusal:
            failed = "invalid_denial_binding" in refusal.answer.body["type"]
            if key is not None and failed and (self.owner(caller), key.strip('"')) not in self.keys:
                self.keys[self.owner(caller), key.strip('"')] = ("{}", "t-none", 400)
            raise

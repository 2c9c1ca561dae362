"""A request service in raw dicts on top of the decision point of `plain_decisions.py`: the second subject of the suite.

It is correct, and built otherwise than ours: context and questions are kept inline, callbacks carry a bearer token, a
client's rights stand in a table. What is wrong with the others, `broken.py` overrides: every decision is a method.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from tests.arap_conformance.plain_decisions import (
    BINDING,
    STATE,
    Answer,
    PlainDecisions,
    Refusal,
    instant,
)
from tests.arap_conformance.signatures import Json, Unreadable, opened, plain

URN = "urn:openid:authzen:access-request:error:"
OWN = "https://plain.example/problems/"
TOLERANCE = timedelta(seconds=30)
PENDING_SECONDS, KEPT_SECONDS, APPROVAL_SECONDS = 900, 3600, 600
EVENTS = frozenset({"approved", "denied", "expired", "cancelled", "failed", "partial"})
RIGHTS = frozenset({"evaluate", "submit", "status", "result", "cancel", "catalog"})
CALLBACK_TOKEN = "the-service-itself"
# Who holds a token, whose tasks he may see, and what he may do.
CALLERS: dict[str, Json] = {
    "token-1": {"client": "pep", "may": RIGHTS},
    "token-2": {"client": "pep", "may": RIGHTS},
    "token-3": {"client": "neighbour", "may": RIGHTS},
    "token-4": {"client": "watcher", "may": {"status"}, "of": "pep"},
}
STATUSES = {"unknown_task": 404, "task_expired": 410, "expired_denial": 410}
CONFLICTS = ("duplicate_request", "invalid_task_state")
PROJECTS = [{"value": f"p-{number}", "label": f"Project {number}"} for number in (1, 2, 3, 4, 5, 9)]
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "context": {"type": "object"},
        "requested_access": {
            "type": "object",
            "properties": {"project": {"type": "string"}, "justification": {"type": "string"}},
            "required": ["justification"],
        },
    },
    "required": ["requested_access"],
}
WAYS = {"deny": "denied", "expire": "expired"}
LATER = ("ask", "forbid", "revoke")
VERBS = (
    *WAYS,
    *LATER,
    "approve",
    "approve_briefly",
    "approve_item",
    "approve_wider",
    "deny_item",
    "expire_denial",
)
Deliver = Callable[[str, Json, Json], Awaitable[bool]]


def problem(name: str, status: int | None = None, **more: Any) -> Refusal:
    """A problem of the draft, or with a status one of our own."""
    if status is not None:
        urn = OWN + name
    else:
        urn, status = URN + name, STATUSES.get(name, 409 if name in CONFLICTS else 400)
    body = {"type": urn, "title": name.replace("_", " "), "status": status}
    return Refusal(Answer(status, body, more, "application/problem+json"))


class PlainService(PlainDecisions):
    """`tasks`, `keys` and `used` are what a database would keep; `callbacks` are each client's destinations."""

    def __init__(self, base: str = "https://plain.example", *, deliver: Deliver | None = None, **more: Any) -> None:
        super().__init__(base, **more)
        self.deliver = deliver
        self.callers: dict[str, Json] = dict(CALLERS)
        self.tasks: dict[str, Json] = {}
        self.keys: dict[tuple[str, str], tuple[str, str, int]] = {}
        self.used: set[str] = set()
        self.callbacks: dict[str, set[str]] = {}

    # ---- who calls ----

    def caller(self, headers: Json, operation: str) -> Json:
        """Who calls, to do what.

        Raises:
            Refusal: Nobody that we know.
        """
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or token not in self.callers:
            raise self.unauthenticated()
        return {**self.callers[token], "token": token}

    def unauthenticated(self) -> Refusal:
        return problem("unauthenticated", 401, **{"WWW-Authenticate": "Bearer"})

    def allow(self, caller: Json, right: str) -> None:
        """Raises: Refusal: The caller may not."""
        if right not in caller["may"]:
            raise problem("forbidden", 403)

    # ---- submission ----

    async def submit(self, body: Any, caller: Json, key: str | None) -> Answer:
        """A task for a denial that was bound to its question."""
        self.shape(body)
        self.allow(caller, "submit")
        if key is not None and (before := self.repeated(body, caller, key)) is not None:
            return before  # from here to the end nothing is awaited: nobody comes between
        parts = self.parts_of(body)
        bindings = [self.bound(body, part, denial, caller) for part, denial in parts]
        self.spend(bindings)
        self.actor(body, caller, bindings)
        self.inputs(body, parts)
        self.destination(body, caller)
        task = self.open(body, caller, bindings)
        status = self.code(task)
        if key is not None:
            self.keys[self.owner(caller), key.strip('"')] = (plain(body), task["id"], status)
        return self.accepted(task, caller, status)

    def accepted(self, task: Json, caller: Json, status: int) -> Answer:
        shown = self.shown(task, caller)
        return Answer(status, shown, {"Location": shown["task"]["status_endpoint"], "Cache-Control": "no-store"})

    def code(self, task: Json) -> int:
        return 202 if task["status"] == "pending" else 201

    def shape(self, body: Any) -> None:
        """Raises: Refusal: It is no submission."""
        good = isinstance(body, dict) and self.is_entity(body.get("subject"), "type", "id")
        if good and "items" in body:
            good = self.are_items(body)
        elif good:
            good = self.is_entity(body.get("resource"), "type", "id") and self.is_entity(body.get("action"), "name")
        if not good or not all(
            isinstance(body.get(name, {}), dict)
            for name in ("context", "requested_access", "callback", "client", "denial")
        ):
            raise problem("invalid-request", 400)

    def are_items(self, body: Json) -> bool:
        items = body["items"]
        if "bulk" not in self.parts:
            raise problem("bulk-unsupported", 400)
        return (
            isinstance(items, list)
            and items != []
            and "resource" not in body
            and "action" not in body
            and all(
                isinstance(item, dict)
                and self.is_entity(item.get("resource"), "type", "id")
                and self.is_entity(item.get("action"), "name")
                and isinstance(item.get("denial", {}), dict)
                for item in items
            )
            and len({plain([item["resource"], item["action"]]) for item in items}) == len(items)
        )

    def is_entity(self, value: Any, *members: str) -> bool:
        return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in members)

    def repeated(self, body: Json, caller: Json, key: str) -> Answer | None:
        """The answer to the submission that this one repeats."""
        before = self.keys.get((self.owner(caller), key.strip('"')))
        if before is None:
            return None
        if not self.is_equivalent(body, before[0]):
            raise problem("duplicate_request")
        task = self.tasks.get(before[1])
        if task is None or self.is_gone(task):
            raise problem("task_expired")
        return self.accepted(task, caller, before[2])

    def owner(self, caller: Json) -> str:
        """Whose a key is."""
        return str(caller["client"])

    def is_equivalent(self, body: Json, before: str) -> bool:
        return plain(body) == before

    def parts_of(self, body: Json) -> list[tuple[Json, Json]]:
        """Each thing that is asked for, and the denial that it rests on."""
        whole = body.get("denial", {})
        if "items" not in body:
            return [(body, whole)]
        return [(item, item.get("denial", whole if len(body["items"]) == 1 else {})) for item in body["items"]]

    def bound(self, body: Json, part: Json, denial: Json, caller: Json) -> Json:
        """The denial behind a part of a submission, verified.

        Raises:
            Refusal: It is none, or of something else, or too old.
        """
        echoed = self.moment(denial.get("expires_at"))
        token = denial.get("binding_token")
        found = self.by_token(token) if token is not None else self.by_id(denial.get("evaluation_id"))
        if not found["requestable"]:
            raise problem("not_requestable")
        self.compare(body, part, denial, found)
        if found["client"] != caller["client"]:
            raise problem("invalid_denial_binding")
        self.fresh(found, echoed, by_token=token is not None)
        return found

    def moment(self, value: Any) -> datetime:
        try:
            found = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise problem("invalid_denial_binding") from None
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def by_token(self, token: Any) -> Json:
        """What the decision point signed."""
        if "denial-by-token" not in self.parts:
            raise problem("invalid_denial_binding")
        claims = self.opened(token)
        self.audience(claims)
        return {
            "question": {name: claims[name] for name in ("subject", "resource", "action", "context")},
            "actor": claims["actor"],
            "members": claims["binding_context_members"],
            "ends": min(
                datetime.fromtimestamp(claims["exp"], UTC), datetime.fromisoformat(claims["denial_expires_at"])
            ),
            "protected": datetime.fromisoformat(claims["denial_expires_at"]),
            "client": claims["client"],
            "requestable": True,
            "evaluation_id": claims["evaluation_id"],
            "once": claims["jti"],
        }

    def opened(self, token: Any) -> Json:
        try:
            return opened(token, signer=self.signers["pdp"], typ=BINDING)
        except Unreadable:
            raise problem("invalid_denial_binding") from None

    def audience(self, claims: Json) -> None:
        if claims.get("aud") != self.requests or claims.get("iss") != self.base:
            raise problem("invalid_denial_binding")

    def by_id(self, evaluation_id: Any) -> Json:
        """What the decision point kept."""
        record = self.evaluations.get(evaluation_id) if isinstance(evaluation_id, str) else None
        if record is None or "denial-by-id" not in self.parts:
            raise problem("invalid_denial_binding")
        return {**record, "protected": record["ends"], "evaluation_id": evaluation_id, "once": evaluation_id}

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        """Raises: Refusal: The submission is about something else than the denial."""
        asked = {"subject": body["subject"], "resource": part["resource"], "action": part["action"]}
        asked |= {"context": body.get("context", {})}
        echoed = denial.get("evaluation_id", found["evaluation_id"])
        if echoed != found["evaluation_id"] or self.matters(self.differing(asked, found["question"], found["members"])):
            raise problem("invalid_denial_binding")

    def matters(self, differing: set[str]) -> bool:
        """Whether a submission that differs in these parts is another one."""
        return bool(differing)

    def fresh(self, found: Json, echoed: datetime, *, by_token: bool) -> None:
        """Raises: Refusal: It is too late, or the submission claims another time than the denial."""
        if by_token and echoed != found["protected"]:
            raise problem("invalid_denial_binding")
        self.in_time(found)

    def in_time(self, found: Json) -> None:
        """Raises: Refusal: It is too late."""
        if found["evaluation_id"] in self.stale or self.now() > found["ends"] + TOLERANCE:
            raise problem("expired_denial")

    def spend(self, bindings: Sequence[Json]) -> None:
        """Raises: Refusal: One of the denials has been used."""
        if self.used & {binding["once"] for binding in bindings}:
            raise problem("invalid_denial_binding")

    def actor(self, body: Json, caller: Json, bindings: Sequence[Json]) -> None:
        """Raises: Refusal: The submission claims to be on behalf of whom the caller cannot show, or hides him."""
        claimed = body.get("client", {}).get("actor")
        chain: list[Json] = []
        if isinstance(claimed, dict):
            chain.append({"iss": claimed.get("issuer"), "sub": claimed.get("id")})
            below = claimed.get("act")
            while isinstance(below, dict):
                chain.append({"iss": below.get("iss"), "sub": below.get("sub")})
                below = below.get("act")
        if chain and chain != caller.get("act"):
            raise problem("actor-unverified", 403)
        act = body["subject"].get("properties", {}).get("act")
        kept = [{name: act.get(name) for name in ("iss", "sub")}] if isinstance(act, dict) else chain[:1]
        for binding in bindings:
            told = binding["actor"]
            if told is not None and kept != [{name: told.get(name) for name in ("iss", "sub")}]:
                raise problem("invalid_denial_binding")

    def inputs(self, body: Json, parts: Sequence[tuple[Json, Json]]) -> None:
        """Raises: Refusal: What the form asks for is missing, or a value is none of the catalog."""
        for part, _ in parts:
            given = {**body.get("requested_access", {}), **part.get("requested_access", {})}
            if (until := given.get("requested_until")) is not None and self.moment(until) <= self.now():
                raise problem("input-invalid", 422)
            if part["resource"]["id"].startswith(("form", "catalog")):
                self.required(given)
                self.catalog_value(given)

    def required(self, given: Json) -> None:
        if not isinstance(given.get("justification"), str):
            raise problem("input-invalid", 422)

    def catalog_value(self, given: Json) -> None:
        if "project" in given and given["project"] not in [item["value"] for item in self.projects()]:
            raise problem("catalog-value-rejected", 422)

    def destination(self, body: Json, caller: Json) -> None:
        """Raises: Refusal: Notices are wanted where none may go, or of what does not happen."""
        callback = body.get("callback")
        if callback is None:
            return
        events = callback.get("events", [])
        known = isinstance(events, list) and all(isinstance(one, str) and one in EVENTS for one in events)
        if "callbacks" not in self.parts or not known or not self.may_go(callback.get("endpoint"), caller):
            raise problem("callback-rejected", 400)

    def may_go(self, endpoint: Any, caller: Json) -> bool:
        return isinstance(endpoint, str) and endpoint in self.callbacks.get(caller["client"], set())

    def is_inside(self, endpoint: Any) -> bool:
        """Whether an address is an internal one."""
        host = urlsplit(endpoint).hostname or "" if isinstance(endpoint, str) else ""
        return host == "localhost" or host.startswith(("10.", "127.", "169.254.", "192.168.")) or ":" in host

    # ---- tasks ----

    def open(self, body: Json, caller: Json, bindings: Sequence[Json]) -> Json:
        """A task for what was verified."""
        now = self.now()
        self.used |= {binding["once"] for binding in bindings}
        task: Json = {
            "id": self.new_task_id(),
            "client": caller["client"],
            "deadline": now + timedelta(seconds=PENDING_SECONDS),
            "kept": now + timedelta(seconds=PENDING_SECONDS + KEPT_SECONDS),
            "until": body.get("requested_access", {}).get("requested_until"),
            "callback": body.get("callback"),
            "bulk": "items" in body,
            "parts": [
                {"status": "pending", "question": one["question"], "members": one["members"]} for one in bindings
            ],
            "echoes": [{name: item[name] for name in ("resource", "action")} for item in body.get("items", [])],
            "status": "pending",
        }
        self.tasks[task["id"]] = task
        if all(one["question"]["resource"]["id"].startswith("auto") for one in bindings):
            for part in task["parts"]:
                self.grant(task, part)
            self.settle(task)
        return task

    def new_task_id(self) -> str:
        return "t-" + secrets.token_urlsafe(24)

    def new_approval_id(self) -> str:
        return "a-" + secrets.token_urlsafe(24)

    def grant(self, task: Json, part: Json) -> None:
        """Approve a part of a task."""
        until = self.now() + timedelta(seconds=APPROVAL_SECONDS)
        if task["until"] is not None:
            until = min(until, self.moment(task["until"]).replace(microsecond=0))
        approval = {
            "id": self.new_approval_id(),
            "until": until,
            "client": task["client"],
            "bulk": task["bulk"],
            "question": part["question"],
            "members": part["members"],
        }
        part["status"], part["approval"] = "approved", approval
        self.approvals[approval["id"]] = approval

    def result(self, part: Json) -> Json:
        """What is handed out for a part that was approved."""
        approval = part["approval"]
        shown = {"id": approval["id"], "approved_until": instant(approval["until"])}
        if "approval-by-state" in self.parts:
            shown["state"] = self.signers["ars"].sign(self.state_claims(approval), typ=STATE)
        return {"mode": "reevaluate", "approval": shown}

    def state_claims(self, approval: Json) -> Json:
        return {
            "iss": self.base + "/ars",
            "aud": self.base,
            "iat": int(self.now().timestamp()),
            "exp": int(approval["until"].timestamp()),
            "approval_id": approval["id"],
            "client": approval["client"],
            "binding_context_members": approval["members"],
            **approval["question"],
        }

    def settle(self, task: Json) -> None:
        """Take the status of the whole from its parts."""
        found = {part["status"] for part in task["parts"]}
        task["status"] = self.aggregate(found)

    def aggregate(self, found: set[str]) -> str:
        if "pending" in found:
            return "pending"
        return found.pop() if len(found) == 1 else "partial"

    def is_gone(self, task: Json) -> bool:
        return bool(task["kept"] <= self.now())

    def mine(self, task_id: str, caller: Json, right: str) -> Json:
        """A task that the caller may do this to.

        Raises:
            Refusal: It is unknown to the caller, over, or not for him to do that to.
        """
        task = self.tasks.get(task_id)
        if task is None or not self.is_his(task, caller, right):
            raise self.unknown(task)
        if self.is_gone(task):
            raise problem("task_expired")
        self.allow(caller, right)
        return task

    def is_his(self, task: Json, caller: Json, right: str) -> bool:
        """Whether a task is the caller's to see at all."""
        return bool(task["client"] == caller.get("of", caller["client"]))

    def unknown(self, task: Json | None) -> Refusal:
        """What is said of a task that there is not, and of one that is not the caller's."""
        return problem("unknown_task")

    def status(self, task_id: str, caller: Json) -> Answer:
        task = self.mine(task_id, caller, "status")
        self.sweep(task)
        headers = {"Cache-Control": "no-store"} | ({"Retry-After": "1"} if task["status"] == "pending" else {})
        return Answer(200, self.shown(task, caller), headers)

    def sweep(self, task: Json) -> None:
        """End what was not decided in time."""
        if task["deadline"] <= self.now():
            self.end(task, "expired")

    def shown(self, task: Json, caller: Json) -> Json:
        """A task as the caller may see it."""
        handle, results = self.handle(task), "result" in caller["may"]
        if task["bulk"]:
            handle["items"] = [
                {**echo, "status": part["status"], **self.own_result(part, results)}
                for echo, part in zip(task["echoes"], task["parts"], strict=True)
            ]
            return {"task": handle}
        return {"task": handle, **self.own_result(task["parts"][0], results)}

    def handle(self, task: Json) -> Json:
        """What stands in `task`."""
        place = f"{self.requests}/{task['id']}"
        links = {"links": {"cancel": f"{place}/cancel"}} if "cancel" in self.parts else {}
        ends = {"expires_at": instant(task["kept"])}
        return {"id": task["id"], "status": task["status"], "status_endpoint": place, **ends, **links}

    def own_result(self, part: Json, results: bool) -> Json:  # noqa: FBT001 - whether the caller may have it
        return {"result": self.result(part)} if part["status"] == "approved" and results else {}

    async def cancel(self, task_id: str, caller: Json, body: Json | None) -> Answer:
        """Withdraw what is still open of a task."""
        if "cancel" not in self.parts:
            raise Refusal(Answer(405, None, {"Allow": ""}))
        task = self.mine(task_id, caller, "cancel")
        self.sweep(task)
        if not self.is_cancellable(task):
            raise problem("invalid_task_state")
        self.end(task, "cancelled")
        await self.tell(task)
        return Answer(200, self.shown(task, caller), {"Cache-Control": "no-store"})

    def is_cancellable(self, task: Json) -> bool:
        return any(part["status"] == "pending" for part in task["parts"])

    def end(self, task: Json, status: str) -> None:
        """End every part that is still open."""
        for part in task["parts"]:
            if self.is_open(part):
                part["status"] = status
        self.settle(task)

    def is_open(self, part: Json) -> bool:
        return bool(part["status"] == "pending")

    # ---- notices ----

    async def tell(self, task: Json) -> None:
        """Tell the end of a task to whom wanted to know."""
        callback = task["callback"]
        if callback is None or task["status"] == "pending" or self.deliver is None:
            return
        events = callback.get("events") or sorted(EVENTS)
        if self.is_wanted(task["status"], events) and not await self.deliver(
            callback["endpoint"], self.notice_headers(), self.notice(task, callback)
        ):
            self.undelivered(task)

    def is_wanted(self, event: str, events: Sequence[str]) -> bool:
        return event in events

    def undelivered(self, task: Json) -> None:
        """Nobody took a notice; the task is what it is."""

    def notice_headers(self) -> Json:
        return {"Authorization": f"Bearer {CALLBACK_TOKEN}"}

    def notice(self, task: Json, callback: Json) -> Json:
        handle = {
            "id": task["id"],
            "status": task["status"],
            "status_endpoint": f"{self.requests}/{task['id']}",
        }
        return {"task": handle, **({"state": callback["state"]} if "state" in callback else {})}

    # ---- catalogs ----

    def schema(self) -> Answer:
        """The schema of the form."""
        return Answer(200, SCHEMA)

    def catalogs(self, evaluation: str) -> Json:
        """The Catalogs Document of the form."""
        place = f"{self.base}/forms/plain/projects?evaluation={evaluation}"
        return {"fields": {"/requested_access/project": {"endpoint": place, "search_param": "q"}}}

    def catalog(self, query: Json, caller: Json) -> Json:
        """A page of what the caller may ask for."""
        self.allow(caller, "catalog")
        words = query.get("q", "").lower()
        found = [item for item in self.projects() if words in item["label"].lower()]
        try:
            start, most = int(query.get("cursor", "0")), min(int(query.get("limit", "50")), 50)
        except ValueError:
            raise problem("invalid-request", 400) from None
        return self.page(found, start, most)

    def projects(self) -> list[Json]:
        """What may be asked for by somebody."""
        return [item for item in PROJECTS if item["value"] != "p-9"]

    def page(self, found: Sequence[Json], start: int, most: int) -> Json:
        page: Json = {"items": found[start : start + most]}
        if start + most < len(found):
            page["next_cursor"] = str(start + most)
        return page

    # ---- the hands of whoever decides ----

    async def control(self, verb: str, named: Json) -> Answer:
        """What the control interface is told to do; 409 where that is too late."""
        if verb == "expire_denial":
            self.stale |= self.issued
            return Answer(204)
        task = self.tasks.get(named.get("task", ""))
        if task is None:
            return Answer(404)
        if verb in LATER:
            self.afterwards(verb, task)
            return Answer(204)
        chosen = task["parts"]
        if verb.endswith("_item"):
            verb, chosen = verb.removesuffix("_item"), [chosen[int(named["item"])]]
        open_ones = [part for part in chosen if self.may_still(verb, task, part)]
        for part in open_ones:
            self.decide_part(verb, task, part)
        self.settle(task)
        await self.tell(task)
        return Answer(204 if open_ones else 409)

    def may_still(self, verb: str, task: Json, part: Json) -> bool:
        """Whether a part can still be decided."""
        return bool(part["status"] == "pending")

    def decide_part(self, verb: str, task: Json, part: Json) -> None:
        """Decide one part of a task."""
        if verb in WAYS:
            part["status"] = WAYS[verb]
            return
        self.grant(task, part)
        part["approval"]["wide"] = verb == "approve_wider"
        if verb == "approve_briefly":
            part["approval"]["until"] = self.now()

    def afterwards(self, verb: str, task: Json) -> None:
        """Ask the requester, take approvals back, or have policy forbid what was approved."""
        for part in task["parts"]:
            if verb == "ask":
                self.ask(task)
            elif verb == "forbid":
                self.forbidden.add(plain(part["question"]))
            elif "approval" in part:
                self.revoke(task, part)

    def ask(self, task: Json) -> None:
        """A reviewer wants to know more; nothing of that is an end."""
        task["asked"] = True

    def revoke(self, task: Json, part: Json) -> None:
        """Take the approval of a part back."""
        part["approval"]["revoked"] = True

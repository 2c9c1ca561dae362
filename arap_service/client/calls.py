"""The calls of the resolver API as values: method, path, body and key, the same for both kinds of client."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

import httpx2

WAIT_SECONDS = 20
Document = dict[str, Any]
Decision = Literal["approve", "deny"]


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the API; one that reads, or that has a key, can be repeated."""

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    body: Document | None = None
    key: str | None = None
    patience: float | None = None  # seconds for one attempt, where the answer may take longer than usual

    @property
    def is_repeatable(self) -> bool:
        """Whether a lost answer may be asked for again."""
        return self.method == "GET" or self.key is not None

    def request(self, client: httpx2.Client | httpx2.AsyncClient) -> httpx2.Request:
        """The request that `client` sends."""
        headers = {} if self.key is None else {"Idempotency-Key": self.key}
        timeout = client.timeout if self.patience is None else httpx2.Timeout(self.patience)
        return client.build_request(
            self.method, self.path, params=dict(self.params), json=self.body, headers=headers, timeout=timeout
        )


def queue(cursor: str | None, filters: Mapping[str, str | int | bool | None]) -> Call:
    """A page of the queue."""
    return listing("requests", cursor, filters)


def listing(what: str, cursor: str | None, filters: Mapping[str, str | int | bool | None]) -> Call:
    """A page of a list."""
    params: dict[str, str | int] = {}
    for name, value in {**filters, "cursor": cursor}.items():
        if value is not None:
            params[name] = str(value).lower() if isinstance(value, bool) else value
    return Call("GET", f"/{what}", params)


def wait(after: str | None, seconds: int) -> Call:
    """What the caller may decide, as soon as something is new."""
    mark: dict[str, str | int] = {} if after is None else {"after": after}
    return Call("GET", "/requests", {"mine": "true", "wait": seconds, **mark}, patience=seconds + 10.0)


def get(request_id: str) -> Call:
    """One request."""
    return Call("GET", f"/requests/{quote(request_id, safe='')}")


def decide(
    request_id: str,
    decision: Decision,
    version: int,
    *,
    reason: str | None,
    approved_until: str | None,
    item: int | None,
    may_vary: Sequence[str] | None,
    proposed_arguments: Mapping[str, Any] | None,
) -> Call:
    """A decision, under a key of its own."""
    body: Document = {"decision": decision, "version": version}
    body |= {} if item is None else {"item": item}
    body |= {} if reason is None else {"reason": reason}
    body |= {} if approved_until is None else {"approved_until": approved_until}
    body |= {} if proposed_arguments is None else {"proposed_arguments": dict(proposed_arguments)}
    body |= {} if may_vary is None else {"scope": {"may_vary": list(may_vary)}}
    return Call("POST", f"/requests/{quote(request_id, safe='')}/decisions", body=body, key=secrets.token_urlsafe(16))


def revoke(approval_id: str, reason: str) -> Call:
    """The end of an approval."""
    return Call("POST", f"/approvals/{quote(approval_id, safe='')}/revoke", body={"reason": reason})


def say(request_id: str, what: str, body: Document | None = None) -> Call:
    """Something said about a request."""
    return Call("POST", f"/requests/{quote(request_id, safe='')}/{what}", body=body)


def propose(request_id: str, item: int | None, may_vary: Sequence[str], days: int | None) -> Call:
    """The proposal of a standing rule; not repeatable, since each is one more."""
    body: Document = {"may_vary": list(may_vary)}
    body |= {} if item is None else {"item": item}
    body |= {} if days is None else {"days": days}
    return say(request_id, "standing-rules", body)


def change(what: str, name: str, action: str, body: Document | None = None) -> Call:
    """Something done to one member of a list."""
    return Call("POST", f"/{what}/{quote(name, safe='')}/{action}", body=body)


def question(request_id: str, message: str, schema: Mapping[str, Any] | None) -> Call:
    """A question to the requester."""
    return say(request_id, "questions", {"message": message, **({} if schema is None else {"schema": dict(schema)})})

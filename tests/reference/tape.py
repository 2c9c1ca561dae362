"""What went over the two wires of a recorded flow, and the same without anything of this machine or moment.

Times, ids, tokens and addresses become names that are the same in every recording, so that two recordings of one
behaviour are equal. Nothing here decides what belongs into a flow.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Wire = str  # "mcp" between client and server, "backend" between server and backend

_IDS: Final = re.compile(r"\b(tsk|task|apr)_[A-Za-z0-9_.-]{10,}")
_KEY: Final = re.compile(r'^"?[A-Za-z0-9_-]{20,}"?$')
_JWT: Final = re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_ORIGIN: Final = re.compile(r"http://127\.0\.0\.1:\d+")
_INSTANT: Final = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
# The instants of the flow, by the member that holds them.
_TIMES: Final[Mapping[str, str]] = {
    "createdAt": "2026-06-02T10:30:00Z",
    "lastUpdatedAt": "2026-06-02T10:31:00Z",
    "at": "2026-06-02T10:31:00Z",
    "expires_at": "2026-06-02T10:35:00Z",
    "approved_at": "2026-06-02T10:31:00Z",
    "approved_until": "2026-06-02T10:46:00Z",
}
_NUMBERS: Final[Mapping[str, int]] = {"ttlMs": 691_200_000}
_SHORT: Final[Mapping[str, str]] = {"binding_token": "<signed token>", "state": "<signed approval>"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer; bodies are JSON values or None, `method` and `status` are absent on the MCP wire.

    `began` is how many exchanges had been answered when the request was sent.
    """

    wire: Wire
    method: str
    path: str
    sent: Any
    status: int | None
    came: Any
    began: int = field(default=0, compare=False)


@dataclass
class Tape:
    """The exchanges of one flow, in the order in which they were answered."""

    exchanges: list[Exchange] = field(default_factory=list)

    def add(self, exchange: Exchange) -> None:
        """Keep an exchange, unless it says exactly what the last one of its kind said: polling is told once."""
        alike = [each for each in self.exchanges if (each.method, each.path) == (exchange.method, exchange.path)]
        if not alike or alike[-1] != exchange:
            self.exchanges.append(exchange)

    def end_with(self, method: str, path_end: str) -> bool:
        """Leave out whatever came after the first such exchange on its wire; whether there is one yet."""
        for place, exchange in enumerate(self.exchanges):
            if exchange.method == method and exchange.path.endswith(path_end):
                # What a client was answered stays: the gate may have gone on before it answered.
                later = [each for each in self.exchanges[place + 1 :] if each.wire != exchange.wire]
                self.exchanges = self.exchanges[: place + 1] + later
                return True
        return False


class Names:
    """Gives every id that it meets the next name of its kind."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, kind: str, found: str) -> str:
        """The name of `found`."""
        if found not in self._known:
            count = sum(name.startswith(f"{kind}_") for name in self._known.values())
            self._known[found] = f"{kind}_{count + 1}"
        return self._known[found]

    def in_text(self, text: str) -> str:
        """`text` with names for its ids and without tokens and addresses of this machine."""
        text = _ORIGIN.sub("https://approvals.example", _JWT.sub("<signed token>", text))
        return _IDS.sub(lambda found: self.of(found[1], found[0]), text)


def neutral(value: Any, names: Names, *, member: str = "") -> Any:
    """`value` without anything of this machine or moment."""
    if isinstance(value, Mapping):
        return {
            names.in_text(key): neutral(part, names, member=key)
            for key, part in value.items()
            if key != "io.modelcontextprotocol/serverInfo"
        }
    if isinstance(value, list):
        return [neutral(part, names, member=member) for part in value]
    if isinstance(value, str):
        return _neutral_text(value, names, member=member)
    if isinstance(value, int) and member in _NUMBERS:
        return _NUMBERS[member]
    return value


def _neutral_text(text: str, names: Names, *, member: str) -> str:
    if _INSTANT.match(text):
        return _TIMES.get(member, "2026-06-02T10:30:00Z")
    if member in _SHORT and len(text) > 30:
        return _SHORT[member]
    if member == "requestState":
        return "<sealed by the server>"
    if member in {"idempotency-key", "evaluation_id", "id"} and _KEY.match(text) and not _IDS.match(text):
        return names.of("key" if member == "idempotency-key" else "id", text)
    return names.in_text(text)


def shown(exchanges: list[Exchange]) -> str:
    """The exchanges as text: what was sent after `→`, what came after `←`."""
    return "\n".join(_one(exchange) for exchange in exchanges)


def _one(exchange: Exchange) -> str:
    lines = [f"→ {exchange.method} {exchange.path}".rstrip()]
    if exchange.sent is not None:
        lines.append(json.dumps(exchange.sent, indent=2, ensure_ascii=False))
    lines.append("←" if exchange.status is None else f"← {exchange.status}")
    if exchange.came is not None:
        lines.append(json.dumps(exchange.came, indent=2, ensure_ascii=False))
    return "\n".join(lines)


def sequence(exchanges: list[Exchange]) -> str:
    """A Mermaid sequence diagram of a whole flow, with the two wires beside one another."""
    lines = ["sequenceDiagram", "    participant C as client", "    participant S as server (gate)"]
    lines.append("    participant B as approval backend")
    for place, exchange in enumerate(exchanges):
        lines += [f"    C->>S: {_title(each)}" for each in exchanges if each.wire == "mcp" and each.began == place]
        if exchange.wire == "backend":
            lines += [f"    S->>B: {_title(exchange)}", f"    B-->>S: {_answer(exchange)}"]
        else:
            lines.append(f"    S-->>C: {_answer(exchange)}")
    return "\n".join(lines)


def _title(exchange: Exchange) -> str:
    if exchange.wire == "mcp":
        params = exchange.sent["params"]
        return f"{exchange.sent['method']} {params.get('name', params.get('taskId', ''))}"
    if exchange.path.endswith("/evaluation") and "approval" in exchange.sent.get("context", {}):
        return "evaluate, with the approval"
    names = {"/evaluation": "evaluate", "/request": "submit, under a key", "/report": "report", "/cancel": "cancel"}
    ending = "/" + exchange.path.rpartition("/")[2]
    if exchange.path.rpartition("/")[0].endswith("request-schemas"):
        return "what has to be asked?"
    return names.get(ending, "what is asked?" if exchange.method == "GET" and ending == "/input" else _other(exchange))


def _other(exchange: Exchange) -> str:
    return "status" if exchange.method == "GET" else "answer"


def _answer(exchange: Exchange) -> str:
    came = exchange.came
    if came is None:
        return "noted"
    if exchange.wire == "mcp":
        return _told(came)
    if "decision" in came:
        return "permit" if came["decision"] else f"denied: {came['context']['reason']}"
    return str(came["task"]["status"]) if "task" in came else "schema"


def _told(came: Mapping[str, Any]) -> str:
    if "error" in came:
        return f"error {came['error']['code']}"
    result = came["result"]
    ended = result.get("result", {}).get("_meta", {}).get("io.modelcontextprotocol/tool-approval-disposition")
    status = result.get("status", "input_required" if "inputRequests" in result else "acknowledged")
    status = "result" if "content" in result else status
    return f"{status}, {ended}" if ended else str(status)

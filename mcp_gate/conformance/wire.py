"""Raw JSON-RPC of both protocol eras over a transport: frames requests and remembers everything, judges nothing."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp_gate.conformance.model import Exchange, Json
from mcp_gate.conformance.transports import NoAnswer, Reply, Transport

MODERN: Final = "2026-07-28"
HANDSHAKE: Final = "2025-11-25"
PREFIX: Final = "io.modelcontextprotocol/"
TASKS: Final = PREFIX + "tasks"
APPROVAL: Final = PREFIX + "tool-approval"
DISPOSITION: Final = PREFIX + "tool-approval-disposition"
ENVELOPE: Final = PREFIX + "authorization"
IMMEDIATE: Final = PREFIX + "model-immediate-response"
CLIENT: Final = {"name": "sep-2848-conformance", "version": "1"}
CAPABLE: Final[Json] = {"elicitation": {"form": {}}, "extensions": {TASKS: {}}}
INCAPABLE: Final[Json] = {"elicitation": {"form": {}}}

Note = Callable[[Exchange], None]
Heard = Callable[[Mapping[str, str]], None]


class Refused(NoAnswer):
    """What came is an error of JSON-RPC."""


class Wire:
    """One client of a server: `note` hears of every exchange as it was."""

    def __init__(
        self,
        transport: Transport,
        *,
        note: Note,
        seconds: float,
        ids: "itertools.count[int]",
        heard: Heard = lambda _: None,
    ) -> None:
        self.transport = transport
        self._note = note
        self._seconds = seconds
        self._ids = ids
        self._heard = heard

    async def request(self, method: str, params: Mapping[str, Any], *, tasks: bool = True) -> Reply:
        """A request of the present protocol; with `tasks` it declares the tasks extension.

        Raises:
            NoAnswer: None came.
        """
        meta = {
            **params.get("_meta", {}),
            PREFIX + "protocolVersion": MODERN,
            PREFIX + "clientInfo": CLIENT,
            PREFIX + "clientCapabilities": CAPABLE if tasks else INCAPABLE,
        }
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        name = params.get("name", params.get("taskId"))
        if isinstance(name, str) and name.isascii() and name.isprintable():
            headers["mcp-name"] = name
        return await self.raw(method, {**params, "_meta": meta}, headers=headers)

    async def raw(self, method: str, params: Mapping[str, Any], *, headers: Mapping[str, str]) -> Reply:
        """A request exactly as given, but for its id.

        Raises:
            NoAnswer: None came.
        """
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": dict(params)}
        try:
            reply = await self.transport.ask(message, headers=headers, seconds=self._seconds)
        except NoAnswer as error:
            self._kept(message, {"no answer": str(error)})
            raise
        shown: Any = reply.answer if not reply.before else [*reply.before, reply.answer]
        self._kept(message, shown)
        self._heard(reply.headers)
        return reply

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification of the present protocol.

        Raises:
            NoAnswer: It could not be sent.
        """
        message = {"jsonrpc": "2.0", "method": method, "params": dict(params)}
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        await self.transport.tell(message, headers=headers, seconds=self._seconds)
        self._kept(message, None)

    async def shake_hands(self) -> Mapping[str, str]:
        """Begin a session of the handshake era, tasks declared; the headers that belong to it.

        Raises:
            Refused: The server does not take clients of that era.
            NoAnswer: It did not answer.
        """
        asked = {"protocolVersion": HANDSHAKE, "capabilities": CAPABLE, "clientInfo": CLIENT}
        reply = await self.raw("initialize", asked, headers={})
        result = reply.answer.get("result")
        if not isinstance(result, dict):
            raise Refused("initialize was refused")
        headers = {"mcp-protocol-version": str(result.get("protocolVersion", HANDSHAKE))}
        if (session := reply.headers.get("mcp-session-id")) is not None:
            headers["mcp-session-id"] = session
        message = {"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}}
        await self.transport.tell(message, headers=headers, seconds=self._seconds)
        return headers

    def _kept(self, sent: Json, came: Any) -> None:
        self._note(Exchange(sent, came))

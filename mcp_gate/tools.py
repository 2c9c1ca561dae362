"""What the gate knows of a tool: its title, its argument schema, its mapping, and a fingerprint of all that.

Decides whether arguments may become an approval request. It runs no tool. PEP-15, PEP-105; COAZ, "Declaring Support".
"""

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Protocol

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from mcp_gate.errors import InvalidParams, Unavailable
from mcp_gate.mapping import fingerprint
from mcp_gate.schema import SchemaInvalid, compiled
from mcp_gate.settings_tools import ToolSettings
from mcp_gate.templates import ToolMapping, declared_mapping

DECLARED_MAPPING: Final = "x-authzen-mapping"
TOOLS_UNKNOWN: Final = "The server cannot list its tools now; the tool did not run"


@dataclass(frozen=True, slots=True)
class KnownTool:
    """One tool as it is now."""

    name: str
    title: str | None
    input_schema: Mapping[str, Any]
    declared: object
    fingerprint: str
    allow_unanchored_subject: bool = False
    disclosed: tuple[str, ...] | None = None

    def mapping(self) -> ToolMapping | None:
        """The mapping that the operator or the tool declares, else None for the default one.

        Raises:
            MappingError: it is declared, and wrong.
        """
        if self.declared is None:
            return None
        return _compiled_mapping(json.dumps(self.declared, sort_keys=True), self.allow_unanchored_subject)

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments that the tool would refuse, before anybody is asked to approve them.

        Raises:
            InvalidParams: with the pointer of the first fault, never a value.
        """
        try:
            pointer = compiled(json.dumps(self.input_schema, sort_keys=True)).fault(dict(arguments))
        except SchemaInvalid:
            raise InvalidParams("The tool's input schema cannot be applied, so no approval can be asked for") from None
        if pointer is not None:
            raise InvalidParams(f"The arguments do not fit the tool's input schema at {pointer or 'the top level'}")


@lru_cache(maxsize=512)
def _compiled_mapping(document: str, allow_unanchored_subject: bool) -> ToolMapping:  # noqa: FBT001 - a key of the cache
    return declared_mapping(json.loads(document), allow_unanchored_subject=allow_unanchored_subject)


class Catalogue(Protocol):
    """Where the gate learns of tools."""

    async def find(self, name: str, *, fresh: bool = False) -> KnownTool | None:
        """The tool `name`, or None; `fresh` asks the server itself, whatever it listed earlier.

        Raises:
            Unavailable: the server cannot be asked, which is no proof that the tool is gone.
        """
        ...


def known(tool: types.Tool, settings: ToolSettings | None, *, code: bytes = b"") -> KnownTool:
    """What a listed tool amounts to; the operator's mapping wins over the tool's own."""
    declared: object = tool.input_schema.get(DECLARED_MAPPING)
    if settings is not None and settings.mapping is not None:
        declared = settings.mapping
    schema = {name: value for name, value in tool.input_schema.items() if name != DECLARED_MAPPING}
    found = KnownTool(tool.name, tool.title, schema, declared, fingerprint(schema, declared, code=code))
    if settings is None:
        return found
    return replace(found, allow_unanchored_subject=settings.allow_unanchored_subject, disclosed=settings.disclosed)


class EmbeddedTools:
    """The tools of the server that the gate is embedded in."""

    def __init__(
        self,
        server: MCPServer[Any] | Server[Any],
        settings: Mapping[str, ToolSettings],
        *,
        list_tools: Callable[[], Awaitable[list[types.Tool]]],
    ) -> None:
        self._server = server
        self._settings = settings
        self._list = list_tools
        self._cache: dict[str, tuple[object, KnownTool]] = {}

    async def find(self, name: str, *, fresh: bool = False) -> KnownTool | None:
        """The tool `name`; of an `MCPServer` it is kept until it is registered anew, unless a `fresh` one is asked for.

        Raises:
            Unavailable: the server cannot list its tools now.
        """
        registered = self._registered(name)
        hit = None if fresh or registered is None else self._cache.get(name)
        if hit is not None and hit[0] is registered:
            return hit[1]
        try:
            listed = next((tool for tool in await self._list() if tool.name == name), None)
        except (MCPError, ValidationError):
            raise Unavailable(TOOLS_UNKNOWN) from None
        if listed is None:
            return None
        found = known(listed, self._settings.get(name), code=_code(getattr(registered, "fn", None)))
        if registered is not None:
            self._cache[name] = (registered, found)
        return found

    def _registered(self, name: str) -> object | None:
        if not isinstance(self._server, MCPServer):
            return None
        return self._server._tool_manager.get_tool(name)  # noqa: SLF001 - the only way to a tool's function


def _code(function: object) -> bytes:
    """A digest of the text of a tool's function; empty when it has none."""
    return b"" if function is None else _digest_of(function)


@lru_cache(maxsize=512)
def _digest_of(function: Any) -> bytes:
    plain = inspect.unwrap(function)
    try:
        text = inspect.getsource(plain).encode()
    except (OSError, TypeError):
        code = getattr(plain, "__code__", None)
        text = repr(type(plain)).encode() if code is None else code.co_code + repr(code.co_consts).encode()
    return hashlib.sha256(text).digest()

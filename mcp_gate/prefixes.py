"""The names under which a gateway shows what several servers have: `github_create_issue`, `github+repo://readme`.

Pure. A server's name holds no `_` and no `+`, so the first one always ends it, and one server can never answer under
the name of another. A gateway before a single server changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

NAME_SEPARATOR: Final = "_"
URI_SEPARATOR: Final = "+"
SERVER_NAME: Final = r"^[a-z][a-z0-9-]{0,31}$"

# What names a thing in each listing, and whether that is a URI.
LISTED: Final[Mapping[str, tuple[str, bool]]] = {
    "tools": ("name", False),
    "prompts": ("name", False),
    "resources": ("uri", True),
    "resourceTemplates": ("uriTemplate", True),
}


@dataclass(frozen=True, slots=True)
class Prefix:
    """How the things of one server are named; an empty `server` leaves them as they are."""

    server: str

    def name(self, own: str) -> str:
        """The name that clients see of a tool or a prompt."""
        return f"{self.server}{NAME_SEPARATOR}{own}" if self.server else own

    def uri(self, own: str) -> str:
        """The URI that clients see of a resource or a template."""
        return f"{self.server}{URI_SEPARATOR}{own}" if self.server else own

    def own_name(self, shown: str) -> str | None:
        """The server's own name of what clients call `shown`; None when it is another server's."""
        return self._own(shown, NAME_SEPARATOR)

    def own_uri(self, shown: str) -> str | None:
        """The server's own URI of what clients call `shown`; None when it is another server's."""
        return self._own(shown, URI_SEPARATOR)

    def _own(self, shown: str, separator: str) -> str | None:
        if not self.server:
            return shown
        server, found, own = shown.partition(separator)
        return own if found and server == self.server else None

    def listing(self, result: Mapping[str, Any]) -> Json:
        """A page of a listing under the names that clients see."""
        if not self.server:
            return dict(result)
        return {member: self._listed(member, value) for member, value in result.items()}

    def _listed(self, member: str, value: Any) -> Any:
        if member not in LISTED or not isinstance(value, list):
            return value
        key, is_uri = LISTED[member]
        return [self._renamed(entry, key, is_uri=is_uri) for entry in value]

    def _renamed(self, entry: Any, key: str, *, is_uri: bool) -> Any:
        if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
            return entry
        return {**entry, key: self.uri(entry[key]) if is_uri else self.name(entry[key])}

    def result(self, result: Mapping[str, Any]) -> Json:
        """A result whose resources bear the URIs that clients can read them under."""
        if not self.server:
            return dict(result)
        changed = dict(result)
        if isinstance(contents := result.get("contents"), list):  # of resources/read
            changed["contents"] = [self._renamed(entry, "uri", is_uri=True) for entry in contents]
        if isinstance(content := result.get("content"), list):  # of tools/call
            changed["content"] = [self._block(block) for block in content]
        if isinstance(messages := result.get("messages"), list):  # of prompts/get
            changed["messages"] = [self._message(message) for message in messages]
        return changed

    def _message(self, message: Any) -> Any:
        if not isinstance(message, dict) or "content" not in message:
            return message
        content = message["content"]
        return {
            **message,
            "content": [self._block(block) for block in content] if isinstance(content, list) else self._block(content),
        }

    def _block(self, block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        if block.get("type") == "resource_link":
            return self._renamed(block, "uri", is_uri=True)
        if block.get("type") == "resource":
            return {**block, "resource": self._renamed(block.get("resource"), "uri", is_uri=True)}
        return block

"""Kinds of values in the configuration: what each must be, and how to mend it. The value itself is never repeated."""

import base64
import binascii
import ipaddress
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, SecretStr

from mcp_gate.database import StoreUnavailable, parse_url
from mcp_gate.templates import MappingError, declared_mapping

SHORTEST_KEY: Final = 24
TEN_YEARS: Final = 315_360_000
DAY: Final = 86_400


class Section(BaseModel):
    """A part of the configuration: nothing unknown in it, and it does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ValueError("must be an absolute https URL")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("must carry neither user information nor a fragment")
    return value


def _origin(value: str) -> str:
    parts = urlsplit(_url(value))
    if parts.path not in {"", "/"} or parts.query:
        raise ValueError("must be an origin, such as https://requests.example; a path in it would restrict nothing")
    return value


def _database(value: str) -> str:
    try:
        parse_url(value)
    except StoreUnavailable as error:
        raise ValueError(str(error).removeprefix("database: ")) from None
    return value


def _mapping(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        declared_mapping(value)
    except MappingError as error:
        raise ValueError(f"is not a COAZ mapping ({error.where}); see x-authzen-mapping") from None
    return value


def _callback_key(value: SecretStr) -> SecretStr:
    decode_key(value.get_secret_value())
    return value


def decode_key(text: object, *, length: int | None = None) -> bytes:
    """The bytes of a key in base64, as Standard Webhooks writes them or without its prefix.

    Raises:
        ValueError: it is none, is too short, or has not exactly `length` bytes.
    """
    if not isinstance(text, str):
        raise ValueError("a key must be base64 text")  # noqa: TRY004 - a fault of the file, not of the program
    try:
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a key must be base64 text; `openssl rand -base64 32` makes one") from None
    if len(key) < SHORTEST_KEY or (length is not None and len(key) != length):
        wanted = f"at least {SHORTEST_KEY}" if length is None else str(length)
        raise ValueError(f"a key must have {wanted} bytes; `openssl rand -base64 32` makes one")
    return key


def split_bind(bind: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8403` or `[::1]:8403`.

    Raises:
        ValueError: it has another form.
    """
    host, _, port = bind.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("must be HOST:PORT, such as 127.0.0.1:8403")
    return host.strip("[]"), int(port)


def _loopback_bind(bind: str) -> str:
    if not is_loopback(split_bind(bind)[0]):
        raise ValueError("must be a loopback address, such as 127.0.0.1:9464; let a proxy show it elsewhere")
    return bind


Url = Annotated[str, AfterValidator(_url)]
LoopbackBind = Annotated[str, AfterValidator(_loopback_bind)]
Origin = Annotated[str, AfterValidator(_origin)]
DatabaseUrl = Annotated[str, AfterValidator(_database)]
Mapping = Annotated[dict[str, JsonValue], AfterValidator(_mapping)]
CallbackKey = Annotated[SecretStr, AfterValidator(_callback_key)]
Name = Annotated[str, Field(min_length=1)]
# No deadline may lie beyond what a date can say.
Seconds = Annotated[int, Field(gt=0, le=TEN_YEARS)]
ShortSeconds = Annotated[float, Field(gt=0, le=DAY, allow_inf_nan=False)]


def is_secure(url: str, *, insecure_loopback: bool) -> bool:
    """Whether `url` is https, or http to a loopback literal where that is allowed."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return True
    return insecure_loopback and parts.scheme == "http" and is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback address written as a literal."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

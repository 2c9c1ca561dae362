"""Where an address in a text really leads, where that is not what it looks like.

Finds names in letters that are not Latin, names in their coded form, names behind an `@`, and numbers in an unusual
notation. It changes no text and looks nothing up. WHATWG URL, "host parsing"; RFC 3492; Unicode Technical Report 36,
"Internationalized Domain Names".
"""

import re
import socket
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from arap_service.domain.visible import visible

MOST: Final = 20
"""How many addresses of one text are told at most; a text with more is odd enough."""
_AUTHORITY: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}:[/\\]{2}([^\s/\\?#<>\"']+)")
_DOT: Final = "[.\u3002\uff0e\uff61]"
_NAME: Final = re.compile(rf"[^\W_][\w-]{{0,62}}(?:{_DOT}[^\W_][\w-]{{0,62}})+")
_NUMBER: Final = re.compile(r"(?:0[xX][0-9A-Fa-f]+|[0-9]+)(?:\.(?:0[xX][0-9A-Fa-f]+|[0-9]+)){0,3}", re.ASCII)
_LONGEST_NAME: Final = 253
_LONGEST_LABEL: Final = 63
_LETTERS: Final = re.compile(r"[A-Za-z]{2,}|[xX][nN]--.+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Lead:
    """`written` is what a reader takes for the host, `real` is where it leads, in plain letters or numbers."""

    written: str
    real: str


def leads_of(text: str) -> tuple[Lead, ...]:
    """The addresses of `text` that lead elsewhere than they seem to, in their order, each once."""
    found: dict[Lead, None] = {}
    for lead in _leads(text):
        found.setdefault(lead)
        if len(found) == MOST:
            break
    return tuple(found)


def _leads(text: str) -> Iterator[Lead]:
    for authority in _AUTHORITY.finditer(text):
        before, at, host = authority[1].rpartition("@")
        host = host.rpartition(":")[0] if re.search(r":[0-9]*$", host) else host
        if at:
            yield Lead(visible(before), _real(host) or visible(host))
        elif (real := _real(host)) is not None:
            yield Lead(visible(host), real)
    for name in _NAME.finditer(text):
        last = re.split(_DOT, name[0])[-1]
        if _LETTERS.fullmatch(last) and (real := _real(name[0])) is not None:
            yield Lead(visible(name[0]), real)


def _real(host: str) -> str | None:
    """The host in the form that is looked up, or a coded one in the form that is read; None where it is plain."""
    if _NUMBER.fullmatch(host):
        return _dotted(host)
    labels = re.split(_DOT, host) if len(host) <= _LONGEST_NAME else [host]
    if any(len(label) > _LONGEST_LABEL for label in labels):
        return None  # nobody can look that up, and to code it takes time that grows with its square
    if all(label.isascii() for label in labels):
        shown = [_decoded(label) for label in labels]
        return None if shown == labels else visible(".".join(shown))
    return ".".join(map(_coded, labels))


def _coded(label: str) -> str:
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", label).casefold())
    return plain if plain.isascii() else "xn--" + plain.encode("punycode").decode("ascii")


def _decoded(label: str) -> str:
    if not label.lower().startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return label


def _dotted(host: str) -> str | None:
    try:
        plain = socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None
    return None if plain == host else plain

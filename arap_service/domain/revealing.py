"""What a reviewer is shown of a request's values: each with its place, secrets masked, the rest revealed or named.

Decides masking and revealing by the template's lists; it never shortens a value. Linear in the size of the values.
Design.md sections 4 and 7; GOV-15, ARS-126.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from arap_service.domain.visible import visible
from arap_service.protocol.canonical import json_pointer

DOTS: Final = "••••••"
_WITHHELD: Final = object()
_EXACT: Final = 2**53
_NAME_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
Path = tuple[str | int, ...]
Reveal = Literal["whole"] | Sequence[str]


@dataclass(frozen=True, slots=True)
class Shown:
    """One value; `suspicious` when characters of it or of its place were written out.

    `kind` is text, number, yes-no, nothing or empty, and secret for one that is masked. `place` and `exact` tell it
    from any other exactly, without anything of a secret.
    """

    pointer: str
    text: str
    masked: bool
    suspicious: bool
    kind: str = field(default="text", compare=False)
    place: str = field(default="", compare=False)
    exact: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Revealed:
    """The values that are shown, in their order, and the places of those that are not."""

    shown: tuple[Shown, ...]
    hidden: tuple[str, ...]


def reveal(value: Any, *, allowed: Reveal, mask: Collection[str]) -> Revealed:
    """The values that `allowed` (JSON pointers, or the whole) covers; members named in `mask` become dots.

    A member is named in `mask` when some of the words of its name are: `db_password` and `githubToken` are secrets too.
    """
    secret = frozenset(_plain(name) for name in mask)
    pointers = None if allowed == "whole" else tuple(allowed)
    shown: list[Shown] = []
    hidden: dict[str, None] = {}
    for path, leaf, masked in _leaves(value, secret):
        pointer = json_pointer(path)
        if pointers is not None and not any(_is_within(pointer, allow) for allow in pointers):
            hidden[visible(pointer)] = None
            continue
        text = DOTS if masked else _text(leaf)
        clear, place = visible(text), visible(pointer)
        shown.append(
            Shown(
                place,
                clear,
                masked,
                suspicious=clear != text or place != pointer,
                kind="secret" if masked else _kind(leaf),
                place=pointer,
                exact=DOTS if masked else _exact(leaf),
            )
        )
    return Revealed(tuple(shown), tuple(hidden))


def told(value: Any, *, allowed: Reveal, mask: Collection[str]) -> Any:
    """`value` without its secrets and without what `allowed` does not cover; a list that lacks a part is left out."""
    secret = frozenset(_plain(name) for name in mask)
    pointers = None if allowed == "whole" else tuple(allowed)

    def part(here: Any, pointer: str) -> Any:
        if isinstance(here, dict) and here:
            inner = {
                name: part(member, pointer + json_pointer([name]))
                for name, member in here.items()
                if not _is_secret(name, secret)
            }
            kept = {name: member for name, member in inner.items() if member is not _WITHHELD}
            return kept if kept or not pointer else _WITHHELD
        if isinstance(here, list) and here:
            listed = [part(member, f"{pointer}/{index}") for index, member in enumerate(here)]
            return _WITHHELD if any(member is _WITHHELD for member in listed) else listed
        is_shown = pointers is None or any(_is_within(pointer, allow) for allow in pointers)
        return here if is_shown or not pointer else _WITHHELD

    return part(value, "")


def _leaves(value: Any, secret: Collection[str]) -> Iterator[tuple[Path, Any, bool]]:
    """Scalars and empty containers in order, without recursion; a masked member is one leaf whatever it holds."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, here = waiting.pop()
        if path and isinstance(path[-1], str) and _is_secret(path[-1], secret):
            yield path, here, True
        elif isinstance(here, dict) and here:
            waiting.extend([((*path, name), inner) for name, inner in here.items()][::-1])
        elif isinstance(here, list) and here:
            waiting.extend([((*path, index), inner) for index, inner in enumerate(here)][::-1])
        elif path or here:
            yield path, here, False


def _text(leaf: Any) -> str:
    return leaf if isinstance(leaf, str) else json.dumps(leaf)


def _kind(leaf: Any) -> str:
    match leaf:
        case str():
            return "text"
        case bool():
            return "yes-no"
        case int() | float():
            return "number"
        case None:
            return "nothing"
        case _:
            return "empty"


def _exact(leaf: Any) -> str:
    # 1.0 and 1 are one number, as they are wherever arguments are compared or hashed.
    is_whole = isinstance(leaf, float) and leaf.is_integer() and abs(leaf) <= _EXACT
    return json.dumps(int(leaf) if is_whole else leaf)


def _plain(name: str) -> str:
    """A member's name as `mask` compares it: `apiKey`, `API-key` and `api_key` are one."""
    return "".join(char for char in name.casefold() if char.isalnum())


def _is_secret(name: str, secret: Collection[str]) -> bool:
    if _plain(name) in secret:
        return True
    longest = max(map(len, secret), default=0)
    words = [word.casefold() for word in _NAME_WORD.findall(name)]
    for begin in range(len(words)):
        run = ""
        for end in range(begin, len(words)):  # no slice: that would copy the rest of a long name for each word
            run += words[end]
            if run in secret:
                return True
            if len(run) > longest:
                break
    return False


def _is_within(pointer: str, allow: str) -> bool:
    return pointer == allow or pointer.startswith(allow.rstrip("/") + "/")

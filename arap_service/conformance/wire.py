"""Plain HTTP with JSON: sends what it is told, remembers everything, judges nothing, follows no redirect."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import httpx2

from blackbox_kit.causes import cause_of
from blackbox_kit.model import Exchange, Json
from blackbox_kit.reading import json_of

URN: Final = "urn:openid:authzen:access-request:error:"
LONGEST_ANSWER: Final = 4_000_000
SHOWN_HEADERS: Final = ("content-type", "location", "www-authenticate", "retry-after", "allow")
Note = Callable[[Exchange], None]


class NoAnswer(Exception):
    """No HTTP answer came; the text says what did."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `body` is None where it is no JSON, `text` is what it was in any case."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    @property
    def is_success(self) -> bool:
        """2xx."""
        return 200 <= self.status < 300

    @property
    def document(self) -> Json:
        """The body, if it is an object; empty otherwise."""
        return self.body if isinstance(self.body, dict) else {}

    @property
    def problem(self) -> str | None:
        """The name of the problem, if its type is one of the profile's; else that of its type, said to be another."""
        named = self.document.get("type")
        if not isinstance(named, str):
            return None
        return named.removeprefix(URN) if named.startswith(URN) else f"with the type {named}"

    @property
    def task(self) -> Json | None:
        """The task in it."""
        task = self.document.get("task")
        return task if isinstance(task, dict) else None

    def shown_of(self, texts: Iterable[str]) -> str | None:
        """The first of `texts` that stands in it, however it is spelt in JSON and in whatever case."""
        return stands_in(f"{self.text}\n{json.dumps(self.body, ensure_ascii=False, default=str)}", texts)

    def brief(self) -> str:
        """Status and problem, or else the whole body: it is cut where nothing secret is left in it."""
        if self.problem is not None:
            return f"HTTP {self.status} {self.problem}"
        if self.body is None:
            return f"HTTP {self.status} without JSON"
        return f"HTTP {self.status} {json.dumps(self.body, ensure_ascii=False, default=str)}"


def stands_in(said: str, texts: Iterable[str]) -> str | None:
    """The first of `texts` that stands in what was said, in whatever case."""
    folded = said.casefold()
    return next((text for text in texts if text.casefold() in folded), None)


class Wire:
    """One way to the service and its decision point; `note` hears of every exchange."""

    def __init__(self, http: httpx2.AsyncClient, *, note: Note, seconds: float) -> None:
        self._http = http
        self._note = note
        self._seconds = seconds

    async def ask(
        self,
        method: str,
        url: str,
        *,
        token: str | None = None,
        body: Any = None,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; `raw` goes out as it is, in place of a JSON body.

        Raises:
            NoAnswer: None came.
        """
        given = {"accept": "application/json", **(headers or {})}
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        if content is not None:
            given.setdefault("content-type", "application/json")
        shown = {name: value for name, value in given.items() if name != "accept"}
        sent = {"method": method, "url": url, "headers": shown, "body": body if raw is None else raw.decode("latin-1")}
        if token is not None:
            given["authorization"] = f"Bearer {token}"
        try:
            with anyio.fail_after(self._seconds):
                answer = await self._sent(method, url, given, content)
        except TimeoutError:
            self._note(Exchange(sent, {"no answer": f"nothing came within {self._seconds:g} s"}))
            raise NoAnswer(f"nothing came within {self._seconds:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, OverflowError, ValueError, ExceptionGroup) as error:
            cause = cause_of(error)
            self._note(Exchange(sent, {"no answer": cause}))
            raise NoAnswer(f"the exchange with {_place(url)} failed: {cause}") from None
        kept = {name: answer.headers[name] for name in SHOWN_HEADERS if name in answer.headers}
        self._note(Exchange(sent, {"status": answer.status, "headers": kept, "body": answer.body}))
        return answer

    async def _sent(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> Answer:
        raw = bytearray()
        async with self._http.stream(method, url, content=content, headers=headers) as response:
            async for piece in response.aiter_bytes():
                raw += piece
                if len(raw) > LONGEST_ANSWER:
                    raise ValueError
            found = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, json_of(bytes(raw)), found, raw.decode("utf-8", "replace"))


def _place(url: str) -> str:
    """Where it went, without what a query may hold."""
    return url.partition("?")[0]

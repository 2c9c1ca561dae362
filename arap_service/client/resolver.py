"""The resolver API in a dozen lines of use, synchronous and asynchronous.

    with Resolver("https://approvals.example", auth=ClientCredentials(...)) as resolver:
        for request in resolver.queue(mine=True):
            resolver.decide(request["id"], "approve", version=request["version"])

Answers are the documents of the API as they are. Reading is retried, and so is deciding, under one idempotency key, so
that a lost answer never becomes a second vote. Events go on over broken connections, each exactly once for who keeps
the id of the last one. Nothing is decided here. See design.md section 6.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Final, Self

import httpx2
import stamina

from arap_service.client import calls
from arap_service.client.afterwards import Afterwards, AsyncAfterwards
from arap_service.client.calls import Call, Decision, Document
from arap_service.client.streams import Place

_TRANSIENT: Final = frozenset({429, 502, 503, 504})
_ATTEMPTS: Final = 4
_PATIENCE: Final = 20.0


class ResolverError(Exception):
    """The service refused; `type` is the problem URN and `problem` the whole problem document."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('title', 'unexplained')}")
        self.status = status
        self.type = str(problem.get("type", "about:blank"))
        self.problem = dict(problem)


class NotFound(ResolverError):
    """No such request, or none that this caller may see."""


class Conflict(ResolverError):
    """Somebody was faster: `problem` holds the current status and version."""


class Unavailable(Exception):
    """The service could not be reached or asked for patience, also after several attempts."""


def _document(response: httpx2.Response) -> Document:
    if response.status_code in _TRANSIENT:
        raise Unavailable(f"the service answered {response.status_code}")
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.is_success and isinstance(body, dict):
        return body
    problem = body if isinstance(body, dict) else {}
    kind = {404: NotFound, 409: Conflict}.get(response.status_code, ResolverError)
    raise kind(response.status_code, problem)


def _attempts(call: Call) -> int:
    return _ATTEMPTS if call.is_repeatable else 1


def _options(base: str) -> dict[str, Any]:
    # Redirects are not followed: credentials go to the configured origin or nowhere.
    return {"base_url": base.rstrip("/") + "/resolver/v1", "follow_redirects": False, "timeout": 10.0}


class Resolver(Afterwards):
    """A synchronous client of the resolver API of the service at `identifier`."""

    def __init__(self, identifier: str, *, auth: httpx2.Auth, transport: httpx2.BaseTransport | None = None) -> None:
        self._client = httpx2.Client(**_options(identifier), auth=auth, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def queue(
        self,
        *,
        status: str | None = None,
        mine: bool | None = None,
        template: str | None = None,
        subject: str | None = None,
        q: str | None = None,
    ) -> Iterator[Document]:
        """The requests that match, over all pages.

        Raises:
            ResolverError, Unavailable: As for every call.
        """
        filters = {"status": status, "mine": mine, "template": template, "subject": subject, "q": q}
        cursor: str | None = None
        while True:
            page = self._answer(calls.queue(cursor, filters))
            yield from page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def wait(self, after: str | None = None, *, seconds: int = calls.WAIT_SECONDS) -> Document:
        """The first page of what the caller may decide, once something is new since the mark `after`, or time is over.

        The answer's own `after` is the mark for the next call; without a mark it comes at once.
        """
        return self._answer(calls.wait(after, seconds))

    def get(self, request_id: str) -> Document:
        """One request with everything that this caller may see."""
        return self._answer(calls.get(request_id))

    def decide(
        self,
        request_id: str,
        decision: Decision,
        *,
        version: int,
        reason: str | None = None,
        approved_until: str | None = None,
        item: int | None = None,
        may_vary: Sequence[str] | None = None,
        proposed_arguments: Mapping[str, Any] | None = None,
    ) -> Document:
        """Vote on the request as it was seen at `version`; returns its new state.

        A bundle is decided item by item: `item` and `version` are those of one of its `items`. An approval is for
        exactly what was asked; `may_vary` names what may vary beyond it of a scope that the template widened. A
        denial may say with which `proposed_arguments` the agent could call anew.

        Raises:
            Conflict: It has changed since, or has ended.
        """
        return self._answer(
            calls.decide(
                request_id,
                decision,
                version,
                reason=reason,
                approved_until=approved_until,
                item=item,
                may_vary=may_vary,
                proposed_arguments=proposed_arguments,
            )
        )

    def revoke(self, approval_id: str, *, reason: str) -> Document:
        """End an approval at once, for a reason that goes on record; returns the request."""
        return self._answer(calls.revoke(approval_id, reason))

    def ask(self, request_id: str, message: str, *, schema: Mapping[str, Any] | None = None) -> Document:
        """Ask the requester for more, for an object that satisfies `schema`, or one text; returns the request."""
        return self._answer(calls.question(request_id, message, schema))

    def comment(self, request_id: str, text: str) -> Document:
        """Say something to the other reviewers; returns the request."""
        return self._answer(calls.say(request_id, "comments", {"text": text}))

    def claim(self, request_id: str) -> Document:
        """Say that one works on it, which keeps nobody from deciding; returns the request."""
        return self._answer(calls.say(request_id, "claim"))

    def release(self, request_id: str) -> Document:
        """Say that nobody works on it any more; returns the request."""
        return self._answer(calls.say(request_id, "release"))

    def events(self, last_event_id: str | None = None) -> Iterator[Document]:
        """What happens to requests from now on, or after the event with that id; ends only by an error.

        Each has `id`, `event`, `request`, `evaluation_id` and `at`. Connections that break are opened again.

        Raises:
            ResolverError: The service refused.
            Unavailable: The service could not be reached, after several attempts.
        """
        place = Place(last_event_id)
        while True:
            with ExitStack() as stack:
                for sent in self._stream(place, stack):
                    event = place.read(sent)
                    if event is not None:
                        yield event

    def _stream(self, place: Place, stack: ExitStack) -> Iterator[httpx2.ServerSentEvent]:
        first, stream = self._connected(place, stack)
        yield first
        try:
            yield from stream
        except httpx2.TransportError:
            return  # the next connection goes on from what was read

    def _connected(
        self, place: Place, stack: ExitStack
    ) -> tuple[httpx2.ServerSentEvent, Iterator[httpx2.ServerSentEvent]]:
        for attempt in stamina.retry_context(on=Unavailable, attempts=_ATTEMPTS, timeout=_PATIENCE):
            with attempt:
                try:
                    response = self._client.send(place.request(self._client), stream=True)
                    stack.callback(response.close)
                    if not response.is_success:
                        response.read()
                        _document(response)
                    stream = iter(httpx2.EventSource(response))
                    return next(stream), stream
                except httpx2.TransportError as error:
                    raise Unavailable(type(error).__name__) from None
                except StopIteration:
                    raise Unavailable("the stream ended before it began") from None
        raise Unavailable("no attempt was made")

    def _answer(self, call: Call) -> Document:
        for attempt in stamina.retry_context(on=Unavailable, attempts=_attempts(call), timeout=_PATIENCE):
            with attempt:
                try:
                    return _document(self._client.send(call.request(self._client)))
                except httpx2.TransportError as error:
                    raise Unavailable(type(error).__name__) from None
        raise Unavailable("no attempt was made")


class AsyncResolver(AsyncAfterwards):
    """An asynchronous client of the resolver API of the service at `identifier`."""

    def __init__(
        self, identifier: str, *, auth: httpx2.Auth, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self._client = httpx2.AsyncClient(**_options(identifier), auth=auth, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def queue(
        self,
        *,
        status: str | None = None,
        mine: bool | None = None,
        template: str | None = None,
        subject: str | None = None,
        q: str | None = None,
    ) -> AsyncIterator[Document]:
        """See `Resolver.queue`."""
        filters = {"status": status, "mine": mine, "template": template, "subject": subject, "q": q}
        cursor: str | None = None
        while True:
            page = await self._answer(calls.queue(cursor, filters))
            for request in page["items"]:
                yield request
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def wait(self, after: str | None = None, *, seconds: int = calls.WAIT_SECONDS) -> Document:
        """See `Resolver.wait`."""
        return await self._answer(calls.wait(after, seconds))

    async def get(self, request_id: str) -> Document:
        """See `Resolver.get`."""
        return await self._answer(calls.get(request_id))

    async def decide(
        self,
        request_id: str,
        decision: Decision,
        *,
        version: int,
        reason: str | None = None,
        approved_until: str | None = None,
        item: int | None = None,
        may_vary: Sequence[str] | None = None,
        proposed_arguments: Mapping[str, Any] | None = None,
    ) -> Document:
        """See `Resolver.decide`."""
        return await self._answer(
            calls.decide(
                request_id,
                decision,
                version,
                reason=reason,
                approved_until=approved_until,
                item=item,
                may_vary=may_vary,
                proposed_arguments=proposed_arguments,
            )
        )

    async def revoke(self, approval_id: str, *, reason: str) -> Document:
        """See `Resolver.revoke`."""
        return await self._answer(calls.revoke(approval_id, reason))

    async def ask(self, request_id: str, message: str, *, schema: Mapping[str, Any] | None = None) -> Document:
        """See `Resolver.ask`."""
        return await self._answer(calls.question(request_id, message, schema))

    async def comment(self, request_id: str, text: str) -> Document:
        """See `Resolver.comment`."""
        return await self._answer(calls.say(request_id, "comments", {"text": text}))

    async def claim(self, request_id: str) -> Document:
        """See `Resolver.claim`."""
        return await self._answer(calls.say(request_id, "claim"))

    async def release(self, request_id: str) -> Document:
        """See `Resolver.release`."""
        return await self._answer(calls.say(request_id, "release"))

    async def events(self, last_event_id: str | None = None) -> AsyncIterator[Document]:
        """See `Resolver.events`."""
        place = Place(last_event_id)
        while True:
            async with AsyncExitStack() as stack:
                async for sent in self._stream(place, stack):
                    event = place.read(sent)
                    if event is not None:
                        yield event

    async def _stream(self, place: Place, stack: AsyncExitStack) -> AsyncIterator[httpx2.ServerSentEvent]:
        first, stream = await self._connected(place, stack)
        yield first
        try:
            async for sent in stream:
                yield sent
        except httpx2.TransportError:
            return  # the next connection goes on from what was read

    async def _connected(
        self, place: Place, stack: AsyncExitStack
    ) -> tuple[httpx2.ServerSentEvent, AsyncIterator[httpx2.ServerSentEvent]]:
        async for attempt in stamina.retry_context(on=Unavailable, attempts=_ATTEMPTS, timeout=_PATIENCE):
            with attempt:
                try:
                    response = await self._client.send(place.request(self._client), stream=True)
                    stack.push_async_callback(response.aclose)
                    if not response.is_success:
                        await response.aread()
                        _document(response)
                    stream = aiter(httpx2.EventSource(response))
                    return await anext(stream), stream
                except httpx2.TransportError as error:
                    raise Unavailable(type(error).__name__) from None
                except StopAsyncIteration:
                    raise Unavailable("the stream ended before it began") from None
        raise Unavailable("no attempt was made")

    async def _answer(self, call: Call) -> Document:
        async for attempt in stamina.retry_context(on=Unavailable, attempts=_attempts(call), timeout=_PATIENCE):
            with attempt:
                try:
                    return _document(await self._client.send(call.request(self._client)))
                except httpx2.TransportError as error:
                    raise Unavailable(type(error).__name__) from None
        raise Unavailable("no attempt was made")

"""Server-sent events: what happens to requests that the caller may see, as it happens.

A stream is resumed by Last-Event-ID, at whatever instance. It says where it stands when it begins and whenever nothing
has happened for a while, so that a broken connection is noticed on both sides. It ends after some minutes, because the
right to see is proved by a token that ends too: the client comes back with a fresh one. HTML standard, section 9.2.
"""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from arap_service.api.auth import CallerDep, ContextDep
from arap_service.api.problems import NO_STORE, problem_responses
from arap_service.auditing.events import Event, beginning, look
from arap_service.context import Context
from arap_service.domain import errors
from arap_service.domain.callers import Caller
from arap_service.domain.errors import InvalidRequest, RateLimited
from arap_service.domain.events import EVENT_NAMES
from arap_service.protocol.arap import format_instant
from arap_service.requests.endings import REQUESTS
from arap_service.store.database import StoreUnavailable
from arap_service.store.wake import Subscription

HEARTBEAT_SECONDS: Final = 10.0
"""How long nothing is said at most; also how long a lost wake-up delays an event."""
STREAM_FOR: Final = timedelta(minutes=5)
MOST_STREAMS: Final = 200
MOST_OF_ONE: Final = 20
_COME_BACK_MS: Final = 1000
_COME_BACK_SECONDS: Final = 5

router = APIRouter(prefix="/resolver/v1/events", tags=["events"])
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": f"Events: {', '.join(sorted(EVENT_NAMES))}.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class Streams:
    """The open streams of one application, so that they can be counted and told to end."""

    def __init__(self) -> None:
        self.is_closing = False
        self._open: dict[Subscription, str] = {}

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    def is_full(self, principal: str) -> bool:
        """Whether this caller, or all callers together, have as many open as may be."""
        return len(self._open) >= MOST_STREAMS or list(self._open.values()).count(principal) >= MOST_OF_ONE

    def add(self, subscription: Subscription, principal: str) -> None:
        """One more is open."""
        self._open[subscription] = principal

    def remove(self, subscription: Subscription) -> None:
        """It is open no longer."""
        self._open.pop(subscription, None)

    def close(self) -> None:
        """Have all of them end at once, because the service stops."""
        self.is_closing = True
        for subscription in tuple(self._open):
            subscription.ring(REQUESTS)


@router.get(
    "",
    summary="What happens to requests",
    response_class=StreamingResponse,
    responses=_STREAM
    | problem_responses(errors.Unauthenticated, errors.Forbidden, errors.InvalidRequest, errors.RateLimited),
    openapi_extra={
        "parameters": [
            {
                "name": "Last-Event-ID",
                "in": "header",
                "schema": {"type": "string"},
                "description": "Go on after this event; without it the stream begins now.",
            }
        ]
    },
)
async def events(request: Request, caller: CallerDep, ctx: ContextDep) -> Response:
    """An endless stream of `text/event-stream`; the data of each event is a JSON object."""
    streams: Streams = request.app.state.streams
    given = request.headers.getlist("last-event-id")
    if len(given) > 1:
        raise InvalidRequest("There may be only one Last-Event-ID.", pointer="/Last-Event-ID")
    position = await beginning(ctx, caller, given[0] if given else None)
    if streams.is_full(caller.principal):
        raise RateLimited(retry_after=_COME_BACK_SECONDS)
    body = _stream(ctx, caller, position, streams=streams)
    return StreamingResponse(body, media_type="text/event-stream", headers={**NO_STORE, "X-Accel-Buffering": "no"})


async def _stream(ctx: Context, caller: Caller, position: int, *, streams: Streams) -> AsyncIterator[str]:
    ends = ctx.clock() + STREAM_FOR
    with ctx.database.subscribe(REQUESTS) as subscription:
        streams.add(subscription, caller.principal)
        try:
            yield f"retry: {_COME_BACK_MS}\n{_mark(position)}"
            while not streams.is_closing and ctx.clock() < ends:
                found = await look(ctx, caller, after=position)
                for event in found.events:
                    yield _text(event)
                position = found.position
                if not found.more and not await subscription.wait(HEARTBEAT_SECONDS):
                    yield _mark(position)
        except StoreUnavailable as error:
            ctx.log.warning("event_stream_ended", cause=error.reason)
        finally:
            streams.remove(subscription)


def _mark(position: int) -> str:
    """An event without data: nothing to be told about, but a place to come back to."""
    return f"id: {position}\n\n"


def _text(event: Event) -> str:
    data = {
        "event": event.name,
        "request": event.request_id,
        "evaluation_id": event.evaluation_id,
        "at": format_instant(event.at),
    }
    return f"id: {event.position}\nevent: {event.name}\ndata: {json.dumps(data)}\n\n"

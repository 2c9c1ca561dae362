"""Long polling: an answer that waits until something has happened to requests that the caller may see.

For resolvers that cannot keep a stream open. A call waits as a task and holds no thread; it counts as one of the
caller's open streams, ends when its time is over, when the service stops, and when nobody reads the answer any more.
What is answered then is the business of the route. Design.md section 6.
"""

from typing import Final

import anyio
from fastapi import Request

from arap_service.api.events import Streams
from arap_service.auditing.events import beginning, look
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.errors import InvalidRequest, RateLimited
from arap_service.requests.endings import REQUESTS

MOST_SECONDS: Final = 30
_LOOK_SECONDS: Final = 1.0
_COME_BACK_SECONDS: Final = 5


async def until_news(request: Request, ctx: Context, caller: Caller, *, after: str | None, seconds: int) -> str:
    """Wait at most so long for something new since `after`, a mark of an earlier answer; the mark of this one.

    Without a mark there is nothing to wait for: everything is new.

    Raises:
        Forbidden: The caller may neither read nor decide requests.
        InvalidRequest: There is no such mark.
        RateLimited: The caller, or everybody together, waits too often already.
    """
    try:
        position = await beginning(ctx, caller, after)
    except InvalidRequest:
        raise InvalidRequest("There is no such mark; begin without one.", pointer="/after") from None
    if after is None or seconds == 0:
        return str(position)
    streams: Streams = request.app.state.streams
    if streams.is_full(caller.principal):
        raise RateLimited(retry_after=_COME_BACK_SECONDS)
    ends = anyio.current_time() + seconds
    with ctx.database.subscribe(REQUESTS) as subscription:
        streams.add(subscription, caller.principal)
        try:
            while True:
                found = await look(ctx, caller, after=position)
                position = found.position
                left = ends - anyio.current_time()
                if found.events or left <= 0 or streams.is_closing or await request.is_disconnected():
                    return str(position)
                await subscription.wait(min(left, _LOOK_SECONDS))
        finally:
            streams.remove(subscription)

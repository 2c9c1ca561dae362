"""The callback endpoint: lets the backend wake the gate, and trusts nothing else of what it says.

A delivery must be signed, fresh, new, and bound to a submission of ours by its state; then the task is looked at
again, through its stored status endpoint. A callback that is lost costs time only, because polling goes on.
ARAP, Callback Completion; PEP-93 to PEP-96.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from arap_service.protocol.callback import TOLERANCE_SECONDS, CallbackReceiver, CallbackRejected

PATH: Final = "/callbacks/arap"
BODY_LIMIT: Final = 65_536
REMEMBERED: Final = timedelta(seconds=2 * TOLERANCE_SECONDS)
_UNREADABLE: Final = frozenset({"json", "shape"})

log = structlog.get_logger(__name__)

UseOnce = Callable[[str, datetime], Awaitable[bool]]
Wake = Callable[[str, str], Awaitable[bool]]


class CallbackEndpoint:
    """Receives deliveries.

    `use_once` remembers an id until an instant and says whether it was new; `wake` makes the engine look at the task
    whose submission carried a state and became a backend task, and says whether there is one.
    """

    def __init__(
        self,
        keys: Sequence[bytes],
        *,
        use_once: UseOnce,
        wake: Wake,
        clock: Callable[[], datetime],
    ) -> None:
        self._receiver = CallbackReceiver(keys=keys, seen=lambda _: False)
        self._use_once = use_once
        self._wake = wake
        self._clock = clock

    async def receive(self, request: Request) -> Response:
        """Answer one delivery: 401 when it is not authentic, 204 whatever an authentic one leads to."""
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_LIMIT:
                    return Response(status_code=413)
        except ClientDisconnect:  # gone before the body was whole: no fault of ours, and nobody reads this
            return Response(status_code=400)
        now = self._clock()
        try:
            notification = self._receiver.receive(bytes(body), dict(request.headers), now=now)
        except CallbackRejected as error:
            log.warning("callback_rejected", reason=error.reason)
            return Response(status_code=400 if error.reason in _UNREADABLE else 401)
        if not await self._use_once(f"callback:{request.headers['webhook-id']}", now + REMEMBERED):
            return Response(status_code=204)  # delivered again, as at-least-once delivery does
        state = notification.state
        # PEP-94, PEP-95: bound to a submission of ours by its state; the status is read from the stored endpoint.
        if not isinstance(state, str) or not await self._wake(state, notification.task.id):
            log.info("callback_ignored")
        return Response(status_code=204)


def route(endpoint: Callable[[Request], Awaitable[Response]]) -> Route:
    """The route of the callback endpoint."""
    return Route(PATH, endpoint, methods=["POST"])

"""How much of the service one client may hold at a time: its open requests, counted over all instances.

The count is taken in the transaction that adds the request, so it holds however many instances there are; what others
add at the same instant may not be in it yet. How fast a client may be is counted in `rates.py`. See ARS-06.
"""

from typing import Final

from arap_service.context import Context
from arap_service.domain.errors import RateLimited
from arap_service.store import operation
from arap_service.store.database import WriteSession

KIND: Final = "open_requests"
_WAIT: Final = 60  # seconds; nobody knows when the next one will be decided


def check_open(ctx: Context, session: WriteSession, client_id: str) -> None:
    """Insist that the client, with what was just added, has no more open requests than it may.

    Raises:
        RateLimited: It has; what was added must not be committed.
    """
    most = ctx.settings.limits.open_requests_per_client
    if operation.has_more_open(session, client_id, than=most):
        ctx.metrics.limited(KIND)
        ctx.log.warning("open_requests_capped", client_id=client_id, most=most)
        raise RateLimited("This client has as many open requests as it may have.", retry_after=_WAIT)

"""The gateway's own access tokens for a server behind it.

The tokens are the gateway's, whoever is calling: no token of a caller reaches a server behind it. COAZ-MCP, "Token
Integrity"; RFC 6749 section 4.4.
"""

from collections.abc import AsyncGenerator

import httpx2

from arap_service.client import ClientCredentials
from mcp_gate.settings_tools import Credentials


class UpstreamCredentials(ClientCredentials):
    """Client credentials for connections whose answers are streams, which must not be read ahead."""

    requires_response_body = False

    @classmethod
    def of(cls, settings: Credentials) -> "UpstreamCredentials":
        """The credentials that an operator configured."""
        return cls(
            settings.token_endpoint,
            client_id=settings.client_id,
            client_secret=settings.client_secret.get_secret_value(),
            scope=settings.scope,
        )

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send `request` with a token; only answers of the token endpoint are read here."""
        flow = self.auth_flow(request)
        outgoing = next(flow)
        while True:
            response = yield outgoing
            if outgoing is not request:
                await response.aread()
            try:
                outgoing = flow.send(response)
            except StopIteration:
                return

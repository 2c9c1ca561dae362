"""`python -m examples.itsm_adapter SERVICE TICKETS`: look at both every few seconds, until stopped.

RESOLVER_ID and RESOLVER_SECRET are the adapter's own.
"""

import argparse
import os

import anyio
import httpx2

from arap_service.client import AsyncResolver, ClientCredentials
from examples.itsm_adapter.adapter import Adapter

LOOK_SECONDS = 5


async def main(service: str, tickets: str) -> None:
    """Keep tickets and requests together until stopped."""
    auth = ClientCredentials(
        f"{service}/issuer/token",
        client_id=os.environ["RESOLVER_ID"],
        client_secret=os.environ["RESOLVER_SECRET"],
    )
    async with AsyncResolver(service, auth=auth) as resolver, httpx2.AsyncClient(base_url=tickets) as desk:
        adapter, mark = Adapter(resolver, desk), None
        while True:
            await adapter.round()
            # Requests are heard of at once; tickets are looked at again after a while.
            mark = (await resolver.wait(mark, seconds=LOOK_SECONDS))["after"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Let tickets decide.")
    parser.add_argument("service", help="identifier of the service, such as https://approvals.example")
    parser.add_argument("tickets", help="address of the ticket server, such as https://tickets.internal")
    arguments = parser.parse_args()
    anyio.run(main, arguments.service, arguments.tickets)

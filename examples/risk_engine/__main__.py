"""`python -m examples.risk_engine URL`: run the engine as the client that the environment names, until stopped.

RESOLVER_ID and RESOLVER_SECRET are its own; KNOWN_PAYEES are names with commas between them.
"""

import argparse
import os
from datetime import UTC, datetime

import anyio

from arap_service.client import AsyncResolver, ClientCredentials
from examples.risk_engine.engine import Engine


async def main(service: str) -> None:
    """Decide until stopped."""
    auth = ClientCredentials(
        f"{service}/issuer/token",
        client_id=os.environ["RESOLVER_ID"],
        client_secret=os.environ["RESOLVER_SECRET"],
    )
    known = filter(None, os.environ.get("KNOWN_PAYEES", "").split(","))
    async with AsyncResolver(service, auth=auth) as resolver:
        await Engine(resolver, known=frozenset(known), clock=lambda: datetime.now(UTC)).run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Score what waits for a decision.")
    parser.add_argument("service", help="identifier of the service, such as https://approvals.example")
    anyio.run(main, parser.parse_args().service)

"""A program that makes one call through a hand-written enforcement point: `python -m tests.simulator.call_the_tool`.

Its surroundings are in the environment: the service's address, and the file that the tool leaves traces in.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx2

from arap_service.client import ClientCredentials
from tests.simulator.point import Point


async def call(service: str, secret: str, defect: str | None) -> Point:
    """An enforcement point after its one call."""
    auth = ClientCredentials(f"{service}/issuer/token", client_id="gate", client_secret=secret)
    async with httpx2.AsyncClient(base_url=service, auth=auth, trust_env=False) as http:
        point = Point(http, defect)
        await point.call()
    return point


def main() -> None:
    """One call; the status is 0 if the tool ran."""
    secret = json.loads(Path(os.environ["SECRETS"]).read_text(encoding="utf-8"))["clients"]["gate"]
    point = asyncio.run(call(os.environ["SERVICE"], secret, os.environ.get("DEFECT")))
    with Path(os.environ["EFFECTS"]).open("a", encoding="utf-8") as file:
        file.write("ran\n" * point.ran)
    sys.exit(0 if point.ran else 1)


if __name__ == "__main__":
    main()

"""A ticket server as small as can be, in memory: tickets are opened under a reference, resolved by people, closed.

It stands in for the ticket system of a company; the adapter speaks to it by HTTP alone.
"""

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

STATES = frozenset({"open", "approved", "rejected", "closed"})


def ticket_server() -> Starlette:
    """A server with no tickets."""
    tickets: dict[str, dict[str, Any]] = {}

    async def put(request: Request) -> Response:
        """Open a ticket under a reference; of the same reference there is one ticket, however often it is opened."""
        reference, asked = request.path_params["reference"], await request.json()
        is_new = reference not in tickets
        if is_new:
            number = f"T-{len(tickets) + 1}"
            tickets[reference] = {"number": number, "state": "open", "title": asked["title"], "note": ""}
        return JSONResponse(tickets[reference], 201 if is_new else 200)

    async def get(request: Request) -> Response:
        """A ticket as it stands."""
        found = tickets.get(request.path_params["reference"])
        return JSONResponse({}, 404) if found is None else JSONResponse(found)

    async def patch(request: Request) -> Response:
        """What somebody does with a ticket: another state, a note."""
        found, asked = tickets.get(request.path_params["reference"]), await request.json()
        if found is None or asked.get("state") not in STATES:
            return JSONResponse({}, 404 if found is None else 400)
        if found["state"] != "closed":
            found.update(state=asked["state"], note=str(asked.get("note", found["note"])))
        return JSONResponse(found)

    path = "/tickets/{reference}"
    return Starlette(
        routes=[
            Route(path, put, methods=["PUT"]),
            Route(path, get, methods=["GET"]),
            Route(path, patch, methods=["PATCH"]),
        ]
    )

"""The console of a simulator: what it can do, what it is told to do next, and what it has seen.

Absent where no simulator is on. What an order may hold is decided where the control API decides it. docs/simulator.md.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service.domain.behaviours import BEHAVIOURS, PARAMETERS, Endpoint, Group
from arap_service.domain.callers import Scope
from arap_service.domain.errors import ArapError, InvalidRequest, UnknownTask
from arap_service.simulator.control import give_order
from arap_service.simulator.core import Simulator
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.rendering import render

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
_PATH: Final = "/desk/simulator"
_SEEN: Final = 20
_NAMED: Final = ("behaviour", "task", "template", "endpoint")
_LONGEST: Final = 30
GROUPS: Final = {
    Group.OUTCOME: "How a request ends",
    Group.REEVALUATION: "When an approval is presented",
    Group.CALLBACK: "Messages that tell of an end",
    Group.ENDPOINT: "Faults of an address",
    Group.CLOCK: "The clock",
}


@dataclass(frozen=True, slots=True)
class Order:
    """What was typed into the form of an order, and what is wrong with it."""

    message: str | None = None
    typed: dict[str, str] = field(default_factory=dict)


@router.api_route(_PATH, methods=sorted(READING), response_model=None)
async def console(request: Request) -> Response:
    """Everything on one page."""
    asked = visit(request)
    return _page(asked, _simulator(asked), Order())


@router.post(_PATH + "/orders", response_model=None)
async def order(request: Request) -> Response:
    """Tell the simulator what to do next, or say why it cannot."""
    asked = visit(request)
    simulator = _simulator(asked)
    try:
        give_order(asked.ctx, simulator, _body(asked.fields))
    except ArapError as refused:
        return _page(asked, simulator, Order(refused.detail or "That cannot be done now.", asked.fields), status=422)
    return RedirectResponse(f"{asked.page.root}{_PATH}", status_code=303)


@router.post(_PATH + "/end", response_model=None)
async def end(request: Request) -> Response:
    """Go back to doing what the rules and the reviewers say."""
    asked = visit(request)
    _simulator(asked).clear()
    return RedirectResponse(f"{asked.page.root}{_PATH}", status_code=303)


def _simulator(asked: Visit) -> Simulator:
    asked.require("administrators", Scope.ADMIN)
    simulator = asked.ctx.rehearsal
    if not isinstance(simulator, Simulator):
        raise UnknownTask
    return simulator


def _body(fields: dict[str, str]) -> dict[str, Any]:
    """The order as the control API takes it; what was left empty is not in it."""
    body: dict[str, Any] = {name: fields[name].strip() for name in _NAMED if fields.get(name, "").strip()}
    for name in PARAMETERS:
        text = fields.get(name, "").strip()
        if text:
            body[name] = _number(text, name)
    return body


def _number(text: str, name: str) -> float | int:
    try:
        if len(text) <= _LONGEST:
            number = float(text)
            if math.isfinite(number):
                return int(number) if number.is_integer() else number
    except (ValueError, OverflowError):
        pass
    raise InvalidRequest(f"{name.capitalize().replace('_', ' ')} is a number.", pointer=f"/{name}")


def _page(asked: Visit, simulator: Simulator, order: Order, *, status: int = 200) -> Response:
    notebook = simulator.notebook
    values: dict[str, Any] = {
        "said": simulator.said(),
        "now": simulator.clock(),
        "seen": [each.said() for each in notebook.since(max(0, notebook.last - _SEEN))][::-1],
        "groups": [
            (title, [each for each in BEHAVIOURS.values() if each.group is group]) for group, title in GROUPS.items()
        ],
        "parameters": PARAMETERS,
        "templates": sorted((name, each.title) for name, each in asked.ctx.policy.current().templates.items()),
        "endpoints": [str(endpoint) for endpoint in Endpoint],
        "order": order,
    }
    return render("simulator.html", asked.page, status=status, **values)

"""The control API of a simulator: what it can do, what it is told to do, and what it has seen.

Needs a token with the scope `admin`, although nobody but this machine can call: pages of other sites are opened on it,
too. Absent where no simulator is on. See docs/simulator.md.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from arap_service.api.auth import CallerDep, ContextDep
from arap_service.api.bodies import json_object
from arap_service.api.problems import NO_STORE, problem_responses
from arap_service.context import Context
from arap_service.domain import errors
from arap_service.domain.behaviours import (
    BEHAVIOURS,
    PARAMETERS,
    Act,
    Behaviour,
    BehaviourInvalid,
    Endpoint,
    Group,
    read_act,
)
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import InvalidRequest, RateLimited, UnknownTask
from arap_service.simulator.core import Simulator
from arap_service.simulator.program import Armed, Target

router = APIRouter(prefix="/simulator/v1", tags=["simulator"])
_TARGETS: Final = frozenset({"task", "template", "endpoint"})
_BEHAVIOUR: Final = {
    "type": "object",
    "required": ["behaviour"],
    "additionalProperties": False,
    "properties": {
        "behaviour": {"enum": list(BEHAVIOURS)},
        "task": {"type": "string"},
        "template": {"type": "string"},
        "endpoint": {"enum": [str(endpoint) for endpoint in Endpoint]},
        **{
            name: {"type": "number", "minimum": each.least, "maximum": each.most, "description": each.means}
            for name, each in PARAMETERS.items()
        },
    },
}
_REFUSALS: Final = problem_responses(errors.Unauthenticated, errors.Forbidden)


@router.get("/behaviours", summary="What the simulator can do, and what it is told to do", responses=_REFUSALS)
async def behaviours(caller: CallerDep, ctx: ContextDep) -> JSONResponse:
    """The catalogue, what is armed, and the clock."""
    simulator = _allowed(caller, ctx)
    return _answer({**simulator.said(), "catalogue": [catalogued(each) for each in BEHAVIOURS.values()]})


@router.post(
    "/behaviours",
    summary="Tell the simulator what to do",
    status_code=201,
    response_class=JSONResponse,
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _BEHAVIOUR}}}},
    responses={**_REFUSALS, **problem_responses(errors.InvalidRequest, errors.UnknownTask, errors.RateLimited)},
)
async def arm(request: Request, caller: CallerDep, ctx: ContextDep) -> JSONResponse:
    """Arm a behaviour for a task, a template or an endpoint; moving the clock has no target."""
    simulator = _allowed(caller, ctx)
    armed = give_order(ctx, simulator, await json_object(request))
    return _answer(armed.said(), status=201)


def give_order(ctx: Context, simulator: Simulator, body: dict[str, Any]) -> Armed:
    """Arm what `body` asks for.

    Raises:
        InvalidRequest: It asks for nothing that there is.
        UnknownTask: The rules have no such template.
        RateLimited: Too much is armed.
    """
    act = _act({name: value for name, value in body.items() if name not in _TARGETS})
    target = _target({name: value for name, value in body.items() if name in _TARGETS}, act.behaviour)
    if target.template is not None and target.template not in ctx.policy.current().templates:
        raise UnknownTask("The rules have no such template.")
    try:
        armed = simulator.arm(act, target)
    except OverflowError:
        raise InvalidRequest("No calendar goes that far.", pointer="/seconds") from None
    if armed is None:
        raise RateLimited(retry_after=1)
    return armed


@router.delete("/behaviours", summary="Stop misbehaving", status_code=204, responses=_REFUSALS)
async def clear(caller: CallerDep, ctx: ContextDep) -> Response:
    """Forget all that is armed; the clock stays where it is."""
    _allowed(caller, ctx).clear()
    return Response(status_code=204, headers=NO_STORE)


@router.get("/observations", summary="What enforcement points were seen to do", responses=_REFUSALS)
async def observations(
    caller: CallerDep,
    ctx: ContextDep,
    after: Annotated[int, Query(ge=0, description="The last number that is known")] = 0,
) -> JSONResponse:
    """Exchanges after number `after`, oldest first: times, statuses, ids and digests, nothing of what was said."""
    simulator = _allowed(caller, ctx)
    notebook = simulator.notebook
    return _answer({"last": notebook.last, "observations": [each.said() for each in notebook.since(after)]})


def catalogued(behaviour: Behaviour) -> dict[str, Any]:
    """One row of the table as the catalogue shows it."""
    return {
        "name": behaviour.name,
        "group": behaviour.group,
        "does": behaviour.does,
        "client": behaviour.client,
        "rules": list(behaviour.rules),
        "parameters": list(behaviour.parameters),
        "times": behaviour.times,
    }


def _allowed(caller: Caller, ctx: Context) -> Simulator:
    caller.require(Scope.ADMIN)
    simulator = ctx.rehearsal
    if not isinstance(simulator, Simulator):
        raise UnknownTask
    return simulator


def _act(entry: dict[str, Any]) -> Act:
    try:
        return read_act(entry)
    except BehaviourInvalid as error:
        raise InvalidRequest(f"{error}.".capitalize(), pointer=f"/{error.member[:64]}") from None


def _target(given: dict[str, Any], behaviour: Behaviour) -> Target:
    match behaviour.group:
        case Group.CLOCK:
            wanted: tuple[str, ...] = ()
        case Group.ENDPOINT:
            wanted = ("endpoint",)
        case _:
            wanted = ("task", "template")
    name = next(iter(given), None)
    if len(given) != min(1, len(wanted)) or (name is not None and name not in wanted):
        text = f"Exactly one of {' and '.join(wanted)} is wanted." if wanted else "The clock is there once."
        raise InvalidRequest(text, pointer="")
    value = None if name is None else given[name]
    if name == "endpoint":
        if not isinstance(value, str) or value not in set(Endpoint):
            raise InvalidRequest("There is no endpoint of this name.", pointer="/endpoint")
        return Target(endpoint=Endpoint(value))
    if name is not None and not (isinstance(value, str) and 0 < len(value) <= 255):
        raise InvalidRequest("A name is wanted.", pointer=f"/{name}")
    return Target(task=value if name == "task" else None, template=value if name == "template" else None)


def _answer(body: dict[str, Any], *, status: int = 200) -> JSONResponse:
    return JSONResponse(body, status, NO_STORE)

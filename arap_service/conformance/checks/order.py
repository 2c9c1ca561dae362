"""Group `order`: a request that is wrong in two ways gets the error of the earlier check."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import refused
from arap_service.conformance.trial import Denial, Trial
from blackbox_kit.model import Json, NotApplicable, NotKept

GROUP: Final = "order"


@rule(
    "caller-before-body",
    GROUP,
    "MUST authenticate and authorize the PEP before accepting Access Request submissions.",
    requirements=("ARS-10",),
)
async def caller_before_body(trial: Trial) -> None:
    """No token and no JSON: 401."""
    denial = await trial.denied()
    answer = await trial.submit(denial, role=None, raw=b"{no json")
    if answer.status != 401:
        raise NotKept(f"no token and no JSON was answered with {answer.brief()}, not 401")


@rule(
    "binding-before-expiry",
    GROUP,
    "rejecting a mismatch with `urn:openid:authzen:access-request:error:invalid_denial_binding`;",
    requirements=("ARS-34", "ARS-10"),
    level=Level.SHOULD,
    verbs=("expire_denial",),
)
async def binding_before_expiry(trial: Trial) -> None:
    """Another resource, and too late: invalid_denial_binding."""
    denial = await trial.denied()
    await trial.do("expire_denial", None)
    refused(await trial.submit(denial, _elsewhere(denial)), "invalid_denial_binding", "another resource, and too late,")


@rule(
    "key-before-binding",
    GROUP,
    "A submission with the same `Idempotency-Key` and authenticated requester but a materially different "
    "submission body MUST be rejected with `urn:openid:authzen:access-request:error:duplicate_request`.",
    requirements=("ARS-10", "ARS-40"),
)
async def key_before_binding(trial: Trial) -> None:
    """A key used before, and another resource: duplicate_request."""
    task = await trial.open()
    answer = await trial.submit(task.denial, _elsewhere(task.denial), key=task.key)
    refused(answer, "duplicate_request", "a key used before, and another resource,")


@rule(
    "binding-before-callback",
    GROUP,
    "MUST verify the denial-binding material for every requested item, applying the following rules:",
    requirements=("ARS-10",),
    level=Level.SHOULD,
    profiles=("callbacks",),
)
async def binding_before_callback(trial: Trial) -> None:
    """Another resource, and a callback that is refused: invalid_denial_binding."""
    if trial.control.callbacks is None:
        raise NotApplicable("the control file has no callbacks")
    denial = await trial.denied()
    body = _elsewhere(denial) | {"callback": {"endpoint": trial.control.callbacks.unregistered}}
    refused(await trial.submit(denial, body), "invalid_denial_binding", "another resource, and a refused callback,")


def _elsewhere(denial: Denial) -> Json:
    body = denial.body()
    return body | {"resource": {**body["resource"], "id": f"{body['resource'].get('id')}-other"}}


CHECKS: Final[tuple[Check, ...]] = (
    caller_before_body,
    binding_before_expiry,
    key_before_binding,
    binding_before_callback,
)

"""Group `callbacks`: the suite listens on loopback and is told of ends."""

from typing import Final

from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

GROUP: Final = "callbacks"


@rule(
    "callback-tells-the-task",
    GROUP,
    "Callback notifications MUST contain a `task` member and MAY contain a `result` member.",
    requirements=("ARS-93",),
    verbs=("approve",),
    profiles=("callbacks",),
)
async def callback_tells_the_task(trial: Trial) -> None:
    """The call has `task` with id and status, and `state` unmodified."""
    await trial.not_written()


@rule(
    "callback-is-authenticated",
    GROUP,
    "The Access Request Service MUST authenticate to the callback endpoint using a mechanism agreed "
    "between the PEP and Access Request Service.",
    requirements=("ARS-95",),
    verbs=("approve",),
    profiles=("callbacks",),
)
async def callback_is_authenticated(trial: Trial) -> None:
    """The call is authenticated as the control file says: bearer or HMAC."""
    await trial.not_written()


@rule(
    "callback-events-are-chosen",
    GROUP,
    "Array of event names requested by the PEP.",
    requirements=("ARS-92",),
    verbs=("approve", "deny"),
    profiles=("callbacks",),
)
async def callback_events_are_chosen(trial: Trial) -> None:
    """Only the events that were asked for are told."""
    await trial.not_written()


@rule(
    "callback-must-be-registered",
    GROUP,
    "The Access Request Service MUST validate that the endpoint is authorized for the authenticated PEP, "
    "either by matching a pre-registered callback URI or by applying an explicit deployment allowlist.",
    requirements=("ARS-88", "ARS-91"),
    profiles=("callbacks",),
)
async def callback_must_be_registered(trial: Trial) -> None:
    """A URL that nobody registered is refused: no task."""
    await trial.not_written()


@rule(
    "callback-goes-nowhere-inside",
    GROUP,
    "The Access Request Service MUST reject callback endpoints that resolve to loopback, link-local, "
    "private-use, or otherwise internal network addresses unless the deployment has explicitly allowed "
    "that destination.",
    requirements=("ARS-89",),
    profiles=("callbacks",),
)
async def callback_goes_nowhere_inside(trial: Trial) -> None:
    """A URL of an internal address is refused: no task."""
    await trial.not_written()


@rule(
    "callback-failure-changes-nothing",
    GROUP,
    "The Task Status Endpoint remains authoritative unless the callback contains an enforceable "
    "completion result under {{completion-semantics}}.",
    requirements=("ARS-97",),
    verbs=("approve",),
    profiles=("callbacks",),
)
async def callback_failure_changes_nothing(trial: Trial) -> None:
    """A receiver that fails changes nothing about the task."""
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    callback_tells_the_task,
    callback_is_authenticated,
    callback_events_are_chosen,
    callback_must_be_registered,
    callback_goes_nowhere_inside,
    callback_failure_changes_nothing,
)

"""Group `submission`: what is accepted, what comes back, and the form of errors."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

GROUP: Final = "submission"


@rule(
    "submission-needs-authentication",
    GROUP,
    "MUST authenticate and authorize the PEP before accepting Access Request submissions.",
    requirements=("ARS-01",),
)
async def submission_needs_authentication(trial: Trial) -> None:
    """Without a token, and with one that nobody issued: 401 with `WWW-Authenticate`."""
    await trial.not_written()


@rule(
    "submission-becomes-task",
    GROUP,
    "A successful Access Request submission returns HTTP status code `201 Created` or `202 Accepted` and "
    "a JSON object containing a `task` member.",
    requirements=("ARS-50",),
)
async def submission_becomes_task(trial: Trial) -> None:
    """201 or 202 with a task: id, status, status_endpoint."""
    await trial.not_written()


@rule(
    "location-is-the-status-endpoint",
    GROUP,
    "A response MAY also include an HTTP `Location` header equal to `task.status_endpoint`.",
    requirements=("ARS-50",),
)
async def location_is_the_status_endpoint(trial: Trial) -> None:
    """`Location`, where sent, equals `status_endpoint`."""
    await trial.not_written()


@rule(
    "task-ids-are-unguessable",
    GROUP,
    "The value MUST contain sufficient entropy to prevent practical guessing and MUST NOT encode "
    "semantics that a PEP is expected to parse.",
    requirements=("ARS-52",),
)
async def task_ids_are_unguessable(trial: Trial) -> None:
    """Ids are long, and no two differ in a few places only."""
    await trial.not_written()


@rule(
    "binding-is-required",
    GROUP,
    "The Access Request Service MUST reject a submission that lacks verifiable denial-binding material "
    "with `urn:openid:authzen:access-request:error:invalid_denial_binding`.",
    requirements=("ARS-11",),
)
async def binding_is_required(trial: Trial) -> None:
    """Without a token and an evaluation id: invalid_denial_binding."""
    await trial.not_written()


@rule(
    "errors-are-problems",
    GROUP,
    "MUST use `application/problem+json` as defined by {{RFC9457}} when returning one of the problem "
    "types defined by this specification.",
    requirements=("ARS-03",),
)
async def errors_are_problems(trial: Trial) -> None:
    """A defined error is application/problem+json with `type` and the status of that type."""
    await trial.not_written()


@rule(
    "plain-denial-is-not-requestable",
    GROUP,
    "MUST validate that the submission is based on a requestable denial, rejecting a submission that is "
    "not with `urn:openid:authzen:access-request:error:not_requestable`.",
    requirements=("ARS-12",),
    questions=("denied",),
    profiles=("id",),
)
async def plain_denial_is_not_requestable(trial: Trial) -> None:
    """The evaluation id of a plain denial: not_requestable."""
    await trial.not_written()


@rule(
    "unknown-members-are-ignored",
    GROUP,
    "An implementation receiving a member or value it does not recognize at an extension point MUST "
    "ignore it and MUST NOT fail processing on the basis of the unrecognized name.",
    requirements=("ARS-08",),
)
async def unknown_members_are_ignored(trial: Trial) -> None:
    """A member of nobody's at an extension point changes nothing."""
    await trial.not_written()


@rule(
    "resolved-at-once",
    GROUP,
    "the Access Request Service SHOULD return `201 Created` with `task.status` already set to a terminal "
    "value and a populated `result` member",
    requirements=("ARS-51",),
    level=Level.SHOULD,
    questions=("automatic",),
)
async def resolved_at_once(trial: Trial) -> None:
    """What policy approves at once is 201, terminal, with its result."""
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    submission_needs_authentication,
    submission_becomes_task,
    location_is_the_status_endpoint,
    task_ids_are_unguessable,
    binding_is_required,
    errors_are_problems,
    plain_denial_is_not_requestable,
    unknown_members_are_ignored,
    resolved_at_once,
)

"""Group `binding`, where there is no token: what was recorded under an evaluation id is compared, and nothing else."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from arap_service.conformance.checks.binding import BINDING, GROUP, bound_member
from arap_service.conformance.instants import utc_now
from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import refused
from arap_service.conformance.trial import Denial, Trial
from blackbox_kit.model import Json

RECORDED: Final = (
    "When `denial.binding_token` is absent, the service MUST resolve or validate `denial.evaluation_id`, retrieve the "
    "Subject, Resource, Action, authorization-relevant Context, and `expires_at` the PDP recorded for that evaluation, "
    "verify the Subject, Resource, Action, and Context match the submission using the structural comparison defined in "
    "{{binding-token-integrity}} (rejecting a mismatch with "
    "`urn:openid:authzen:access-request:error:invalid_denial_binding`), and enforce freshness against the recorded "
    "`expires_at` rather than the PEP-echoed `denial.expires_at`."
)


@rule("id-binds-the-question", GROUP, RECORDED, requirements=("ARS-28",), profiles=("id",))
async def id_binds_the_question(trial: Trial) -> None:
    """By the id alone: another subject, resource, action, or bound member of the context is invalid_denial_binding."""
    for part in ("subject", "resource", "action"):
        denial = await trial.denied()
        other = trial.other(denial, part)
        await _refused(trial, denial, {part: other[part]}, f"another {part}, bound by the id alone,")
    if "with_context" in trial.control.questions:
        denial = await trial.denied("with_context")
        name = bound_member(denial)
        context = {**denial.body_by_id()["context"], name: "conformance-other"}
        await _refused(
            trial, denial, {"context": context}, f"another context.{name}, bound by the evaluation_id alone,"
        )


@rule(
    "id-keeps-its-end",
    GROUP,
    RECORDED,
    requirements=("ARS-28", "ARS-30"),
    verbs=("expire_denial",),
    profiles=("id",),
)
async def id_keeps_its_end(trial: Trial) -> None:
    """By the id alone, after its end and with a later one written down: expired_denial."""
    denial = await trial.denied()
    await trial.do("expire_denial", None)
    body = denial.body_by_id()
    body["denial"]["expires_at"] = (utc_now() + timedelta(days=1)).isoformat(timespec="seconds").replace("+00:00", "Z")
    refused(await trial.submit(denial, body), "expired_denial", "an evaluation that is over, with a later end,")


async def _refused(trial: Trial, denial: Denial, change: Mapping[str, Any], what: str) -> None:
    body: Json = denial.body_by_id() | dict(change)
    answer = await trial.submit(denial, body)
    if "subject" not in change or answer.status != 403:  # who may not submit for that subject is told so first
        refused(answer, BINDING, what)


CHECKS: Final[tuple[Check, ...]] = (id_binds_the_question, id_keeps_its_end)

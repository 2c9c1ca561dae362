"""Steps 13 to 15 of the submission pipeline: who acts, what was filled in, and whom to tell.

Decides whether the chain of actors is proven, the input satisfies the template's schema and the callback may be called;
nothing here widens what was denied (ARS-107). Catalogue section 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import jsonschema_rs

from arap_service.context import Context
from arap_service.domain.actors import Chain
from arap_service.domain.callers import Caller
from arap_service.domain.catalogs import catalog_tuple, check_values
from arap_service.domain.errors import ActorUnverified, CallbackRejected, CatalogValueRejected, InputInvalid
from arap_service.domain.policy import Policy, Question, Template, facts_of
from arap_service.domain.policy_load import refuse_to_fetch
from arap_service.domain.visible import is_blank
from arap_service.outbound import DestinationRefused
from arap_service.protocol.arap import TERMINAL, parse_instant
from arap_service.protocol.canonical import json_pointer
from arap_service.protocol.expressions import ExpressionError
from arap_service.requests.intake import Intake
from arap_service.requests.proof import Proof
from arap_service.store import tasks

EVENTS: Final = frozenset(status.value for status in TERMINAL)
JUSTIFICATION: Final = "business_justification"
_OLDEST: Final = timedelta(hours=1)
"""No denial lasts longer than the schema of the rules file lets it."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked beside the access itself: until when, and whom to tell about which events (none: all)."""

    until: datetime | None
    callback: str | None
    events: tuple[str, ...]
    state: Any
    is_emergency: bool = False


def check_actor(caller: Caller, claimed: Chain) -> None:
    """Step 13: a claimed chain is that of the caller's own credential, whole and in order.

    Raises:
        ActorUnverified: It is another one.
    """
    if claimed and claimed != caller.act:  # ARS-99, ARS-100
        raise ActorUnverified


def check_input(template: Template, intake: Intake, *, now: datetime) -> datetime | None:
    """Step 14: the input satisfies the published schema; returns until when access is wanted.

    Raises:
        InputInvalid: It does not; every error names its place and the rule, never the value.
    """
    errors: list[Mapping[str, str]] = []
    if template.request_schema is not None:
        # ARS-106: the schema says which member goes where.
        given = {"context": intake.about.context, "requested_access": intake.requested_access}
        validator = jsonschema_rs.Draft202012Validator(dict(template.request_schema), retriever=refuse_to_fetch)
        errors = [
            {"pointer": json_pointer(error.instance_path), "code": str(error.kind.name)}
            for error in validator.iter_errors(given)
        ]
    until: datetime | None = None
    wanted = intake.submission.requested_access.requested_until
    if wanted is not None:
        try:
            until = parse_instant(wanted)
        except ValueError:
            errors.append({"pointer": "/requested_access/requested_until", "code": "format"})
        # ARS-108, in whole seconds as an approval would last: less could never be granted.
        if until is not None and until.replace(microsecond=0) <= now:
            errors.append({"pointer": "/requested_access/requested_until", "code": "past"})
    if intake.submission.requested_access.emergency and not _is_justified(intake):  # ARS-119
        errors.append({"pointer": f"/requested_access/{JUSTIFICATION}", "code": "required"})
    if errors:
        raise InputInvalid(errors=errors)
    return until


def _is_justified(intake: Intake) -> bool:
    texts = (place.get(JUSTIFICATION) for place in (intake.about.context, intake.requested_access))
    return any(isinstance(text, str) and not is_blank(text) for text in texts)


async def check_catalogs(
    ctx: Context,
    caller: Caller,
    intake: Intake,
    *,
    policy: Policy,
    template: Template,
    proof: Proof,
    now: datetime,
    chosen_at: datetime | None = None,
) -> None:
    """Step 14 as well: every value of a catalog may still be requested for what was denied (ARS-109).

    `chosen_at` is when an earlier denial was made that some were chosen for.

    Raises:
        CatalogValueRejected: One may not; the errors name place and code, never the value.
    """
    if not template.catalogs:
        return
    denial = await ctx.database.read(lambda session: tasks.find_denial(session, proof.recorded_as or ""))
    about = catalog_tuple(intake.about, proof.bound.members)
    try:
        facts = facts_of(policy, Question(*about, client_id=caller.client_id))
    except ExpressionError:
        facts = None
    # A denial that is not on record here may be as old as one can be.
    denied_at = now - _OLDEST if denial is None else denial.evaluated_at
    errors = check_values(
        template.catalogs,
        policy.catalogs,
        {"context": intake.about.context, "requested_access": intake.requested_access},
        facts=facts,
        denied_at=denied_at if chosen_at is None else min(denied_at, chosen_at),
    )
    if errors:
        raise CatalogValueRejected(extra={"errors": errors})


async def check_wishes(
    ctx: Context,
    caller: Caller,
    intake: Intake,
    *,
    policy: Policy,
    template: Template,
    proof: Proof,
    now: datetime,
    chosen_at: datetime | None = None,
) -> Wishes:
    """Steps 13 to 15, in this order; `chosen_at` as in `check_catalogs`.

    Raises:
        ActorUnverified, InputInvalid, CatalogValueRejected, CallbackRejected: The first of them that fails.
    """
    check_actor(caller, proof.bound.actor)
    until = check_input(template, intake, now=now)
    await check_catalogs(
        ctx, caller, intake, policy=policy, template=template, proof=proof, now=now, chosen_at=chosen_at
    )
    callback, is_emergency = intake.submission.callback, intake.submission.requested_access.emergency
    if callback is None:
        return Wishes(until, None, (), None, is_emergency)
    configured = ctx.settings.callbacks.get(caller.client_id)
    if configured is None or callback.endpoint not in configured.endpoints:  # ARS-88: exact, and this client's own
        raise CallbackRejected("The endpoint is not registered for this client.")
    events = tuple(callback.events or ())
    if not EVENTS.issuperset(events) or callback.events == []:  # ARS-92
        raise CallbackRejected("The events are empty or name one that does not exist.")
    try:
        await ctx.outbound.check(callback.endpoint, allow=configured.allow_destinations)  # ARS-89, ARS-90
    except DestinationRefused as refused:
        ctx.log.info("callback_refused", code=refused.code, client_id=caller.client_id)
        raise CallbackRejected("The endpoint is not one that may be called.") from None
    return Wishes(until, callback.endpoint, events, callback.state, is_emergency)

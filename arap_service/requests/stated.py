"""What a requester filled in for a denial, on its way into the request: merged beneath what the submission says itself.

A submission's own members count, and nothing that is bound changes. What was taken over is used up with the creation of
the request, in the same transaction, and stays with it for the reviewers, as stated by the requester and proven by
nobody (ARS-105, ARS-107).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.errors import InputInvalid
from arap_service.domain.forms import added, merged, open_part
from arap_service.domain.policy import Template
from arap_service.domain.revealing import reveal
from arap_service.domain.visible import visible
from arap_service.protocol.arap import parse_submission
from arap_service.protocol.authzen import InvalidShape
from arap_service.protocol.canonical import binding_hash, digest
from arap_service.protocol.sealing import KeyRing, SealBroken
from arap_service.records import Part
from arap_service.requests.endings import record
from arap_service.requests.forms import TABLE
from arap_service.requests.intake import Intake
from arap_service.requests.proof import Proof
from arap_service.requests.telling import names_of_marks
from arap_service.sealed import RowSeal
from arap_service.store import forms
from arap_service.store.database import WriteSession
from arap_service.store.form_tables import FilledForm
from arap_service.views import StatedView, argument_view


@dataclass(frozen=True, slots=True)
class Stated:
    """What a submission takes over of a form; `chosen_at` is when the denial was made that it was filled in for."""

    evaluation_id: str
    values: Mapping[str, Any]
    filled_by: str
    chosen_at: datetime
    seal: RowSeal


async def take_over(
    ctx: Context,
    caller: Caller,
    intake: Intake,
    *,
    proof: Proof,
    template: Template,
    now: datetime,
    is_item: bool = False,
) -> tuple[Intake, Stated | None]:
    """The submission with what was filled in for its denial, or for an equal one before, and what that adds to it.

    An item of a bundle shares its context with others, and takes over wishes alone.

    Raises:
        InputInvalid: Together they are no submission.
    """
    evaluation_id = proof.recorded_as
    if not template.form or evaluation_id is None:
        return intake, None
    bound = binding_hash(*intake.about, proof.bound.members)
    row = await ctx.database.read(
        lambda session: forms.unused_form(
            session,
            evaluation_id,
            caller=caller.principal,
            client_id=caller.client_id,
            template_id=template.id,
            binding_hash=bound,
            now=now,
        )
    )
    if row is None:
        return intake, None
    try:
        seal = _seal_of(row, ctx.ring)
        filled = open_part(seal.open("values_sealed", row.values_sealed), bound=proof.bound.members)
    except SealBroken:
        ctx.log.warning("form_unreadable", evaluation_id=row.evaluation_id)
        return intake, None
    own = {"context": intake.about.context, "requested_access": intake.requested_access}
    if is_item:
        filled.pop("context", None)
    taken = added(own, filled)
    if not taken:
        return intake, None
    stated = Stated(row.evaluation_id, taken, row.filled_by, row.evaluated_at, seal)
    return _with(intake, merged(own, filled)), stated


def _with(intake: Intake, members: Mapping[str, Any]) -> Intake:
    body = {**intake.body, **{name: value for name, value in members.items() if value}}
    try:
        submission = parse_submission(body)
    except InvalidShape as fault:
        raise InputInvalid(errors=[{"pointer": fault.pointer, "code": "type"}]) from None
    about = intake.about._replace(context=members["context"])
    return replace(intake, body=body, submission=submission, about=about)


def use(session: WriteSession, part: Part, stated: Stated, *, by: str, now: datetime) -> None:
    """Use up the form within the transaction that makes the request.

    Raises:
        InputInvalid: Another request was faster.
    """
    used = forms.use_form(
        session,
        stated.evaluation_id,
        task_id=part.task.id,
        item=part.item,
        at=now,
        sealed=stated.seal.seal("values_sealed", stated.values),
    )
    if not used:
        raise InputInvalid("What was filled in has been used by another request.")
    detail = {"form": stated.evaluation_id, "filled_by": stated.filled_by, "digest": digest(stated.values)}
    record(session, part, "form_used", by, detail, now=now)


def told_apart(session: Session, ring: KeyRing, part: Part, shown: Mapping[str, Any], *, quoted: str) -> dict[str, Any]:
    """The members `arguments`, `facts`, `hidden` of a view, and `stated`: what came from a form stands nowhere else.

    It is told as far as the template reveals it; the member `quoted`, which is quoted by itself, is left out.
    """
    row = next((row for row in forms.forms_of(session, part.task.id) if row.item == part.item), None)
    if row is None:
        return {**shown, "stated": None}
    values, template = _seal_of(row, ring).open("values_sealed", row.values_sealed), part.own.template
    found = reveal(values, allowed=template["reveal"], mask=template["mask"]).shown
    taken = {each.pointer for each in found}
    return {
        "arguments": tuple(view for view in shown["arguments"] if view.pointer not in taken),
        "facts": tuple(view for view in shown["facts"] if view.pointer not in taken),
        "hidden": shown["hidden"],
        "stated": StatedView(
            at=row.filled_at,
            by=visible(names_of_marks(session, {row.filled_by})[row.filled_by]),
            values=tuple(argument_view(each) for each in found if not each.pointer.endswith("/" + quoted)),
        ),
    }


def _seal_of(row: FilledForm, ring: KeyRing) -> RowSeal:
    return RowSeal(ring, row.data_key, table=TABLE, row_id=row.evaluation_id)

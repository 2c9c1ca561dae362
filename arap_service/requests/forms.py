"""The page that a denial names: what the requester may fill in there, and what is kept of it until it is requested.

Only a person who is the denial's subject, or whom the denied caller belongs to, sees it; to anybody else there is no
such page. It is filled in once, lasts as long as the denial, and gives nobody a right: the values go into the next
request for the same thing, which is checked like any other (ARS-105, ARS-107, ARS-109). Design.md sections 5 and 7.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from arap_service import audit
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.catalogs import catalog_tuple, check_values, list_items, may_list, value_at
from arap_service.domain.errors import ExpiredDenial, InvalidTaskState, UnknownTask
from arap_service.domain.forms import Choice, FormField, fields_of, merged, read
from arap_service.domain.input_faults import Fault, faults_of
from arap_service.domain.policy import Policy, Question, Template, facts_of
from arap_service.protocol.arap import parse_instant
from arap_service.protocol.canonical import Tuple4, digest, json_pointer
from arap_service.protocol.expressions import ExpressionError, Facts
from arap_service.protocol.sealing import SealBroken
from arap_service.records import recorded_denial
from arap_service.sealed import RowSeal
from arap_service.store import forms, people, tasks
from arap_service.store.database import WriteSession
from arap_service.store.form_tables import FilledForm
from arap_service.store.tables import Denial

TABLE: Final = "filled_form"
_MOST_CHOICES: Final = 200
_LONGEST_CHAIN: Final = 3
_UNTIL: Final = ("requested_access", "requested_until")
_CHECKED: Final[Mapping[str, str]] = {
    "required": "Please fill this in.",
    "minLength": "Please write more.",
    "maxLength": "Please write less.",
    "pattern": "This does not have the form that is asked for.",
    "minimum": "This number is too small.",
    "exclusiveMinimum": "This number is too small.",
    "maximum": "This number is too large.",
    "exclusiveMaximum": "This number is too large.",
    "multipleOf": "This number is not one of those that are accepted.",
    "minItems": "Please name more.",
    "maxItems": "Please name fewer.",
    "uniqueItems": "Please name each only once.",
    "enum": "Please choose one of the values.",
    "const": "This has to be chosen for the request to be accepted.",
    "past": "Please name a time that is still to come.",
}
_NOT_ACCEPTED: Final = "This is not accepted as it stands."
_NO_CHOICE: Final = "This cannot be chosen for what was denied. Please choose again."
_TOGETHER: Final = "Together these values are not accepted. Please look at the descriptions beside them."


@dataclass(frozen=True, slots=True)
class FormView:
    """The form as its reader sees it.

    `waiting` names fields whose choices depend on others that are still empty, `depends` says that some depend on any
    other; `messages` stand beside the fields that
    they name, the one for no field under an empty name; `typed` is what was typed.
    """

    title: str
    explanation: str
    action: str
    resource: Mapping[str, Any]
    expires_at: datetime
    is_filled: bool
    fields: tuple[FormField, ...] = ()
    waiting: frozenset[str] = frozenset()
    depends: bool = False
    messages: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Served:
    """A denial whose form its reader may see."""

    row: Denial
    about: Tuple4
    policy: Policy
    template: Template
    facts: Facts | None
    is_filled: bool

    def view(self, **more: Any) -> FormView:
        return FormView(
            self.template.title,
            self.template.explanation,
            str(self.about.action["name"]),
            self.about.resource,
            self.row.expires_at,
            self.is_filled,
            **more,
        )


async def open_form(
    ctx: Context, caller: Caller, evaluation_id: str, *, typed: Mapping[str, str] | None = None
) -> FormView:
    """The form of this denial, with the choices that fit what has been typed.

    Raises:
        UnknownTask: There is no such form for this person.
        ExpiredDenial: There was one, and nothing can be requested for its denial any more.
    """
    served = await ctx.database.read(lambda session: _serve(ctx, session, caller, evaluation_id))
    return _filled_with(served, typed or {}, {})


async def fill_in(ctx: Context, caller: Caller, evaluation_id: str, *, typed: Mapping[str, str]) -> FormView:
    """Keep what was typed, unless something is wrong with it; `messages` of the form say what, nothing if all is well.

    Raises:
        UnknownTask, ExpiredDenial: As `open_form`.
        InvalidTaskState: It had been filled in before.
    """
    served = await ctx.database.read(lambda session: _serve(ctx, session, caller, evaluation_id))
    if served.is_filled:
        raise InvalidTaskState
    shown = _filled_with(served, typed, {})
    found = read(shown.fields, typed)
    given = _given(served, found.values)
    messages = {**_faults(served, shown.fields, given, now=ctx.clock()), **found.messages}
    if messages:
        return replace(shown, messages=messages)
    values = dict(found.values)
    try:
        await ctx.database.write(lambda session: _keep(ctx, session, caller, evaluation_id, values))
    except IntegrityError:  # somebody sent the same form at the same time: what was first counts
        raise InvalidTaskState from None
    ctx.log.info("form_filled", evaluation_id=evaluation_id)
    return replace(shown, is_filled=True, typed={})


def _serve(ctx: Context, session: Session, caller: Caller, evaluation_id: str) -> _Served:
    row = tasks.find_denial(session, evaluation_id)
    if row is None:
        raise UnknownTask
    policy = ctx.policy.current()
    template = policy.templates.get(row.template_id)
    try:
        denial = recorded_denial(row, ctx.ring)
    except SealBroken:
        ctx.log.warning("denial_unreadable", evaluation_id=evaluation_id)
        raise UnknownTask from None
    if not _is_requester(session, caller, row, str(denial.about.subject["id"])):
        raise UnknownTask  # ARS-63: what is not his looks as if it were not there
    if template is None or not template.form or template.request_schema is None:
        raise UnknownTask
    is_filled = forms.find_form(session, evaluation_id) is not None
    if not is_filled and ctx.clock() >= row.expires_at:
        raise ExpiredDenial
    try:
        about = catalog_tuple(denial.about, row.binding_members)
        facts = facts_of(policy, Question(*about, client_id=row.client_id))
    except ExpressionError:
        facts = None
    return _Served(row, denial.about, policy, template, facts, is_filled)


def _is_requester(session: Session, caller: Caller, row: Denial, subject: str) -> bool:
    """Whether the person at the desk is the one who was denied, or whose the denied caller is.

    A name that may mean several people means nobody.
    """
    person = None if caller.person_id is None else people.find_person(session, caller.person_id)
    if person is None or not person.active:
        return False
    issuer, _, name = row.caller.partition("|")
    owner = people.person_of_identity(session, issuer, name)
    return (owner is not None and owner.id == person.id) or people.people_called(session, subject) == {person.id}


def _filled_with(served: _Served, typed: Mapping[str, str], messages: Mapping[str, str]) -> FormView:
    if served.is_filled:
        return served.view()
    fields = fields_of(
        served.template.request_schema or {}, context=served.about.context, bound=served.row.binding_members
    )
    fields = tuple(_moment_of_end(each) for each in fields)
    offered, waiting = fields, frozenset[str]()
    given = _given(served, {})
    for _ in range(_LONGEST_CHAIN):  # what can be chosen in one may depend on what was chosen in another
        offered, waiting = _with_choices(served, fields, given)
        given = _given(served, read(offered, typed).values)
    depends = any(source.scope for source in served.template.catalogs.values())
    return served.view(fields=offered, waiting=waiting, depends=depends, messages=messages, typed=typed)


def _with_choices(
    served: _Served, fields: tuple[FormField, ...], given: Mapping[str, Any]
) -> tuple[tuple[FormField, ...], frozenset[str]]:
    """The fields with what can be chosen, and the names of those that wait for others."""
    offered: list[FormField] = []
    waiting: set[str] = set()
    for each in fields:
        source = served.template.catalogs.get(each.pointer)
        if source is None:
            offered.append(each)
            continue
        scope = {name: value_at(given, place) for name, place in source.scope.items()}
        chosen = {name: value for name, value in scope.items() if isinstance(value, str)}
        if len(chosen) < len(scope):
            waiting.add(each.name)
        offered.append(_offered(served, each, chosen, is_waiting=len(chosen) < len(scope)))
    return tuple(offered), frozenset(waiting)


def _moment_of_end(each: FormField) -> FormField:
    return replace(each, kind="moment") if each.path == _UNTIL else each


def _offered(served: _Served, each: FormField, scope: Mapping[str, str], *, is_waiting: bool) -> FormField:
    """A field of a catalog with the values that may be requested; one with more than fit stays a text."""
    catalog = served.policy.catalogs[served.template.catalogs[each.pointer].catalog]
    choices: tuple[Choice, ...] = ()
    if served.facts is not None and not is_waiting and may_list(catalog, served.facts):
        listed = list_items(catalog, served.facts, scope=scope, limit=_MOST_CHOICES)
        if listed.after is not None:
            return each
        choices = tuple(
            Choice(_key(item["value"]), _label(item, several=each.kind == "lines"), item["value"])
            for item in listed.items
        )
    return replace(each, kind="lines" if each.kind == "lines" else "choice", choices=choices)


def _key(value: str) -> str:
    """What the form sends for a value: the same whatever else is offered, and safe from how pages show text."""
    return hashlib.sha256(value.encode()).hexdigest()[:16]


def _label(item: Mapping[str, str], *, several: bool) -> str:
    if several and item["label"] != item["value"]:
        return f"{item['value']} ({item['label']})"
    return item["label"] if "description" not in item else f"{item['label']}: {item['description']}"


def _given(served: _Served, values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "context": merged(served.about.context, values.get("context", {})),
        "requested_access": values.get("requested_access", {}),
    }


def _faults(
    served: _Served, fields: tuple[FormField, ...], given: Mapping[str, Any], *, now: datetime
) -> dict[str, str]:
    found = [*faults_of(served.template.request_schema or {}, given)]
    until = given["requested_access"].get("requested_until")
    if isinstance(until, str) and parse_instant(until).replace(microsecond=0) <= now:
        found.append(Fault(_UNTIL, "past"))
    messages: dict[str, str] = {}
    for fault in found:
        place = _field_at(fields, json_pointer(fault.path))
        messages.setdefault(place, _CHECKED.get(fault.code, _NOT_ACCEPTED) if place else _TOGETHER)
    catalogs = served.template.catalogs, served.policy.catalogs
    for error in check_values(*catalogs, given, facts=served.facts, denied_at=served.row.evaluated_at):
        place = _field_at(fields, error["pointer"])
        messages.setdefault(place, _NO_CHOICE if place else _TOGETHER)
    return messages


def _field_at(fields: tuple[FormField, ...], pointer: str) -> str:
    """The name of the field that a fault at `pointer` is about; empty where it is about none, or all."""
    for each in fields:
        if (pointer + "/").startswith(each.pointer + "/") or each.pointer.startswith(pointer + "/"):
            return each.name
    return ""


def _keep(ctx: Context, session: WriteSession, caller: Caller, evaluation_id: str, values: Mapping[str, Any]) -> None:
    served = _serve(ctx, session, caller, evaluation_id)  # again, since the deadline may have come
    if served.is_filled:
        raise InvalidTaskState
    row, now, mark = served.row, ctx.clock(), f"person:{caller.person_id}"
    seal = RowSeal.new(ctx.ring, table=TABLE, row_id=evaluation_id)
    session.add(
        FilledForm(
            evaluation_id=evaluation_id,
            template_id=row.template_id,
            caller=row.caller,
            client_id=row.client_id,
            binding_hash=row.binding_hash,
            evaluated_at=row.evaluated_at,
            expires_at=row.expires_at,
            filled_by=mark,
            filled_at=now,
            data_key=seal.wrapped,
            values_sealed=seal.seal("values_sealed", values),
        )
    )
    session.flush()
    detail = {"template": row.template_id, "digest": digest(values)}  # ARS-122
    audit.append(
        session, evaluation_id, kind="form_filled", actor=mark, detail=detail, now=now, evaluation_id=evaluation_id
    )

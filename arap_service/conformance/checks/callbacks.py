"""Group `callbacks`: the suite listens on loopback and is told of ends."""

import base64
import hashlib
import hmac
import json
from typing import Any, Final

from standardwebhooks import Webhook, WebhookVerificationError

from arap_service.conformance.control import Callbacks
from arap_service.conformance.listener import Call
from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Task, Trial
from blackbox_kit.model import Json, NotApplicable, NotKept, NotRun

GROUP: Final = "callbacks"
STATE: Final = "conformance \u00e9 \U0001f600 / state=="


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
    task, calls = await _told(trial)
    if not calls:
        raise NotKept("no call came")
    body = _read(calls[0])
    told = body.get("task")
    if not isinstance(told, dict) or told.get("id") != task.id or told.get("status") != "approved":
        raise NotKept(f"the call tells {told!r}")
    if body.get("state") != STATE:
        raise NotKept(f"the state came as {body.get('state')!r}")
    result = body.get("result")
    if result is not None and (not isinstance(result, dict) or result.get("mode") is None):
        raise NotKept("the call has a result without a mode")


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
    _, calls = await _told(trial)
    if not calls:
        raise NotRun("no call came")
    if not _is_authentic(_callbacks(trial), calls[0], trial.secrets):
        raise NotKept("the call is not authenticated as agreed")


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
    approved = await trial.open(change=_callback(trial, events=["denied"]))
    denied = await trial.open(change=_callback(trial, events=["denied"]))
    await trial.do("approve", approved)
    await trial.ended(approved)
    await trial.do("deny", denied)
    await trial.ended(denied)
    if not await trial.called(denied):
        raise NotRun("no call came for the event that was asked for")
    await trial.settle()
    if trial.ear().about(approved.id):
        raise NotKept("an approval was told to somebody who asked for denials only")


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
    await _refused(trial, _callbacks(trial).unregistered, "a URL that nobody registered")


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
    if not _callbacks(trial).inside:
        raise NotApplicable("the control file names no internal address (callbacks.inside)")
    for url in _callbacks(trial).inside:
        await _refused(trial, url, url)


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
    trial.ear().status = 500
    task = await trial.open(change=_callback(trial))
    await trial.do("approve", task)
    await trial.ended(task)
    if not await trial.called(task):
        raise NotRun("no call came")
    await trial.settle()
    if (status := await trial.status(task)) != "approved":
        raise NotKept(f"after a receiver failed, the approved task is {status!r}")


def _callbacks(trial: Trial) -> Callbacks:
    if trial.control.callbacks is None:
        raise NotApplicable("the control file has no callbacks")
    return trial.control.callbacks


def _callback(trial: Trial, **more: Any) -> Json:
    return {"callback": {"endpoint": _callbacks(trial).endpoint, "state": STATE, **more}}


async def _told(trial: Trial) -> tuple[Task, list[Call]]:
    """An approved task, and the calls about it."""
    trial.ear()
    task = await trial.open(change=_callback(trial))
    await trial.do("approve", task)
    await trial.ended(task)
    return task, await trial.called(task)


async def _refused(trial: Trial, url: str, what: str) -> None:
    denial = await trial.denied()
    answer = await trial.submit(denial, denial.body() | {"callback": {"endpoint": url}})
    if answer.is_success:
        raise NotKept(f"a callback to {what} was accepted")
    if answer.status >= 500 or answer.status in {401, 403}:
        raise NotRun(f"a callback to {what} was answered with {answer.brief()}")


def _read(call: Call) -> Json:
    try:
        body = json.loads(call.body)
    except (ValueError, RecursionError):
        raise NotKept("the call's body is no JSON") from None
    if not isinstance(body, dict):
        raise NotKept("the call's body is no object")
    return body


def _is_authentic(callbacks: Callbacks, call: Call, secrets: Any) -> bool:
    if callbacks.bearer is not None:
        return hmac.compare_digest(
            call.headers.get("authorization", "").encode(), f"Bearer {secrets['bearer']}".encode()
        )
    if callbacks.hmac is not None:
        wanted = hmac.new(secrets["hmac"].encode(), call.body, hashlib.sha256).digest()
        sent = call.headers.get(callbacks.hmac.header.lower(), "").removeprefix(callbacks.hmac.prefix)
        return sent in {wanted.hex(), base64.b64encode(wanted).decode()}
    try:
        Webhook(secrets["standard_webhooks"]).verify(call.body, dict(call.headers))
    except (WebhookVerificationError, ValueError):
        return False
    return True


CHECKS: Final[tuple[Check, ...]] = (
    callback_tells_the_task,
    callback_is_authenticated,
    callback_events_are_chosen,
    callback_must_be_registered,
    callback_goes_nowhere_inside,
    callback_failure_changes_nothing,
)

"""Group `callbacks`: the suite listens on loopback and is told of ends."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from standardwebhooks import Webhook

from arap_service.conformance.control import Callbacks
from arap_service.conformance.instants import instant, utc_now
from arap_service.conformance.listener import Call
from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Task, Trial
from blackbox_kit.model import Json, NotApplicable, NotKept, NotRun

GROUP: Final = "callbacks"
TOLERANCE: Final = timedelta(minutes=5)
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
    """Each call, of approvals and of denials, is authenticated as the control file says: bearer or HMAC."""
    for verb in ("approve", "deny"):
        if verb not in trial.control.verbs:
            continue
        _, calls = await _told(trial, verb)
        if not calls:
            raise NotRun(f"no call came after {verb}")
        at = await _service_time(trial)
        if not all(_is_authentic(_callbacks(trial), call, trial.secrets, at=at) for call in calls):
            raise NotKept(f"a call after {verb} is not authenticated as agreed")


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


async def _told(trial: Trial, verb: str = "approve") -> tuple[Task, list[Call]]:
    """A task that was decided, and the calls about it."""
    trial.ear()
    task = await trial.open(change=_callback(trial))
    await trial.do(verb, task)
    await trial.ended(task)
    return task, await trial.called(task)


async def _service_time(trial: Trial) -> datetime:
    """The service's own time where it tells it: its clock is not this machine's."""
    return instant((await trial.denied()).context.get("evaluated_at")) or utc_now()


async def _refused(trial: Trial, url: str, what: str) -> None:
    await trial.open(change=_callback(trial))  # or else it is the callback as such that is refused
    denial = await trial.denied()
    answer = await trial.submit(denial, denial.body() | {"callback": {"endpoint": url}})
    if answer.is_success:
        raise NotKept(f"a callback to {what} was accepted")
    if answer.status >= 500 or answer.status == 401:
        raise NotRun(f"a callback to {what} was answered with {answer.brief()}")


def _read(call: Call) -> Json:
    try:
        body = json.loads(call.body)
    except (ValueError, RecursionError):
        raise NotKept("the call's body is no JSON") from None
    if not isinstance(body, dict):
        raise NotKept("the call's body is no object")
    return body


def _is_authentic(callbacks: Callbacks, call: Call, secrets: Any, *, at: datetime) -> bool:
    if callbacks.bearer is not None:
        return hmac.compare_digest(
            call.headers.get("authorization", "").encode(), f"Bearer {secrets['bearer']}".encode()
        )
    if callbacks.hmac is not None:
        wanted = hmac.new(secrets["hmac"].encode(), call.body, hashlib.sha256).digest()
        sent = call.headers.get(callbacks.hmac.header.lower(), "").removeprefix(callbacks.hmac.prefix)
        return sent in {wanted.hex(), base64.b64encode(wanted).decode()}
    return _is_standard(Webhook(secrets["standard_webhooks"]), call, at)


def _is_standard(agreed: Webhook, call: Call, at: datetime) -> bool:
    """A signature of Standard Webhooks, of about that time; the library compares with the time of this machine."""
    try:
        sent = datetime.fromtimestamp(int(call.headers.get("webhook-timestamp", "")), UTC)
        wanted = agreed.sign(call.headers.get("webhook-id", ""), sent, call.body.decode())
    except (ValueError, OverflowError, OSError):
        return False
    signatures = call.headers.get("webhook-signature", "").split()
    is_signed = any(hmac.compare_digest(one.encode(), wanted.encode()) for one in signatures)
    return is_signed and abs(sent - at) <= TOLERANCE


CHECKS: Final[tuple[Check, ...]] = (
    callback_tells_the_task,
    callback_is_authenticated,
    callback_events_are_chosen,
    callback_must_be_registered,
    callback_goes_nowhere_inside,
    callback_failure_changes_nothing,
)

"""Groups `exposure` and `restart`: what never reaches a client, and what survives the end of a process."""

import json
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from mcp_gate.conformance.checks_input import asked
from mcp_gate.conformance.model import Check, Json, NotApplicable, NotKept, NotRun
from mcp_gate.conformance.trial import TERMINAL, Trial, brief, envelope_of, meta_of, rule
from mcp_gate.conformance.wire import DISPOSITION, IMMEDIATE

EXPOSURE: Final = "exposure"
RESTART: Final = "restart"
# What backends of the access request profile call what they hand out; no MCP message has members of these names.
ARTIFACTS: Final = frozenset(
    {
        *("binding_token", "evaluation_id", "access_request", "access_request_endpoint", "status_endpoint"),
        *("approved_until", "approval_id", "request_schema_url", "form_url", "request_catalogs_url", "cancel_url"),
    }
)
INVISIBLE: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})


@rule("no-backend-artifact", EXPOSURE, verbs=("approve",))
async def no_backend_artifact(trial: Trial) -> None:
    """No member, header or text that the control file names is the backend's, from the call to whatever end."""
    await _whole_story(trial)
    shown = [(where, value, "member") for one in trial.exchanges for where, value in _members(one.came)]
    shown += [(name, value, "header") for headers in trial.headers for name, value in headers.items()]
    for where, value, what in shown:
        for number, secret in enumerate(trial.control.hidden.artifacts, start=1):
            if _has(where, secret) or _has(value, secret):
                raise NotKept(f"the {what} {where} has the text that is number {number} under hidden.artifacts")
        name = where.lower().replace("-", "_")
        if name in ARTIFACTS or (what == "header" and any(one in name for one in ARTIFACTS)):
            raise NotKept(f"a message to the client has a {what} {where}")


@rule("no-approver-identity", EXPOSURE, verbs=("approve",))
async def no_approver_identity(trial: Trial) -> None:
    """No statusMessage tells who decided."""
    if not trial.control.hidden.people:
        raise NotApplicable("the control file names nobody under hidden.people")
    await _whole_story(trial)
    for exchange in trial.exchanges:
        for where, value in _members(exchange.came):
            told = [who for who in trial.control.hidden.people if _has(value, who)]
            if where == "statusMessage" and told:
                raise NotKept(f"a statusMessage tells who decides (number {_number(trial, told[0])} of hidden.people)")


@rule("texts-are-sanitised", EXPOSURE, verbs=("approve",))
async def texts_are_sanitised(trial: Trial) -> None:
    """What the model reads has no control characters and no invisible ones."""
    await _whole_story(trial)
    for exchange in trial.exchanges:
        for where, value in _members(exchange.came):
            if where not in {"statusMessage", IMMEDIATE} or not isinstance(value, str):
                continue
            if any(unicodedata.category(character) in INVISIBLE and character != "\n" for character in value):
                raise NotKept(f"{where} has control or invisible characters")


@rule("no-authorization-context-id", EXPOSURE, verbs=("approve",))
async def no_authorization_context_id(trial: Trial) -> None:
    """The correlation handle that a client would echo is not emitted; the task id is all that it carries."""
    await _whole_story(trial)
    if any(where == "authorizationContextId" for exchange in trial.exchanges for where, _ in _members(exchange.came)):
        raise NotKept("a message to the client has authorizationContextId")


@rule("pending-survives-restart", RESTART)
async def pending_survives_restart(trial: Trial) -> None:
    """A task that waits is there again, by its id alone."""
    handle = await trial.create()
    await trial.restart()
    answer = (await trial.reply("tasks/get", {"taskId": handle.task_id})).answer
    state = answer.get("result")
    if not isinstance(state, dict):
        raise NotKept(f"after a restart tasks/get was answered with {brief(answer)}")
    if state.get("status") not in {"working", "input_required"}:
        raise NotKept(f"the pending task is {state.get('status')!r} after a restart")


@rule("envelope-survives-restart", RESTART)
async def envelope_survives_restart(trial: Trial) -> None:
    """So is the classification of its denial, where there was one."""
    handle = await trial.create()
    if envelope_of(await trial.get(handle.task_id)) is None:
        raise NotApplicable("the server shows no denial envelope (SEP-2643)")
    await trial.restart()
    if envelope_of(await _waiting(trial, handle.task_id)) is None:
        raise NotKept("the denial envelope is gone after a restart")


@rule("resumes-after-restart", RESTART, verbs=("approve",))
async def resumes_after_restart(trial: Trial) -> None:
    """An approval that comes after the restart is carried out, once."""
    handle = await trial.create()
    await trial.restart()
    await _waiting(trial, handle.task_id)
    state = await trial.decided("approve", handle)
    if state.get("status") != "completed":
        raise NotKept(f"the task that was approved after a restart ended as {state.get('status')!r}")
    ran = await trial.count(handle)
    if ran is not None and ran != 1:
        raise NotKept(f"the task that was approved after a restart carried out its tool {ran} times")


@rule("result-survives-restart", RESTART, verbs=("approve",))
async def result_survives_restart(trial: Trial) -> None:
    """What was carried out before stays so, and is not carried out again."""
    handle = await trial.create()
    before = await trial.decided("approve", handle)
    await trial.restart()
    after = await trial.get(handle.task_id)
    await trial.settle()
    if _outcome(after) != _outcome(before):
        raise NotKept(f"the outcome was {_outcome(before)} and is {_outcome(after)} after a restart")
    ran = await trial.count(handle)
    if ran is not None and ran > 1:
        raise NotKept(f"the tool was carried out {ran} times, once more after a restart")


async def _whole_story(trial: Trial) -> None:
    """Every flow that the deployment can bring about, from the call to its end; told once in a run."""
    if trial.shown.story is None:
        first, heard = len(trial.exchanges), len(trial.headers)
        pending = await trial.create()
        await trial.get(pending.task_id)
        for verb in ("approve", "deny", "expire", "fail"):
            if trial.hands.has(verb):
                await _ends(trial, verb)
        await _ends(trial, None)
        if trial.hands.has("revoke"):
            handle = await trial.create()
            await trial.do("revoke", handle)
            await trial.decided("approve", handle)
        if trial.hands.has("ask"):
            await asked(trial, await trial.create())
        trial.shown.story = tuple(trial.exchanges[first:]), tuple(trial.headers[heard:])
        return
    exchanges, headers = trial.shown.story
    trial.exchanges.extend(exchanges)
    trial.headers.extend(headers)


async def _ends(trial: Trial, verb: str | None) -> None:
    """A call that ends by a verb, or by being cancelled."""
    handle = await trial.create()
    if verb is None:
        await trial.cancel(handle.task_id)
        await trial.ended(handle)
    else:
        await trial.decided(verb, handle)
    await trial.get(handle.task_id)


async def _waiting(trial: Trial, task_id: str) -> Json:
    state = await trial.get(task_id)
    if state.get("status") in TERMINAL:
        raise NotRun(f"the pending task is {state.get('status')!r} after a restart")
    return state


def _outcome(state: Json) -> tuple[Any, Any]:
    result = state.get("result")
    return state.get("status"), meta_of(result).get(DISPOSITION) if isinstance(result, dict) else None


def _number(trial: Trial, who: str) -> int:
    return trial.control.hidden.people.index(who) + 1


def _has(value: Any, secret: str) -> bool:
    return isinstance(value, str) and secret.casefold() in value.casefold()


def _members(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Every member of a JSON value with its name, items of lists under their list's; JSON in a text is looked into."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield str(name), member
            yield from _members(member, str(name))
    elif isinstance(value, list):
        for item in value:
            yield where, item
            yield from _members(item, where)
    elif isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            yield from _members(json.loads(value), where)


CHECKS: Final[tuple[Check, ...]] = (
    no_backend_artifact,
    no_approver_identity,
    texts_are_sanitised,
    no_authorization_context_id,
    pending_survives_restart,
    envelope_survives_restart,
    resumes_after_restart,
    result_survives_restart,
)

"""Group `access`: each operation on a task is authorised by itself."""

from collections.abc import Sequence
from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.profiles import bundle
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import approval_of, handled, misnamed
from arap_service.conformance.trial import Task, Trial
from arap_service.conformance.wire import Answer, stands_in
from blackbox_kit.model import NotApplicable, NotKept, NotRun

GROUP: Final = "access"


@rule(
    "status-needs-authentication",
    GROUP,
    "A leaked task handle MUST NOT be sufficient to retrieve task status without caller authorization.",
    requirements=("ARS-01", "ARS-68"),
)
async def status_needs_authentication(trial: Trial) -> None:
    """A handle without a token shows nothing."""
    answer = await trial.look(await trial.open(), role=None)
    if answer.status != 401 or answer.task is not None:
        raise NotKept(f"a status without a token was answered with {answer.brief()}")


@rule(
    "other-caller-cannot-read",
    GROUP,
    "A leaked task handle MUST NOT be sufficient to retrieve task status without caller authorization.",
    requirements=("ARS-63", "ARS-68"),
    tokens=("second",),
)
async def other_caller_cannot_read(trial: Trial) -> None:
    """Another caller's token, good for tasks of its own, shows nothing of this one."""
    await trial.open_as("second")
    answer = handled(await trial.look(await trial.open(), role="second"), "another caller's look")
    if answer.is_success or answer.task is not None:
        raise NotKept(f"another caller was shown the task: {answer.brief()}")


@rule(
    "other-caller-gets-no-result",
    GROUP,
    "A leaked task handle MUST NOT be sufficient to retrieve task status without caller authorization.",
    requirements=("ARS-63", "ARS-66", "ARS-68"),
    verbs=("approve",),
    tokens=("second",),
)
async def other_caller_gets_no_result(trial: Trial) -> None:
    """Nor does it once the task is approved: no status, no approval."""
    await trial.open_as("second")
    task = await trial.open()
    await trial.approved(task)
    answer = handled(await trial.look(task, role="second"), "another caller's look at what was approved")
    if answer.is_success or answer.task is not None or approval_of(answer.document) is not None:
        raise NotKept(f"another caller was shown the approved task: {answer.brief()}")


@rule(
    "foreign-looks-unknown",
    GROUP,
    "The task handle is unknown or unavailable to the caller.",
    requirements=("ARS-63",),
    level=Level.SHOULD,
    tokens=("second",),
)
async def foreign_looks_unknown(trial: Trial) -> None:
    """What another caller gets is what a task that does not exist gets."""
    await trial.open_as("second")
    task = await trial.open()
    foreign = handled(await trial.look(task, role="second"), "another caller's look")
    if foreign.is_success:
        raise NotRun("another caller is shown the task")
    unknown = await trial.ask("GET", misnamed(task.status_endpoint, task.id), role="second")
    if (foreign.status, foreign.problem) != (unknown.status, unknown.problem):
        raise NotKept(f"somebody else's task was answered with {foreign.brief()}, and none with {unknown.brief()}")


@rule(
    "other-caller-cannot-cancel",
    GROUP,
    "MUST verify the PEP is authorized for the original Subject, Resource, Action, task, and cancellation operation.",
    requirements=("ARS-74",),
    tokens=("second",),
    profiles=("cancellation",),
)
async def other_caller_cannot_cancel(trial: Trial) -> None:
    """Another caller, who can cancel tasks of its own, is refused, and the task stays."""
    own = await trial.cancel(await trial.open_as("second"), role="second")
    if not own.is_success:
        raise NotRun(f"the token second does not cancel a task of its own: {own.brief()}")
    task = await trial.open()
    await _kept(trial, task, await trial.cancel(task, role="second"), "another caller")


@rule(
    "reader-cannot-cancel",
    GROUP,
    "Authorization to retrieve task status does not imply authorization to cancel the task, view approver "
    "details, or retrieve an enforceable result.",
    requirements=("ARS-66", "ARS-74"),
    tokens=("reader",),
    profiles=("cancellation",),
)
async def reader_cannot_cancel(trial: Trial) -> None:
    """Who may see the status only cannot cancel."""
    task = await trial.open()
    seen = await trial.look(task, role="reader")
    if not seen.is_success:
        raise NotRun(f"the token reader cannot see the status: {seen.brief()}")
    await _kept(trial, task, await trial.cancel(task, role="reader"), "who may only see the status")


@rule(
    "reader-gets-no-result",
    GROUP,
    "Authorization to retrieve task status does not imply authorization to cancel the task, view approver "
    "details, or retrieve an enforceable result.",
    requirements=("ARS-66",),
    verbs=("approve",),
    tokens=("reader",),
)
async def reader_gets_no_result(trial: Trial) -> None:
    """Who may see the status only gets no approval, nor those of several items."""
    task = await trial.open()
    await trial.approved(task)
    tasks = [task]
    if "bulk" in trial.profiles:
        tasks.append(trial.accepted(await trial.submit(*await bundle(trial))))
        await trial.do("approve", tasks[1])
        await trial.ended(tasks[1])
    for one in tasks:
        seen = await trial.look(one, role="reader")
        if not seen.is_success:
            raise NotRun(f"the token reader cannot see the status: {seen.brief()}")
        items = (seen.task or {}).get("items")
        parts = [seen.document, *(item for item in items or () if isinstance(item, dict))]
        if any(approval_of(part) is not None for part in parts):
            raise NotKept("who may only see the status was given the approval")


@rule(
    "reader-cannot-submit",
    GROUP,
    "MUST authenticate and authorize the PEP before accepting Access Request submissions.",
    requirements=("ARS-01",),
    tokens=("reader",),
)
async def reader_cannot_submit(trial: Trial) -> None:
    """Who may see the status only opens no task, not even with a denial that is good."""
    seen = await trial.look(await trial.open(), role="reader")
    if not seen.is_success:
        raise NotRun(f"the token reader cannot see the status: {seen.brief()}")
    answer = handled(await trial.submit(await trial.denied(), role="reader"), "a submission of who may see the status")
    if answer.is_success:
        raise NotKept(f"who may only see the status opened a task: {answer.brief()}")


@rule(
    "new-token-keeps-the-task",
    GROUP,
    "Refresh of a calling identity's underlying token does not invalidate Task Handle access as long as "
    "the caller remains authorized for the bound task and operation.",
    requirements=("ARS-67",),
    tokens=("again",),
)
async def new_token_keeps_the_task(trial: Trial) -> None:
    """A new token of the same caller keeps the task."""
    task = await trial.open()
    await trial.permits(task.denial.question, role="again")  # or else the token is good for nothing
    answer = await trial.look(task, role="again")
    if not answer.is_success or (answer.task or {}).get("id") != task.id:
        raise NotKept(f"with a new token of the same caller the status was answered with {answer.brief()}")


@rule(
    "approvers-are-not-shown",
    GROUP,
    "A task status response MUST NOT disclose approval details, approver identities, policy identifiers, "
    "or resource metadata to a caller that is not authorized to receive them.",
    requirements=("ARS-69", "ARS-65"),
    verbs=("approve",),
)
async def approvers_are_not_shown(trial: Trial) -> None:
    """None of the texts that the control file calls hidden is in a task, however it ended, a problem or a callback."""
    people = trial.control.hidden.people
    if not people:
        raise NotApplicable("the control file hides nobody (hidden.people)")
    for verb in ("approve", "deny", "expire"):
        if verb in trial.control.verbs:
            await _hides(trial, verb, people)
    task = await trial.open()
    for answer in (await trial.cancel_late(task), await trial.look(task)):
        if answer.shown_of(people):
            raise NotKept(f"a hidden text stands in what a cancellation led to: {answer.brief()}")


async def _hides(trial: Trial, verb: str, people: Sequence[str]) -> None:
    """See that nobody is named in what is said of a task before and after a verb, nor in the callbacks about it."""
    change = None
    if trial.listener is not None and trial.control.callbacks is not None and "callbacks" in trial.profiles:
        change = {"callback": {"endpoint": trial.control.callbacks.endpoint}}
    task = await trial.open(change=change)
    shown = [task.created, await trial.look(task)]
    await trial.do(verb, task)
    shown += [await trial.look(task), await trial.look(task, role=None), await trial.cancel_late(task)]
    for answer in shown:
        if answer.shown_of(people):
            raise NotKept(f"with {verb}, a hidden text stands in {answer.brief()}")
    if change is None or verb == "expire":  # which nobody may notice before somebody looks
        return
    for call in await trial.called(task):
        if stands_in(call.body.decode(errors="replace"), people):
            raise NotKept(f"after {verb}, a hidden text stands in a callback")


async def _kept(trial: Trial, task: Task, answer: Answer, who: str) -> None:
    """See that a cancellation was refused, and changed nothing, then or soon after."""
    await trial.settle()
    if (status := await trial.status(task)) != "pending":
        raise NotKept(f"{who} cancelled the task; it is {status!r}")
    if answer.is_success:
        raise NotKept(f"a cancellation by {who} was answered with {answer.brief()}")
    handled(answer, f"a cancellation by {who}")


CHECKS: Final[tuple[Check, ...]] = (
    status_needs_authentication,
    other_caller_cannot_read,
    other_caller_gets_no_result,
    foreign_looks_unknown,
    other_caller_cannot_cancel,
    reader_cannot_cancel,
    reader_gets_no_result,
    reader_cannot_submit,
    new_token_keeps_the_task,
    approvers_are_not_shown,
)

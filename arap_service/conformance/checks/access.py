"""Group `access`: each operation on a task is authorised by itself."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import approval_of, handled
from arap_service.conformance.trial import Task, Trial
from arap_service.conformance.wire import Answer
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
    last = "A" if task.id[-1] != "A" else "B"
    url = task.status_endpoint.replace(task.id, task.id[:-1] + last)
    if url == task.status_endpoint:
        raise NotApplicable("the id of a task is not in its status_endpoint")
    unknown = await trial.ask("GET", url, role="second")
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
    """Who may see the status only gets no approval."""
    task = await trial.open()
    await trial.approved(task)
    seen = await trial.look(task, role="reader")
    if not seen.is_success:
        raise NotRun(f"the token reader cannot see the status: {seen.brief()}")
    if approval_of(seen.document) is not None:
        raise NotKept("who may only see the status was given the approval")


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
    """None of the texts that the control file calls hidden is in a task or a problem."""
    if not trial.control.hidden.people:
        raise NotApplicable("the control file hides nobody (hidden.people)")
    task = await trial.open()
    shown = [task.created, await trial.look(task)]
    await trial.approved(task)
    shown += [await trial.look(task), await trial.look(task, role=None), await trial.cancel_late(task)]
    for answer in shown:
        if found := answer.shown_of(trial.control.hidden.people):
            raise NotKept(f"{found!r} stands in {answer.brief()}")


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
    foreign_looks_unknown,
    other_caller_cannot_cancel,
    reader_cannot_cancel,
    reader_gets_no_result,
    new_token_keeps_the_task,
    approvers_are_not_shown,
)

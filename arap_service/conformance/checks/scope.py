"""Group `reevaluation`: how far an approval reaches. It permits what was approved, and no other question."""

from copy import deepcopy
from typing import Final

from arap_service.conformance.checks.applying import APPLICABLE, GROUP, PLAINLY, approved, permits_nothing
from arap_service.conformance.checks.binding import bound_member
from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import is_requestable
from arap_service.conformance.trial import Task, Trial
from blackbox_kit.model import Json, NotApplicable, NotKept, NotRun


@rule(
    "approval-of-another-subject",
    GROUP,
    APPLICABLE,
    requirements=("PDP-61", "PDP-67"),
    verbs=("approve",),
)
async def approval_of_another_subject(trial: Trial) -> None:
    """The approval permits nothing to another subject."""
    task, approval = await approved(trial)
    await _only_its_own(trial, task, approval, "subject")


@rule(
    "approval-of-another-resource",
    GROUP,
    APPLICABLE,
    requirements=("PDP-61", "PDP-67"),
    verbs=("approve",),
)
async def approval_of_another_resource(trial: Trial) -> None:
    """The approval permits nothing on another resource."""
    task, approval = await approved(trial)
    await _only_its_own(trial, task, approval, "resource")


@rule(
    "approval-of-another-action",
    GROUP,
    APPLICABLE,
    requirements=("PDP-61", "PDP-67"),
    verbs=("approve",),
)
async def approval_of_another_action(trial: Trial) -> None:
    """The approval permits no other action."""
    task, approval = await approved(trial)
    await _only_its_own(trial, task, approval, "action")


@rule(
    "approval-in-another-context",
    GROUP,
    APPLICABLE,
    requirements=("PDP-61", "PDP-67"),
    questions=("with_context",),
    verbs=("approve",),
)
async def approval_in_another_context(trial: Trial) -> None:
    """The approval permits nothing with another value of a bound member."""
    task, approval = await approved(trial, "with_context")
    other = deepcopy(task.denial.question)
    name = bound_member(task.denial)
    other["context"][name] = "conformance-other"
    await permits_nothing(trial, other, approval, f"another context.{name}")


@rule(
    "approval-of-another-caller",
    GROUP,
    APPLICABLE,
    requirements=("PDP-61", "ARS-70"),
    verbs=("approve",),
    tokens=("second",),
)
async def approval_of_another_caller(trial: Trial) -> None:
    """The approval permits nothing to another caller."""
    task, approval = await approved(trial)
    await permits_nothing(trial, task.denial.question, approval, "another caller", role="second", offered=True)


@rule(
    "batch-is-judged-one-by-one",
    GROUP,
    "The PDP MUST only consider an Approval Result applicable when the current evaluation request is "
    "within the approval scope recorded for that Approval Result.",
    requirements=("PDP-24",),
    verbs=("approve",),
)
async def batch_is_judged_one_by_one(trial: Trial) -> None:
    """An approval given for a whole batch permits the entry that it is of, and no other."""
    if not isinstance(trial.metadata.get("access_evaluations_endpoint"), str):
        raise NotApplicable("the metadata has no access_evaluations_endpoint")
    task, approval = await approved(trial)
    question = task.denial.question
    other = trial.other(task.denial, "resource")
    if not is_requestable(await trial.evaluate(other)):
        raise NotRun(PLAINLY.format(what="another resource"))
    batch = {
        "subject": question["subject"],
        "action": question["action"],
        "context": {**question.get("context", {}), "approval": approval},
        "evaluations": [{"resource": question["resource"]}, {"resource": other["resource"]}],
    }
    answer = await trial.ask("POST", trial.metadata["access_evaluations_endpoint"], body=batch)
    found = answer.document.get("evaluations")
    if not isinstance(found, list) or [isinstance(one, dict) for one in found] != [True, True]:
        raise NotRun(f"a batch was answered with {answer.brief()}")
    decisions = [one.get("decision") for one in found]
    if decisions != [True, False]:
        raise NotKept(f"with the approval of the first entry the batch is {decisions}")


@rule(
    "wider-approval-reaches-as-far",
    GROUP,
    "The PDP MUST only consider an Approval Result applicable when the current evaluation request is "
    "within the approval scope recorded for that Approval Result.",
    requirements=("PDP-61",),
    questions=("requestable", "within", "beyond"),
    verbs=("approve_wider",),
)
async def wider_approval_reaches_as_far(trial: Trial) -> None:
    """An approval with a wider scope permits what is in it, and nothing beyond."""
    task = await trial.open()
    approval = await trial.approved(task, "approve_wider")
    within = trial.question("within", task.denial.marker)
    if await trial.permits(within):
        raise NotRun("the question within is permitted by itself")
    if not await trial.permits(task.denial.question, approval=approval):
        raise NotKept("a wider approval does not permit what was asked for")
    if not await trial.permits(within, approval=approval):
        raise NotKept("a wider approval does not permit what is within its scope")
    beyond = trial.question("beyond", task.denial.marker)
    await permits_nothing(trial, beyond, approval, "what is beyond a wider approval")


async def _only_its_own(trial: Trial, task: Task, approval: Json, part: str) -> None:
    """See that the approval permits nothing where one part of the question is another, or of another type, or more."""
    other = trial.other(task.denial, part)
    await permits_nothing(trial, other, approval, f"another {part}", offered=True)
    varied = deepcopy(task.denial.question)
    varied[part]["properties"] = {**varied[part].get("properties", {}), "conformance.example/more": "x"}
    await permits_nothing(trial, varied, approval, f"the {part} with one property more", whole=False)
    if part != "action":
        varied = deepcopy(task.denial.question)
        varied[part]["type"] = f"{varied[part].get('type')}-other"
        await permits_nothing(trial, varied, approval, f"the {part} under another type", whole=False)


CHECKS: Final[tuple[Check, ...]] = (
    approval_of_another_subject,
    approval_of_another_resource,
    approval_of_another_action,
    approval_in_another_context,
    approval_of_another_caller,
    batch_is_judged_one_by_one,
    wider_approval_reaches_as_far,
)

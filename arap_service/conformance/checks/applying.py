"""What the checks of re-evaluation share: an approval, and how it is seen to permit nothing."""

from typing import Final

from arap_service.conformance.seeing import is_requestable
from arap_service.conformance.trial import Task, Trial
from blackbox_kit.model import Json, NotKept, NotRun

GROUP: Final = "reevaluation"
APPLICABLE: Final = (
    "The PDP MUST verify that the approval reference presented in `context.approval` is applicable to the "
    "authenticated caller or requester, current Subject, Resource, Action, relevant Context, approval "
    "scope, and approval expiry."
)
PLAINLY: Final = (
    "{what}: policy denies that question plainly, so that no approval could permit it; "
    "questions.other_subject, other_resource and other_action can name one that is requestable"
)


async def approved(trial: Trial, name: str = "requestable") -> tuple[Task, Json]:
    """A task, and the approval that it ended with."""
    task = await trial.open(name)
    return task, await trial.approved(task)


def forms(approval: Json) -> list[tuple[Json, str]]:
    """The approval as it was given, and its id alone where a signed state came with it: a known id is no grant."""
    found = [(approval, "")]
    if "state" in approval:
        found.append(({"id": approval["id"]}, ", by the id of the approval alone,"))
    return found


async def permits_nothing(
    trial: Trial,
    question: Json,
    approval: Json,
    what: str,
    *,
    role: str = "pep",
    offered: bool = False,
    whole: bool = True,
) -> None:
    """See that the approval, `whole` and by its id alone, permits nothing here.

    What is permitted without it shows nothing; nor does, where it must be `offered`, what nothing could permit.

    Raises:
        NotKept: It was permitted.
        NotRun: Nothing shows.
    """
    for form, how in forms(approval) if whole else [(approval, "")]:
        if not await trial.permits(question, approval=form, role=role):
            continue
        if await trial.permits(question, role=role):
            raise NotRun(f"{what}: the question is permitted without an approval")
        raise NotKept(f"{what}{how} was permitted")
    if offered and not is_requestable(await trial.evaluate(question, role=role)):
        raise NotRun(PLAINLY.format(what=what))

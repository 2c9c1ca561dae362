"""Group `idempotency`: one key, one task."""

from typing import Final

import anyio

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import handled, refused, shuffled
from arap_service.conformance.trial import Task, Trial
from arap_service.conformance.wire import Answer
from blackbox_kit.model import NotKept, NotRun

GROUP: Final = "idempotency"
RACERS: Final = 6


@rule(
    "same-key-same-task",
    GROUP,
    "The Access Request Service SHOULD treat a repeated submission with the same `Idempotency-Key`, the "
    "same authenticated requester, and an equivalent submission body as the same request, returning the "
    "same Task Handle while the original request remains available.",
    requirements=("ARS-39",),
    level=Level.SHOULD,
)
async def same_key_same_task(trial: Trial) -> None:
    """The same key and body, white space and the order of members aside: the same task."""
    task = await trial.open()
    _same(await trial.submit(task.denial, task.body, key=task.key), task, "the same key and body")
    turned = await trial.submit(task.denial, task.body, key=task.key, raw=shuffled(task.body))
    _same(turned, task, "the same key and body, its members in another order,")


@rule(
    "same-key-other-body",
    GROUP,
    "A submission with the same `Idempotency-Key` and authenticated requester but a materially different "
    "submission body MUST be rejected with `urn:openid:authzen:access-request:error:duplicate_request`.",
    requirements=("ARS-40",),
)
async def same_key_other_body(trial: Trial) -> None:
    """The same key, another body: 409 duplicate_request."""
    task = await trial.open()
    access = {**task.body.get("requested_access", {}), "conformance.example/other": "x"}
    other = task.body | {"requested_access": access}
    refused(await trial.submit(task.denial, other, key=task.key), "duplicate_request", "the same key with another body")


@rule(
    "keys-belong-to-their-caller",
    GROUP,
    "Implementations SHOULD scope idempotency keys to the authenticated caller and avoid storing them "
    "longer than necessary.",
    requirements=("ARS-42",),
    level=Level.SHOULD,
    tokens=("second",),
)
async def keys_belong_to_their_caller(trial: Trial) -> None:
    """Another caller's equal key is another key."""
    task = await trial.open()
    denial = await trial.denied(role="second")
    answer = await trial.submit(denial, key=task.key, role="second")
    if not answer.is_success or (answer.task or {}).get("id") == task.id:
        raise NotKept(f"a key that another caller had used was answered with {answer.brief()}")


@rule(
    "equal-submissions-race",
    GROUP,
    "The Access Request Service SHOULD treat a repeated submission with the same `Idempotency-Key`, the "
    "same authenticated requester, and an equivalent submission body as the same request, returning the "
    "same Task Handle while the original request remains available.",
    requirements=("ARS-49",),
    level=Level.SHOULD,
)
async def equal_submissions_race(trial: Trial) -> None:
    """Equal submissions at the same moment: one task."""
    denial, key = await trial.denied(), trial.new_marker()
    body, answers = denial.body(), list[Answer]()

    async def one() -> None:
        answers.append(await trial.submit(denial, body, key=key))

    async with anyio.create_task_group() as group:
        for _ in range(RACERS):
            group.start_soon(one)
    opened = {str((answer.task or {}).get("id")) for answer in answers if answer.is_success}
    if not opened:
        raise NotRun(f"none of the equal submissions was accepted: {answers[0].brief()}")
    if len(opened) != 1:
        raise NotKept(f"{RACERS} equal submissions with one key opened {len(opened)} tasks")
    for answer in answers:
        handled(answer, "one of several equal submissions")


@rule(
    "key-outlives-the-end",
    GROUP,
    "SHOULD continue to retain it for at least 24 hours after the task reaches a terminal status.",
    requirements=("ARS-45", "ARS-47"),
    level=Level.SHOULD,
    verbs=("deny",),
)
async def key_outlives_the_end(trial: Trial) -> None:
    """The same key after the task was denied: that task."""
    task = await trial.open()
    await trial.do("deny", task)
    await trial.ended(task)
    _same(await trial.submit(task.denial, task.body, key=task.key), task, "the same key and body after the denial")


@rule(
    "failure-spends-nothing",
    GROUP,
    "with a submission body that is not equivalent to the original request",
    requirements=("ARS-36", "ARS-48"),
    level=Level.SHOULD,
)
async def failure_spends_nothing(trial: Trial) -> None:
    """A refused submission, corrected, is accepted under the same key."""
    denial, key = await trial.denied(), trial.new_marker()
    body = denial.body()
    wrong = body | {"resource": {**body["resource"], "id": f"{body['resource'].get('id')}-other"}}
    if (first := handled(await trial.submit(denial, wrong, key=key), "another resource")).is_success:
        raise NotRun(f"another resource was accepted: {first.brief()}")
    answer = await trial.submit(denial, key=key)
    if not answer.is_success:
        raise NotKept(f"a refused submission, corrected, was answered with {answer.brief()}")


def _same(answer: Answer, task: Task, what: str) -> None:
    if not answer.is_success:
        raise NotKept(f"{what} was answered with {answer.brief()}")
    if (found := (answer.task or {}).get("id")) != task.id:
        raise NotKept(f"{what} gave the task {found!r}, not {task.id!r}")


CHECKS: Final[tuple[Check, ...]] = (
    same_key_same_task,
    same_key_other_body,
    keys_belong_to_their_caller,
    equal_submissions_race,
    key_outlives_the_end,
    failure_spends_nothing,
)

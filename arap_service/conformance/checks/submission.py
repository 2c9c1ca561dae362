"""Group `submission`: what is accepted, what comes back, and the form of errors."""

from itertools import combinations
from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import approval_of, misnamed, refused
from arap_service.conformance.trial import Trial
from arap_service.conformance.wire import URN, Answer
from blackbox_kit.model import NotApplicable, NotKept, NotRun

GROUP: Final = "submission"
SHORTEST_ID: Final = 16
DIFFERENT: Final = 10
STATUS: Final = {
    "not_requestable": 400,
    "expired_denial": 410,
    "invalid_denial_binding": 400,
    "duplicate_request": 409,
    "unknown_task": 404,
    "task_expired": 410,
    "invalid_task_state": 409,
}
NOBODYS: Final = "nobody-issued-this-token"


@rule(
    "submission-needs-authentication",
    GROUP,
    "MUST authenticate and authorize the PEP before accepting Access Request submissions.",
    requirements=("ARS-01",),
)
async def submission_needs_authentication(trial: Trial) -> None:
    """Without a token, and with one that nobody issued: 401 with `WWW-Authenticate`."""
    denial = await trial.denied()
    none = await trial.submit(denial, role=None)
    header = {"authorization": f"Bearer {NOBODYS}"}
    invented = await trial.ask("POST", trial.endpoint_of(denial), role=None, body=denial.body(), headers=header)
    for answer, what in ((none, "without a token"), (invented, "with an invented token")):
        if answer.status != 401:
            raise NotKept(f"a submission {what} was answered with {answer.brief()}")
        if not answer.headers.get("www-authenticate"):
            raise NotKept(f"the 401 to a submission {what} has no WWW-Authenticate")


@rule(
    "submission-becomes-task",
    GROUP,
    "A successful Access Request submission returns HTTP status code `201 Created` or `202 Accepted` and "
    "a JSON object containing a `task` member.",
    requirements=("ARS-50",),
)
async def submission_becomes_task(trial: Trial) -> None:
    """201 or 202 with a task: id, status, status_endpoint."""
    answer = await trial.submit(await trial.denied())
    if not answer.is_success:
        raise NotKept(f"a submission was answered with {answer.brief()}")
    if answer.status not in {201, 202}:
        raise NotKept(f"an accepted submission has the status {answer.status}")
    task = answer.task or {}
    if lacking := [name for name in ("id", "status", "status_endpoint") if not isinstance(task.get(name), str)]:
        raise NotKept(f"the task lacks {', '.join(lacking)}")


@rule(
    "location-is-the-status-endpoint",
    GROUP,
    "A response MAY also include an HTTP `Location` header equal to `task.status_endpoint`.",
    requirements=("ARS-50",),
)
async def location_is_the_status_endpoint(trial: Trial) -> None:
    """`Location`, where sent, equals `status_endpoint`."""
    task = await trial.open()
    location = task.created.headers.get("location")
    if location is None:
        raise NotApplicable("no Location is sent")
    if location != task.status_endpoint:
        raise NotKept(f"Location is {location!r}, and status_endpoint {task.status_endpoint!r}")


@rule(
    "task-ids-are-unguessable",
    GROUP,
    "The value MUST contain sufficient entropy to prevent practical guessing and MUST NOT encode "
    "semantics that a PEP is expected to parse.",
    requirements=("ARS-52",),
)
async def task_ids_are_unguessable(trial: Trial) -> None:
    """Ids are long, and no two differ in a few places only."""
    guessable([(await trial.open()).id for _ in range(3)], "task")


@rule(
    "binding-is-required",
    GROUP,
    "The Access Request Service MUST reject a submission that lacks verifiable denial-binding material "
    "with `urn:openid:authzen:access-request:error:invalid_denial_binding`.",
    requirements=("ARS-11",),
)
async def binding_is_required(trial: Trial) -> None:
    """Without a token and an evaluation id: invalid_denial_binding."""
    denial = await trial.denied()
    body = denial.body()
    body["denial"] = {"expires_at": denial.offer.get("expires_at")}
    refused(await trial.submit(denial, body), "invalid_denial_binding", "a submission without binding material")


@rule(
    "errors-are-problems",
    GROUP,
    "MUST use `application/problem+json` as defined by {{RFC9457}} when returning one of the problem "
    "types defined by this specification.",
    requirements=("ARS-03",),
)
async def errors_are_problems(trial: Trial) -> None:
    """Each defined error that can be brought about is application/problem+json, with the status of its type."""
    answers = await _errors(trial)
    problems = [answer for answer in answers if str(answer.document.get("type")).startswith(URN)]
    if not problems or any(answer.is_success for answer in answers[:1]):
        raise NotRun(f"another resource was answered with {answers[0].brief()}, no problem of the profile")
    for answer in problems:
        if not answer.headers.get("content-type", "").lower().startswith("application/problem+json"):
            raise NotKept(f"the problem {answer.problem} is sent as {answer.headers.get('content-type')!r}")
        told = answer.document.get("status", answer.status)
        if answer.status != STATUS.get(answer.problem or "") or told != answer.status:
            raise NotKept(f"the problem {answer.problem} has HTTP {answer.status}, status {told}")


async def _errors(trial: Trial) -> list[Answer]:
    """The answers to what is wrong in one way each; the last ones where the deployment and the service allow it."""
    task = await trial.open()
    denial = await trial.denied()
    wrong = denial.body() | {"resource": trial.other(denial, "resource")["resource"]}
    answers = [await trial.submit(denial, wrong), await trial.submit(denial, wrong, key=task.key)]
    if task.id in task.status_endpoint:
        answers.append(await trial.ask("GET", misnamed(task.status_endpoint, task.id)))
    if task.cancel_url is not None:
        answers += [await trial.cancel(task), await trial.cancel(task)][1:]
    if "expire_denial" in trial.control.verbs:
        late = await trial.denied()
        await trial.do("expire_denial", None)
        answers.append(await trial.submit(late))
    return answers


@rule(
    "plain-denial-is-not-requestable",
    GROUP,
    "MUST validate that the submission is based on a requestable denial, rejecting a submission that is "
    "not with `urn:openid:authzen:access-request:error:not_requestable`.",
    requirements=("ARS-12",),
    questions=("denied",),
)
async def plain_denial_is_not_requestable(trial: Trial) -> None:
    """The evaluation id of a plain denial: not_requestable."""
    plain = await trial.evaluate(trial.question("denied", trial.new_marker()))
    context = plain.document.get("context")
    evaluation_id = context.get("evaluation_id") if isinstance(context, dict) else None
    if plain.document.get("decision") is not False or not isinstance(evaluation_id, str):
        raise NotApplicable("a plain denial has no evaluation_id")
    model = await trial.denied()
    asked = trial.question("denied", model.marker)
    body = {name: asked[name] for name in ("subject", "resource", "action")}
    body["denial"] = {"evaluation_id": evaluation_id, "expires_at": model.offer.get("expires_at")}
    if "context" in asked:
        body["context"] = asked["context"]
    answer = await trial.submit(model, body)
    if "id" in trial.profiles or answer.problem != "invalid_denial_binding":  # who takes tokens only knows no ids
        refused(answer, "not_requestable", "a submission about a plain denial")


@rule(
    "unknown-members-are-ignored",
    GROUP,
    "An implementation receiving a member or value it does not recognize at an extension point MUST "
    "ignore it and MUST NOT fail processing on the basis of the unrecognized name.",
    requirements=("ARS-08",),
)
async def unknown_members_are_ignored(trial: Trial) -> None:
    """A member of nobody's at an extension point changes nothing."""
    denial = await trial.denied()
    body, foreign = denial.body(), {"conformance.example/unknown": {"any": [1, None]}}
    body["requested_access"] = {**body.get("requested_access", {}), **foreign}
    body["client"] = {"name": "conformance", **foreign}
    answer = await trial.submit(denial, body)
    if not answer.is_success:
        raise NotKept(f"unknown members of requested_access and client led to {answer.brief()}")


@rule(
    "resolved-at-once",
    GROUP,
    "the Access Request Service SHOULD return `201 Created` with `task.status` already set to a terminal "
    "value and a populated `result` member",
    requirements=("ARS-51",),
    level=Level.SHOULD,
    questions=("automatic",),
)
async def resolved_at_once(trial: Trial) -> None:
    """What policy approves at once is 201, terminal, with its result."""
    denial = await trial.denied("automatic")
    answer = await trial.submit(denial)
    task = trial.accepted(answer)
    if answer.status == 201 and answer.task and answer.task.get("status") == "approved":
        if approval_of(answer.document) is None:
            raise NotKept("what is approved at once has no result in the answer to its submission")
        return
    if await trial.status(task) != "approved":
        raise NotRun("the question automatic is not approved at once")
    raise NotKept(
        f"what is approved at once was answered with HTTP {answer.status}, {(answer.task or {}).get('status')}"
    )


def guessable(ids: list[str], what: str) -> None:
    """See that ids are long, and differ in many places.

    Raises:
        NotKept: They do not.
    """
    for one, another in combinations(ids, 2):
        if len(one) < SHORTEST_ID:
            raise NotKept(f"an id of a {what} has {len(one)} characters only")
        different = sum(a != b for a, b in zip(one, another, strict=False)) + abs(len(one) - len(another))
        if different < DIFFERENT:
            raise NotKept(f"two ids of a {what} differ in {different} places only")


CHECKS: Final[tuple[Check, ...]] = (
    submission_needs_authentication,
    submission_becomes_task,
    location_is_the_status_endpoint,
    task_ids_are_unguessable,
    binding_is_required,
    errors_are_problems,
    plain_denial_is_not_requestable,
    unknown_members_are_ignored,
    resolved_at_once,
)

"""One attempt to submit, and what earlier attempts have made: retries, used bindings, the loop around the commit.

The same for one thing and for several. A retry under the same key outranks every fault of its binding; a binding that
was used gives no hint of what it made (ARS-35 to ARS-42). Nothing is proven or created here.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import DuplicateRequest, InvalidDenialBinding, NotRequestable, TaskExpired
from arap_service.domain.policy import Judgement, Policy, Requestable, Template
from arap_service.records import task_seal
from arap_service.requests.handles import response
from arap_service.requests.proof import Proof
from arap_service.store import items, submissions, tasks
from arap_service.store.database import StoreUnavailable, WriteSession
from arap_service.store.tables import Task

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Submitted:
    """The answer to a submission: the handle with its result, if any, and the HTTP status."""

    task: dict[str, Any]
    status_code: int
    result: dict[str, Any] | None

    @property
    def body(self) -> dict[str, Any]:
        """The response body."""
        return {"task": self.task} if self.result is None else {"task": self.task, "result": self.result}


@dataclass(frozen=True, slots=True)
class Attempt:
    """Who sent what under which key; `key_owner` is the caller in the scope of whom the key counts (ARS-42)."""

    caller: Caller
    digest: str
    key: str | None
    key_owner: str


def earlier(ctx: Context, session: Session, attempt: Attempt, proofs: Collection[Proof]) -> Submitted | None:
    """Steps 4 and 12, as far as bindings are proven: what the same key or one of the bindings made before.

    Raises:
        DuplicateRequest, TaskExpired: The key was used for another body, or what it made is gone.
        InvalidDenialBinding: A binding was used before by another submission.
    """
    if proofs and all(_is_first(session, attempt, proof) for proof in proofs):
        return None
    found = _repeated(ctx, session, attempt)
    if found is not None:
        return found
    for proof in proofs:
        found = _used(ctx, session, attempt, proof)
        if found is not None:
            return found
    return None


def _is_first(session: Session, attempt: Attempt, proof: Proof) -> bool:
    return submissions.is_first(
        session,
        key_owner=attempt.key_owner,
        key=attempt.key,
        token=proof.token,
        evaluation_id=proof.bound.evaluation_id,
        submitter=attempt.caller.principal,
        client_id=attempt.caller.client_id,
    )


def _repeated(ctx: Context, session: Session, attempt: Attempt) -> Submitted | None:
    """Step 4: what the same key made before, if it was used."""
    if attempt.key is None:
        return None
    stored = tasks.find_key(session, attempt.key_owner, attempt.key)
    if stored is None:
        return None
    if stored.body_digest != attempt.digest:
        raise DuplicateRequest  # ARS-40
    task = tasks.find_task(session, stored.task_id)
    if task is None or ctx.clock() >= task.expires_at:
        raise TaskExpired
    return answer(ctx, session, attempt.caller, task, stored.status_code)


def _used(ctx: Context, session: Session, attempt: Attempt, proof: Proof) -> Submitted | None:
    """Step 12: what this binding has made before, if the caller may have it."""
    open_task = _open_task(session, attempt.caller, proof)
    spent = proof.token is not None and tasks.find_jti(session, *proof.token) is not None
    if not spent and open_task is None:
        return None
    # The same submission may have been committed since step 4; its key and token were written together.
    repeated = _repeated(ctx, session, attempt)
    if repeated is not None:
        return repeated
    if proof.token is None and open_task is not None and open_task.body_digest == attempt.digest:
        return answer(ctx, session, attempt.caller, open_task, 202)  # ARS-37
    raise InvalidDenialBinding  # ARS-35, ARS-38: no hint of the earlier task


def _open_task(session: Session, caller: Caller, proof: Proof) -> Task | None:
    if proof.bound.evaluation_id is None:
        return None
    who: dict[str, Any] = {
        "evaluation_id": proof.bound.evaluation_id,
        "issuer": None if proof.token is None else proof.token[0],
        "submitter": caller.principal,
        "client_id": caller.client_id,
    }
    return tasks.find_open_task(session, **who) or items.find_open_task(session, **who)


def hold(session: WriteSession, proofs: Iterable[Proof]) -> None:
    """Make others wait who submit one of these denials by its id: no index spans single requests and items (ARS-37)."""
    for evaluation_id in sorted({proof.bound.evaluation_id or "" for proof in proofs if proof.token is None}):
        tasks.find_denial(session, evaluation_id, for_update=True)


def template_of(policy: Policy, judged: Judgement, proof: Proof) -> Template:
    """The template that the denial was issued under, or the one that the rules name now.

    Raises:
        NotRequestable: There is neither.
    """
    template = policy.templates.get(proof.bound.template or "")
    if template is None and isinstance(judged, Requestable):
        template = judged.template
    if template is None:
        raise NotRequestable
    return template


def grounds(judged: Judgement) -> tuple[str, str]:
    """Rule and reason for a denial that is not on record here."""
    return (judged.rule_id, judged.reason) if isinstance(judged, Requestable) else ("", "requestable")


async def commit(ctx: Context, work: Callable[[WriteSession], tuple[Submitted, Task | None]]) -> Submitted:
    """Run `work` in a transaction, again where a race was lost; it returns the answer and the task that it made."""

    def within(session: WriteSession) -> tuple[Submitted, Task | None]:
        made = work(session)
        if made[1] is not None:
            ctx.checkpoint("submit.before_commit")
        return made

    for _ in range(_ATTEMPTS):
        try:
            submitted, task = await ctx.database.write(within)
        except IntegrityError:
            continue  # lost a race that only the constraints could see; the next look finds the winner
        ctx.checkpoint("submit.after_commit")
        if task is not None:
            ctx.log.info("task_submitted", task_id=task.id, evaluation_id=task.evaluation_id, client_id=task.client_id)
        return submitted
    raise StoreUnavailable("busy", "database: too many submissions of the same denial at once")


def answer(
    ctx: Context, session: Session, caller: Caller, task: Task, status_code: int, *, is_new: bool = False
) -> Submitted:
    """The handle of a task, with results for a caller who may have them."""
    seal = task_seal(task, ctx.ring)
    body = response(session, task, ctx.settings, may_have=caller.may(Scope.RESULT), seal=seal, is_new=is_new)
    return Submitted(body["task"], status_code, body.get("result"))

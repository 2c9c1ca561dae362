"""A machine that does to requests whatever people, gates and time can do, and looks after each step at what is stored.

Every rule is a use case or the background's work; whatever a use case refuses is a step as well. What must hold is said
in `Stored.agrees_with`: it compares two looks at one request, and knows nothing of how it came from one to the other.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Final
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from sqlmodel import Session, col, select

from arap_service import audit, requests, workers
from arap_service.domain.callers import Caller
from arap_service.domain.errors import ArapError, TaskExpired, UnknownTask
from arap_service.evaluation import evaluate
from arap_service.store.conversation_tables import Claim, Comment, Question
from arap_service.store.item_tables import TaskItem
from arap_service.store.tables import Approval, Execution, Task, Vote
from tests.requests import bundles
from tests.requests.world import GATE, RISK_ENGINE, World, person, question

APPROVALS_NEEDED: Final = {"wire_transfer": 1, "merge": 2, "payroll": 2, "quiet": 1, "auto": 1}
VOICES: Final = ("ann", "bob", "carl", "lea", "mo", "zoe", "alice")
RESOURCES: Final = st.sampled_from([*APPROVALS_NEEDED])
DECIDERS: Final = st.sampled_from([*map(person, VOICES), RISK_ENGINE])
DECISIONS: Final = st.sampled_from(["approve", "approve", "deny"])
ITEMS: Final = st.integers(1, 3)
REPORT: Final = {"disposition": "approved-executed", "at": "2026-04-30T20:01:00Z", "generation": 1}
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A request, or one item of a bundle, as stored."""

    resource: str
    status: str
    version: int
    pending_until: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything that is stored of one request; `parts` are the whole under 0 and its items by their numbers."""

    parts: Mapping[int, Part]
    votes: Sequence[Vote]
    approvals: Sequence[Approval]
    said: Mapping[str, int]
    """How many rows there are of each kind that leaves an entry in the record."""
    kinds: Sequence[str]
    kept_until: datetime

    @property
    def whole(self) -> Part:
        """The request itself."""
        return self.parts[0]

    @property
    def decided(self) -> list[int]:
        """The numbers of the parts that people decide about."""
        return [number for number in self.parts if number or len(self.parts) == 1]

    @property
    def matter(self) -> object:
        """What a decider must have seen: whenever this changes, the version does."""
        parts = [(part.status, part.ended_at) for part in self.parts.values()]
        votes, approvals = (
            sorted(vote.id for vote in self.votes),
            sorted((own.id, own.status) for own in self.approvals),
        )
        asked = (self.said["question_asked"], self.said["question_answered"])
        return parts, votes, approvals, asked

    def agrees_with_itself(self) -> None:
        """What must hold of every request at every moment."""
        kinds = Counter(self.kinds)
        for number in self.decided:
            part, prefix = self.parts[number], "item" if number else "task"
            own = [vote for vote in self.votes if vote.item == number]
            assert len({(vote.step_id, vote.voter) for vote in own}) == len(own)  # ARS-114
            end = part.ended_at or part.pending_until
            assert all(vote.at <= end and vote.at < part.pending_until for vote in own)  # no vote after the end
            granted = [approval for approval in self.approvals if approval.item == number]
            assert len(granted) == (part.status == "approved"), prefix
            if granted and not any(vote.voter_kind == "evaluator" for vote in own):
                approvers = {vote.voter for vote in own if vote.decision == "approve"}
                assert len(approvers) >= APPROVALS_NEEDED[part.resource]  # ARS-116
        ends = [f"item_{part.status}" for number, part in self.parts.items() if number and part.status != "pending"]
        ends += [f"task_{self.whole.status}"] if self.whole.status != "pending" else []
        recorded = [kind for kind in self.kinds if kind.startswith(("item_", "task_"))]
        begun = ["task_submitted", *("item_submitted" for number in self.parts if number)]
        assert sorted(recorded) == sorted([*begun, *ends])  # one end of each part, and a record of it
        assert (self.whole.status == "pending") == any(self.parts[n].status == "pending" for n in self.decided)
        revoked = sum(approval.status != "active" for approval in self.approvals)
        heard = sum(vote.voter_kind == "evaluator" for vote in self.votes)
        rows = {"vote_cast": len(self.votes) - heard, "approval_revoked": revoked, **self.said}
        assert {kind: kinds[kind] for kind in rows} == rows  # every change has its entry
        assert kinds["evaluator_heard"] >= heard

    def follows(self, before: "Stored") -> None:
        """What must hold between two looks, whatever was done between them."""
        for number, part in self.parts.items():
            was = before.parts[number]
            assert was.status in {"pending", part.status}  # one terminal state
            assert part.version >= was.version
        if self.matter != before.matter:
            assert self.whole.version > before.whole.version
            assert len(self.kinds) > len(before.kinds)
        assert list(self.kinds[: len(before.kinds)]) == list(before.kinds)  # ARS-123: nothing is overwritten


def stored(session: Session, task_id: str) -> Stored | None:
    """What is stored of a request; its record, which is whole, outlives it."""
    assert isinstance(audit.verify_chain(session, task_id), audit.Verified)
    kinds = [entry.kind for entry in audit.entries_of(session, task_id)]
    task = session.get(Task, task_id)
    if task is None:
        return None

    def rows(table: Any) -> list[Any]:
        return list(session.exec(select(table).where(col(table.task_id) == task_id)))

    items: list[TaskItem] = rows(TaskItem)
    parts = {0: Part(task.resource_id, task.status, task.version, task.pending_until, task.ended_at)}
    for item in items:
        parts[item.item] = Part(item.resource_id, item.status, item.version, item.pending_until, item.ended_at)
    asked, claims = rows(Question), rows(Claim)
    said = {
        "question_asked": len(asked),
        "question_answered": sum(each.answered_at is not None for each in asked),
        "commented": len(rows(Comment)),
        "claimed": len(claims),
        "execution_reported": len(rows(Execution)),
    }
    return Stored(parts, rows(Vote), rows(Approval), said, kinds, task.expires_at)


class RequestsMachine(RuleBasedStateMachine):
    """Whatever can be done to requests; `world` and `run` are given by a subclass."""

    world: ClassVar[World]
    run: ClassVar[Run]
    tasks = Bundle("tasks")

    def __init__(self) -> None:
        super().__init__()
        self.bodies: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, str] = {}
        self.seen: dict[str, Stored] = {}

    def attempt(self, *acts: Awaitable[object]) -> list[object]:
        """Do all at once; what each gave, or how it was refused. Anything else that is raised ends the test."""

        async def all_of_them() -> list[object]:
            return await asyncio.gather(*acts, return_exceptions=True)

        given = type(self).run(all_of_them())
        for each in given:
            if isinstance(each, BaseException) and not isinstance(each, ArapError):
                raise each
        return list(given)

    def _submitted(self, body: dict[str, Any]) -> str:
        key = f"key-{uuid4()}"
        [submitted] = self.attempt(self.world.submit(body, key=key))
        assert isinstance(submitted, requests.Submitted), submitted
        task_id = str(submitted.task["id"])
        self.bodies[task_id], self.keys[task_id] = body, key
        return task_id

    @initialize(target=tasks)
    def begin(self) -> Any:
        approved, waiting = self.submit_one("wire_transfer", 50_000), self.submit_one("payroll", 50_000)
        self.everything_holds()
        self.attempt(self._decision(approved, person("bob"), "approve", item=1))
        return multiple(approved, waiting)

    def submit_one(self, resource: str, amount: int) -> str:
        asked = question(resource, arguments={"amount": amount, "to": "DE1"})
        return self._submitted(type(self).run(self.world.body(asked)))

    @rule(target=tasks, resource=RESOURCES, amount=st.sampled_from([50, 50_000, 5_000_000]))
    def submit(self, resource: str, amount: int) -> str:
        return self.submit_one(resource, amount)

    @rule(
        target=tasks,
        resources=st.lists(st.sampled_from(["wire_transfer", "merge", "payroll"]), min_size=2, max_size=3, unique=True),
    )
    def submit_several(self, resources: list[str]) -> str:
        return self._submitted(type(self).run(bundles.body_of(self.world, *resources)))

    @rule(task_id=tasks, is_retry=st.booleans())
    def submit_again(self, task_id: str, *, is_retry: bool) -> None:
        """A retry leads to the same request as long as there is one; a denial that was used once is used up."""
        key = self.keys[task_id] if is_retry else f"key-{uuid4()}"
        [again] = self.attempt(self.world.submit(self.bodies[task_id], key=key))
        if isinstance(again, requests.Submitted):
            assert is_retry
            assert again.task["id"] == task_id  # ARS-49
        elif is_retry and task_id in self.seen:
            # Its row may outlive the time for which it is kept, until the next purge.
            assert isinstance(again, TaskExpired), again
            assert self.world.clock() >= self.seen[task_id].kept_until  # ARS-62

    def _decision(self, task_id: str, who: Caller, decision: str, *, item: int, late: int = 0) -> Awaitable[object]:
        parts = self.seen[task_id].parts
        number = 0 if len(parts) == 1 else (item - 1) % (len(parts) - 1) + 1
        version = parts[number].version - late
        return requests.decide(
            self.world.ctx,
            who,
            task_id,
            version=version,
            decision=decision,
            reason="Because of that.",
            item=number or None,
        )

    @rule(task_id=tasks, who=DECIDERS, decision=DECISIONS, item=ITEMS, late=st.sampled_from([0, 0, 0, 1]))
    def decide(self, task_id: str, who: Caller, decision: str, item: int, late: int) -> None:
        if task_id in self.seen:
            [answer] = self.attempt(self._decision(task_id, who, decision, item=item, late=late))
            assert not late or isinstance(answer, ArapError)

    @rule(task_id=tasks, whos=st.lists(DECIDERS, min_size=2, max_size=4), decision=DECISIONS, item=ITEMS)
    def decide_at_once(self, task_id: str, whos: list[Caller], decision: str, item: int) -> None:
        if task_id in self.seen:
            others = [self._decision(task_id, who, "approve", item=item) for who in whos[1:]]
            withdrawn = requests.cancel(self.world.ctx, GATE, task_id, None)
            self.attempt(self._decision(task_id, whos[0], decision, item=item), *others, withdrawn)

    @rule(task_id=tasks, who=st.sampled_from([GATE, person("ann"), person("mo"), person("zoe")]))
    def cancel(self, task_id: str, who: Caller) -> None:
        self.attempt(requests.cancel(self.world.ctx, who, task_id, None))

    @rule(task_id=tasks, who=DECIDERS, what=st.sampled_from(["claim", "release", "comment", "ask"]))
    def talk(self, task_id: str, who: Caller, what: str) -> None:
        ctx = self.world.ctx
        acts: Mapping[str, Callable[[], Awaitable[object]]] = {
            "claim": lambda: requests.claim(ctx, who, task_id),
            "release": lambda: requests.release(ctx, who, task_id),
            "comment": lambda: requests.comment(ctx, who, task_id, text="Hm."),
            "ask": lambda: requests.ask(ctx, who, task_id, message="Why?"),
        }
        self.attempt(acts[what]())

    @rule(task_id=tasks, number=st.sampled_from([1, 1, 2]))
    def answer(self, task_id: str, number: int) -> None:
        self.attempt(requests.answer(self.world.ctx, GATE, task_id, version=number, given={"answer": "So."}))

    @rule(task_id=tasks, who=st.sampled_from([person("ann"), person("lea"), person("zoe"), RISK_ENGINE]))
    def revoke(self, task_id: str, who: Caller) -> None:
        if task_id in self.seen:
            for approval in self.seen[task_id].approvals:
                self.attempt(requests.revoke(self.world.ctx, who, approval.id, reason="No more."))

    @rule(task_id=tasks)
    def use(self, task_id: str) -> None:
        """An approval opens what it was given for while it is in force, and never afterwards."""
        asked = self.bodies[task_id]
        if task_id not in self.seen or "items" in asked:
            return
        for approval in self.seen[task_id].approvals:
            context = {**asked["context"], "approval": {"id": approval.id, "state": approval.state}}
            question_ = {name: asked[name] for name in ("subject", "resource", "action")} | {"context": context}
            [answer] = self.attempt(evaluate(self.world.ctx, GATE, question_))
            assert isinstance(answer, dict)
            is_in_force = approval.status == "active" and self.world.clock() < approval.approved_until
            assert answer["decision"] == is_in_force

    @rule(task_id=tasks)
    def report(self, task_id: str) -> None:
        self.attempt(requests.report(self.world.ctx, GATE, task_id, REPORT))

    @rule(seconds=st.sampled_from([1, 400, 40_000, 90_000]))
    def wait(self, seconds: int) -> None:
        self.world.clock.advance(seconds)

    @rule()
    def sweep(self) -> None:
        self.attempt(workers.expire_due(self.world.ctx))

    @rule()
    def purge(self) -> None:
        self.attempt(workers.purge_due(self.world.ctx))

    @invariant()
    def everything_holds(self) -> None:
        for task_id in self.bodies:
            now: Stored | None = type(self).run(self.world.ctx.database.read(partial(stored, task_id=task_id)))
            before = self.seen.pop(task_id, None)
            if now is None:
                assert before is None or before.whole.status != "pending", "a request vanished while it was open"
                with suppress(TaskExpired, UnknownTask):
                    raise AssertionError(type(self).run(requests.status(self.world.ctx, GATE, task_id)))
                continue
            now.agrees_with_itself()
            if before is not None:
                now.follows(before)
            self.seen[task_id] = now

    def teardown(self) -> None:
        """Leave nothing open to the next example, which shares the database."""
        self.world.clock.advance(40 * 86_400)
        self.attempt(workers.expire_due(self.world.ctx))
        self.world.clock.advance(40 * 86_400)
        self.attempt(workers.purge_due(self.world.ctx))

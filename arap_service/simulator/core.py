"""The simulator of one process: what is armed, the clock, what was observed, and the loop that carries it out.

Nothing here turns a denial into a permit: a re-evaluation is only ever made to answer less than the rules and the
approval would. `program.py` chooses, `running.py` ends requests, `calling_back.py` sends, `edge.py` stands at the door.
"""

from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from sqlmodel import Session

from arap_service.context import Context, random_id
from arap_service.domain.behaviours import Act, Group
from arap_service.domain.reevaluation import ApprovalRecord, Reason, Verdict
from arap_service.keys import Clock
from arap_service.protocol.canonical import binding_hash
from arap_service.requests.endings import REQUESTS
from arap_service.simulator.calling_back import Callbacks
from arap_service.simulator.clock import MovableClock
from arap_service.simulator.observing import Notebook
from arap_service.simulator.program import Armed, Occasion, Program, Target
from arap_service.simulator.running import Outcomes, open_tasks, revoke
from arap_service.store import votes
from arap_service.store.database import WriteSession

TOPIC: Final = "simulator"
"""What is rung when something was armed or the clock was moved."""
LOOK_SECONDS: Final = 0.25
_REVOKE: Final = "revoke-before-reevaluation"


class Simulator:
    """A rehearsal in one process; `real` is the clock that its own clock starts from."""

    def __init__(self, real: Clock) -> None:
        self.clock = MovableClock(real)
        self.notebook = Notebook()
        self.program = Program(self._script)
        self.callbacks = Callbacks(self.program, self.notebook, self.clock)
        self._outcomes = Outcomes(self.program)
        self._ctx: Context | None = None

    @property
    def ctx(self) -> Context:
        """The surroundings that it was attached to."""
        if self._ctx is None:
            raise RuntimeError("the simulator is not attached to a context yet")
        return self._ctx

    def attach(self, ctx: Context) -> None:
        """Rehearse with the use cases of `ctx`, once and before anything else."""
        self._ctx = ctx
        self.callbacks.attach(ctx)

    def arm(self, act: Act, target: Target) -> Armed | None:
        """Do this from now on; None when too much is armed. A moved clock is moved at once.

        Raises:
            OverflowError: The clock cannot be moved that far.
        """
        armed = Armed(random_id("sim"), act, target, self.clock())
        if act.behaviour.group is Group.CLOCK:
            self.clock.move(act.seconds)
        elif not self.program.arm(armed):
            return None
        if target.task is not None:
            self._outcomes.forget(target.task)
        self.ctx.log.info("behaviour_armed", behaviour=act.name, behaviour_id=armed.id)
        self.ctx.database.wake(TOPIC)
        return armed

    def clear(self) -> None:
        """Go back to doing what the rules and the reviewers say; the clock stays where it is."""
        self.program.clear()
        self.callbacks.clear()
        self._outcomes.forget()
        self.ctx.log.info("behaviours_cleared")
        self.ctx.database.wake(TOPIC)

    async def run(self) -> None:
        """Carry out what is armed until cancelled."""
        with self.ctx.database.subscribe(TOPIC, REQUESTS) as subscription:
            while True:
                try:
                    due = await self.round()
                except Exception:  # the top of a worker loop
                    self.ctx.log.exception("round_failed", loop="simulator")
                    due = None
                left = LOOK_SECONDS if due is None else (due - self.clock()).total_seconds()
                await subscription.wait(min(max(left, 0.01), LOOK_SECONDS))

    async def round(self) -> datetime | None:
        """Do everything that is due now; when the next thing will be."""
        found = await self.ctx.database.read(open_tasks)
        early = await self.callbacks.mislead([task for task in found if task.has_callback])
        late = await self.callbacks.send_late()
        outcome = await self._outcomes.carry_out(self.ctx, found)
        return min((due for due in (early, late, outcome) if due is not None), default=None)

    async def until(self, moment: datetime) -> None:
        """Wait until the service's clock shows `moment`."""
        with self.ctx.database.subscribe(TOPIC) as subscription:
            while (left := (moment - self.clock()).total_seconds()) > 0:
                await subscription.wait(min(left, LOOK_SECONDS))

    async def before_reevaluation(self, approval_id: str) -> None:
        """Revoke this approval, if that is what is armed for its request."""
        ctx = self.ctx

        def owner(session: Session) -> tuple[str, str] | None:
            found = votes.find_approval(session, approval_id)
            return None if found is None else (found[1].id, found[1].template_id)

        of = await ctx.database.read(owner)
        if of is None:
            return
        if self.program.choose(Occasion(*of, approval_id), Group.REEVALUATION, names=(_REVOKE,)) is not None:
            await ctx.database.write(partial(_revoked, ctx, approval_id))

    def reconsider(self, verdict: Verdict, record: ApprovalRecord) -> Verdict:
        """The verdict to answer with: `verdict`, or a denial in place of a permit that rests on the approval."""
        if not verdict.decision or verdict.approval_id is None:
            return verdict
        call = (record.client_id, binding_hash(*record.about, record.members))
        act = self.program.answer(Occasion(record.task_id, record.template, call))
        return verdict if act is None else _denial(act)

    def said(self) -> dict[str, Any]:
        """How things stand, for the control API."""
        return {
            "simulator": "on",
            "clock": {"now": self.clock().astimezone(UTC).isoformat(), "moved_seconds": self.clock.moved_seconds},
            "armed": self.program.listed(),
            "last_observation": self.notebook.last,
        }

    def _script(self, template_id: str) -> tuple[Act, ...]:
        template = self.ctx.policy.current().templates.get(template_id)
        return () if template is None else template.script


def _revoked(ctx: Context, approval_id: str, session: WriteSession) -> None:
    if revoke(ctx, session, approval_id):
        ctx.log.info("approval_revoked", approval_id=approval_id)


def _denial(act: Act) -> Verdict:
    match act.name:
        case "reevaluation-retry":
            reason = Reason.GRANT_PENDING
            return Verdict(False, reason.value, reason, "retry", retry_after=act.retry_after)
        case "reevaluation-request":
            return Verdict(False, Reason.OUT_OF_SCOPE.value, Reason.OUT_OF_SCOPE, "request")
        case _:
            return Verdict(False, Reason.POLICY_DENIED.value, Reason.POLICY_DENIED, "none")

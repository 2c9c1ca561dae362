"""Plays a scenario against an enforcement point: arms it, waits for what the enforcement point does, and judges that.

Nothing of the enforcement point has to be changed: it is told to make a call, by a person or by a command, and is
watched at the service's door. Where the tool runs, nobody sees but the tool; how often it ran is asked of whoever can
count it. See docs/simulator.md.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio
import httpx2

from arap_service.simulator.evidence import Evidence, Finding, Verdict
from arap_service.simulator.judging import judge
from arap_service.simulator.observing import Observation, read_observation
from arap_service.simulator.scenarios import Scenario

BEHAVIOURS_PATH: Final = "/simulator/v1/behaviours"
OBSERVATIONS_PATH: Final = "/simulator/v1/observations"
LOOK_SECONDS: Final = 0.1
_UNNAMED: Final = frozenset({"callback", "decoy"})
Trigger = Callable[[], Awaitable[bool]]
"""Makes the enforcement point do what the scenario asks for; whether that ended well."""
Count = Callable[[], int]


class ControlRefused(Exception):
    """The simulator does not do what it is told; the text says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """The enforcement point under test: the client that it is for the service, and the template of its calls.

    `trigger` makes it call, or is None where a person does; `count` says how often the tool has run so far, or is None.
    """

    client: str
    template: str
    trigger: Trigger | None = None
    count: Count | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait, in seconds: for the scenario to end, then for what should not come, and between repeats."""

    patience: float = 60.0
    settle: float = 2.0
    pause: float = 1.0


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a scenario; `is_over` is false when it did not come to its end in time."""

    scenario: str
    verdicts: tuple[Verdict, ...]
    is_over: bool
    observations: int

    @property
    def findings(self) -> frozenset[Finding]:
        """The findings that occur."""
        return frozenset(verdict.finding for verdict in self.verdicts)


async def play(scenario: Scenario, control: httpx2.AsyncClient, target: Target, *, pace: Pace) -> Played:
    """Play `scenario` through the control API that `control` reaches, and judge what was seen.

    Raises:
        ControlRefused: The API refuses, or does not answer.
    """
    first = (await _asked(control, "GET", OBSERVATIONS_PATH))["last"]
    before = 0 if target.count is None else target.count()
    await _asked(control, "DELETE", BEHAVIOURS_PATH)
    for arms in scenario.arms:
        addressed = arms if "endpoint" in arms else {**arms, "template": target.template}
        await _asked(control, "POST", BEHAVIOURS_PATH, addressed)

    async def look() -> Evidence:
        said = (await _asked(control, "GET", f"{OBSERVATIONS_PATH}?after={first}"))["observations"]
        seen = [read_observation(each) for each in said]
        ran = None if target.count is None else target.count() - before
        return Evidence(tuple(each for each in seen if _concerns(each, target.client)), ran)

    is_over, fault = False, None
    async with anyio.create_task_group() as group:
        if target.trigger is not None:
            group.start_soon(_call, target.trigger, scenario, pace)
        try:
            is_over = await _watch(scenario, look, pace)
        except ControlRefused as error:  # raised below, since a group would wrap it
            fault = error
        group.cancel_scope.cancel()
    if fault is not None:
        raise fault
    evidence = await look()
    await _asked(control, "DELETE", BEHAVIOURS_PATH)
    return Played(scenario.name, judge(scenario.checks, evidence), is_over, len(evidence.seen))


async def _watch(scenario: Scenario, look: Callable[[], Awaitable[Evidence]], pace: Pace) -> bool:
    is_over = False
    with anyio.move_on_after(pace.patience):
        while not (is_over := scenario.is_over(await look())):  # noqa: ASYNC110 - it happens in another process
            await anyio.sleep(LOOK_SECONDS)
    await anyio.sleep(pace.settle)
    return is_over


async def _call(trigger: Trigger, scenario: Scenario, pace: Pace) -> None:
    while not await trigger() and scenario.repeats:  # noqa: ASYNC110 - a pause between two calls
        await anyio.sleep(pace.pause)


def _concerns(observation: Observation, client: str) -> bool:
    # Where a fault came before authentication, nobody knows who was there; a rehearsal has one guest.
    if observation.what in _UNNAMED or (observation.client is None and observation.fault is not None):
        return True
    return observation.client == client


async def _asked(control: httpx2.AsyncClient, method: str, path: str, body: Any = None) -> dict[str, Any]:
    try:
        answer = await control.request(method, path, json=body)
    except httpx2.HTTPError:
        raise ControlRefused(f"{control.base_url}: does not answer; is the simulator running?") from None
    if answer.status_code == 404:
        raise ControlRefused(f"{control.base_url}: has no simulator, or its rules have no such template")
    if not answer.is_success:
        raise ControlRefused(f"{control.base_url}: refused {method} {path.partition('?')[0]} ({answer.status_code})")
    found: dict[str, Any] = answer.json() if answer.content else {}
    return found

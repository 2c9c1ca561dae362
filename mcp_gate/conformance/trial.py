"""What a check is given: a client, another principal's client, the deployment's hands, and ways to wait.

Whatever keeps a check from reaching its question is `NotRun`, never a verdict about the rule.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from blackbox_kit.hands import Declined
from mcp_gate.conformance.client_server import Script
from mcp_gate.conformance.control import Control, Hands
from mcp_gate.conformance.model import Check, Exchange, Json, Level, NotApplicable, NotRun
from mcp_gate.conformance.transports import NoAnswer, Reply
from mcp_gate.conformance.wire import ENVELOPE, Wire

TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
SHORTEST_POLL: Final = 0.02
DEFAULT_POLL: Final = 0.5


@dataclass(frozen=True, slots=True)
class Handle:
    """A task that a call became, and what belongs to that call."""

    task_id: str
    created: Json
    marker: str
    tool: str


@dataclass(slots=True)
class Shown:
    """What a run has seen to work, so that no check has to see it again; the longest story, as it was told."""

    works: set[str] = field(default_factory=set)
    story: tuple[tuple[Exchange, ...], tuple[Mapping[str, str], ...]] | None = None


@dataclass(slots=True)
class Trial:
    """The surroundings of one check."""

    wire: Wire
    other: Wire | None
    hands: Hands
    new_marker: Callable[[], str]
    client: Callable[[Script], Awaitable[None]] | None = None
    open_another: Callable[[], AbstractAsyncContextManager[Wire]] | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    made: list[tuple[Wire, str]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    shown: Shown = field(default_factory=Shown)

    @property
    def control(self) -> Control:
        """What the deployment declares."""
        return self.hands.control

    # ---- requests ----

    async def reply(
        self, method: str, params: Mapping[str, Any], *, tasks: bool = True, wire: Wire | None = None
    ) -> Reply:
        """The answer to a request, whatever it says.

        Raises:
            NotRun: None came.
        """
        try:
            return await (wire or self.wire).request(method, params, tasks=tasks)
        except NoAnswer as error:
            raise NotRun(f"{method}: {error}") from None

    async def call(
        self,
        name: str = "gated",
        *,
        marker: str | None = None,
        tasks: bool = True,
        wire: Wire | None = None,
        **more: Any,
    ) -> Json:
        """The answer to one of the calls of the control file; a task that it becomes is ended after the check."""
        call = self.control.calls[name]
        params = {"name": call.tool, "arguments": call.marked(marker or self.new_marker()), **more}
        answer = (await self.reply("tools/call", params, tasks=tasks, wire=wire)).answer
        if (task_id := task_of(answer)) is not None:
            self.made.append((wire or self.wire, task_id))
        return answer

    async def create(self, name: str = "gated", *, marker: str | None = None, wire: Wire | None = None) -> Handle:
        """A call that becomes a task.

        Raises:
            NotRun: It did not.
        """
        marker = marker or self.new_marker()
        answer = await self.call(name, marker=marker, wire=wire)
        task_id = task_of(answer)
        if task_id is None:
            raise NotRun(f"the call {name} did not become a task: {brief(answer)}")
        return Handle(task_id, answer["result"], marker, self.control.calls[name].tool)

    async def get(self, task_id: str, *, wire: Wire | None = None) -> Json:
        """The result of `tasks/get`.

        Raises:
            NotRun: There is none.
        """
        answer = (await self.reply("tasks/get", {"taskId": task_id}, wire=wire)).answer
        if not isinstance(answer.get("result"), dict):
            raise NotRun(f"tasks/get of a task that exists was answered with {brief(answer)}")
        result: Json = answer["result"]
        return result

    async def update(self, task_id: str, responses: Mapping[str, Any], *, wire: Wire | None = None) -> Json:
        """The answer to `tasks/update`."""
        params = {"taskId": task_id, "inputResponses": dict(responses)}
        return (await self.reply("tasks/update", params, wire=wire)).answer

    async def cancel(self, task_id: str, *, wire: Wire | None = None) -> Json:
        """The answer to `tasks/cancel`."""
        return (await self.reply("tasks/cancel", {"taskId": task_id}, wire=wire)).answer

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification.

        Raises:
            NotRun: It could not be sent.
        """
        try:
            await self.wire.notify(method, params)
        except NoAnswer as error:
            raise NotRun(f"{method}: {error}") from None

    # ---- waiting ----

    async def until(self, task_id: str, is_there: Callable[[Json], bool], what: str) -> Json:
        """The task once `is_there` holds, polled as its server asks, at most as slowly as the control file says.

        Raises:
            NotRun: It never did.
        """
        seconds, state = self.control.seconds, {}
        with anyio.move_on_after(seconds.end):
            while True:
                state = await self.get(task_id)
                if is_there(state):
                    return state
                await anyio.sleep(self._pause(state))
        raise NotRun(f"the task was not {what} within {seconds.end:g} s; its status is {state.get('status')!r}")

    async def ended(self, handle: Handle) -> Json:
        """The task once it is terminal."""
        return await self.until(handle.task_id, lambda state: state.get("status") in TERMINAL, "terminal")

    async def settle(self) -> None:
        """Give the server time to do what it must not."""
        await anyio.sleep(self.control.seconds.settle)

    def _pause(self, state: Json) -> float:
        asked = state.get("pollIntervalMs")
        wanted = asked / 1000 if isinstance(asked, int | float) and asked > 0 else DEFAULT_POLL
        return min(max(wanted, SHORTEST_POLL), self.control.seconds.poll)

    # ---- the deployment ----

    async def do(self, verb: str, handle: Handle) -> str:
        """Have the deployment do something about a call."""
        return await self.hands.do(verb, marker=handle.marker, task=handle.task_id, tool=handle.tool)

    async def do_late(self, verb: str, handle: Handle) -> None:
        """The same after the end, when a deployment may well say no.

        Raises:
            NotRun: It could not be asked, or had no end.
        """
        if self.hands.has(verb):
            try:
                await self.do(verb, handle)
            except Declined:
                return

    async def decided(self, verb: str, handle: Handle) -> Json:
        """The task once it has ended after a verb."""
        await self.do(verb, handle)
        return await self.ended(handle)

    async def count(self, handle: Handle) -> int | None:
        """How often the tool was carried out for this call; None where the deployment cannot tell."""
        return await self.count_of("gated", handle.marker, handle) if self.hands.has("count") else None

    async def count_of(self, name: str, marker: str, handle: Handle | None = None) -> int | None:
        """The same of a call that became no task; None also where no marker tells it from others."""
        call = self.control.calls[name]
        if not self.hands.has("count") or (handle is None and call.marked(marker) == call.arguments):
            return None
        tool, task = (call.tool, "") if handle is None else (handle.tool, handle.task_id)
        said = await self.hands.do("count", marker=marker, task=task, tool=tool)
        try:
            return int(said.strip().splitlines()[-1])
        except (ValueError, IndexError):
            raise NotRun("control: count did not print a number") from None

    async def executable(self) -> None:
        """See once that an approval has the gated call carried out, and counted: or what does not happen shows nothing.

        Raises:
            NotRun: It has not.
        """
        if "approve" in self.shown.works or not self.hands.has("approve"):
            return
        handle = await self.create()
        state = await self.decided("approve", handle)
        if state.get("status") != "completed":
            raise NotRun(f"approve had no call carried out: the task ended as {state.get('status')!r}")
        if await self.count(handle) == 0:
            raise NotRun("control: count tells of no execution of a call that was approved and completed")
        self.shown.works.add("approve")

    async def restart(self) -> None:
        """Have the server killed and started again.

        Raises:
            NotApplicable: Neither the verb nor the transport can.
            NotRun: It was not seen to be killed.
        """

        async def by() -> None:
            await self.hands.do("restart", marker="", task="", tool="")

        try:
            seen = await self.wire.transport.restart(by if self.hands.has("restart") else None)
        except NoAnswer as error:
            raise NotRun(str(error)) from None
        if seen is None:
            raise NotApplicable("the control file has no verb restart")
        if not seen:
            why = "the server was not killed, or something before it keeps connections, which the suite cannot tell"
            raise NotRun(f"a connection from before the verb restart is still open after it: {why}")

    async def someone_else(self) -> Wire:
        """The other principal's client, once it was seen to do something of its own.

        Raises:
            NotApplicable: There is none.
            NotRun: It can do nothing, so that no refusal of it shows anything.
        """
        if self.other is None:
            raise NotApplicable("there is no token of a second principal (tokens.second)")
        if "second" not in self.shown.works:
            try:
                handle = await self.create(wire=self.other)
                await self.get(handle.task_id, wire=self.other)
            except NotRun as error:
                raise NotRun(f"the second principal cannot do anything of its own: {error}") from None
            self.shown.works.add("second")
        return self.other

    async def clean(self) -> None:
        """Cancel what is left open, so that nobody has to decide it."""
        for wire, task_id in self.made:
            try:
                await wire.request("tasks/cancel", {"taskId": task_id})
            except NoAnswer:
                return


def rule(
    id: str,  # noqa: A002 - it is called so everywhere
    group: str,
    *,
    level: Level = Level.MUST,
    verbs: tuple[str, ...] = (),
    calls: tuple[str, ...] = ("gated",),
    of_client: bool = False,
    always: bool = False,
) -> Callable[[Callable[[Trial], Awaitable[None]]], Check]:
    """Makes a check of a function; `always` is for what is also asked of a server that declares nothing."""

    def made(function: Callable[[Trial], Awaitable[None]]) -> Check:
        return Check(f"sep-2848-{id}", group, level, function, verbs, calls, of_client, always)

    return made


def task_of(answer: Json) -> str | None:
    """The id of the task that an answer announces; None when it announces none."""
    result = answer.get("result")
    if isinstance(result, dict) and result.get("resultType") == "task" and isinstance(result.get("taskId"), str):
        return str(result["taskId"])
    return None


def result_of(state: Json) -> Json:
    """The `CallToolResult` inside a completed task.

    Raises:
        NotRun: There is none.
    """
    result = state.get("result")
    if state.get("status") != "completed" or not isinstance(result, dict):
        raise NotRun(f"the task ended as {state.get('status')!r} and has no result to look at")
    return result


def meta_of(value: Json) -> Json:
    """The `_meta` of a result, empty when there is none."""
    meta = value.get("_meta")
    return meta if isinstance(meta, dict) else {}


def envelope_of(state: Json) -> Any:
    """The denial envelope of a task or of the result in it; None when there is none."""
    inner = state.get("result")
    found = meta_of(state).get(ENVELOPE)
    return found if found is not None or not isinstance(inner, dict) else meta_of(inner).get(ENVELOPE)


def text_of(result: Json) -> str:
    """The text of a tool result."""
    blocks = result.get("content")
    return "\n".join(
        str(block.get("text", "")) for block in (blocks if isinstance(blocks, list) else ()) if isinstance(block, dict)
    )


def is_refusal(answer: Json) -> bool:
    """Whether it is an error and no result.

    Raises:
        NotRun: It is neither.
    """
    if isinstance(answer.get("result"), dict):
        return False
    if not isinstance(answer.get("error"), dict):
        raise NotRun(f"what came is neither a result nor an error: {brief(answer)}")
    return True


def has_run(answer: Json) -> bool:
    """Whether an answer is the result of a tool that was carried out."""
    result = answer.get("result")
    is_final = isinstance(result, dict) and result.get("resultType") in {"complete", None} and "content" in result
    return is_final and isinstance(result, dict) and result.get("isError") is not True


def brief(answer: Json) -> str:
    """An answer without what does not matter; it is cut where nothing secret is left in it."""
    if isinstance(error := answer.get("error"), dict):
        return f"error {error.get('code')}: {error.get('message')}"
    result = answer.get("result")
    shown = {name: member for name, member in result.items() if name != "_meta"} if isinstance(result, dict) else answer
    return json.dumps(shown, ensure_ascii=False, default=str)

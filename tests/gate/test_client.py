"""The client half of the tasks extension: answers, records, outcomes (MCP Tasks extension; PEP-123)."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from mcp import types
from mcp.client.extension import ClaimContext
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError

from mcp_gate.client import (
    CreatedTask,
    Disposition,
    TaskEnded,
    TaskRecord,
    TaskRecords,
    TasksExtension,
    TaskState,
    disposition,
    possibly_executed,
)
from tests.gate.world import DISPOSITION, ENVELOPE, World, connected, create

pytestmark = pytest.mark.anyio

TICKET = {"type": "object", "properties": {"ticket": {"type": "string"}}, "required": ["ticket"]}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def result(value: str | None) -> types.CallToolResult:
    return types.CallToolResult(content=[], meta=None if value is None else {DISPOSITION: value})


@pytest.mark.requirement("PEP-123")
@pytest.mark.parametrize(
    ("value", "known", "may_have_run"),
    [
        ("denied-not-executed", Disposition.DENIED_NOT_EXECUTED, False),
        ("approved-executed", Disposition.APPROVED_EXECUTED, True),
        ("execution-error", Disposition.EXECUTION_ERROR, True),
        ("outcome-unknown", Disposition.OUTCOME_UNKNOWN, True),
        ("partially-executed", Disposition.UNKNOWN, True),
        ("DENIED-NOT-EXECUTED", Disposition.UNKNOWN, True),
        (None, None, True),
    ],
)
def test_a_disposition_that_we_do_not_know_means_possibly_executed(
    value: str | None,
    known: Disposition | None,
    may_have_run: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert disposition(result(value)) is known
    assert possibly_executed(result(value)) is may_have_run


@pytest.mark.requirement("PEP-123")
@pytest.mark.parametrize(("value", "may_have_run"), [(None, False), ("outcome-unknown", True), ("unheard-of", True)])
def test_a_denial_that_became_no_task_ran_nothing_whereas_a_disposition_outweighs_the_envelope(
    value: str | None,
    may_have_run: bool,  # noqa: FBT001 - a column of the table
) -> None:
    denied = result(value)
    denied.meta = {**(denied.meta or {}), ENVELOPE: {"reason": "insufficient_authorization"}}
    assert possibly_executed(denied) is may_have_run


async def test_a_question_goes_to_the_clients_own_callback_once_and_the_answer_back(world: World) -> None:
    asked: list[str] = []

    async def answer(_: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        world.service.approve()
        return types.ElicitResult(action="accept", content={"ticket": "T-1"})

    async def progress(state: TaskState | CreatedTask) -> None:
        if isinstance(state, CreatedTask):
            world.service.ask("Which ticket?", TICKET)

    extension = TasksExtension(progress=progress)
    async with connected(world.server(), extension, elicitation_callback=answer) as client:
        done = await client.call_tool("wire", {"to": "acct-991", "amount": 1})
    assert not done.is_error
    assert asked == ["Which ticket?"]
    assert world.effects == ["acct-991 1"]


async def test_a_question_that_nobody_can_answer_stays_open_without_being_asked_again(world: World) -> None:
    """Without an elicitation callback the SDK answers with an error, which is no answer to the task."""
    states: list[str] = []

    async def progress(state: TaskState | CreatedTask) -> None:
        states.append(state.status)
        if isinstance(state, CreatedTask):
            world.service.ask("Which ticket?", TICKET)
        if state.status == "input_required":
            world.service.deny()

    async with connected(world.server(), TasksExtension(progress=progress)) as client:
        done = await client.call_tool("wire", {"to": "acct-991", "amount": 1})
    assert disposition(done) is Disposition.DENIED_NOT_EXECUTED
    assert "input_required" in states
    assert world.service.answers == []


async def test_the_task_id_is_on_disk_before_anything_else_happens(world: World, tmp_path: Path) -> None:
    records = TaskRecords(tmp_path / "records")
    found: list[str] = []

    async def progress(state: TaskState | CreatedTask) -> None:
        if isinstance(state, CreatedTask):
            found.extend(record.task_id for record in TaskRecords(tmp_path / "records").all())
            world.service.approve()

    extension = TasksExtension(records=records, server="treasury", progress=progress)
    async with connected(world.server(), extension) as client:
        await client.call_tool("wire", {"to": "acct-991", "amount": 1})
    (record,) = records.all()
    assert found == [record.task_id]
    assert (record.server, record.tool, record.status) == ("treasury", "wire", "completed")


async def test_another_process_resumes_from_the_record(world: World, tmp_path: Path) -> None:
    records = TaskRecords(tmp_path / "records")
    async with connected(world.server(), TasksExtension()) as client:
        created = await create(client, "wire", to="acct-991", amount=1)
    records.remember(TaskRecord(created.task_id, "treasury", "wire", created.created_at, created.status))
    world.service.approve()
    extension = TasksExtension(records=records)
    async with connected(world.server(), extension) as client:
        done = await extension.resume(client.session, records.all()[0].task_id)
    assert disposition(done) is Disposition.APPROVED_EXECUTED


async def test_a_task_that_the_server_forgot_is_settled_as_gone(world: World, tmp_path: Path) -> None:
    records = TaskRecords(tmp_path / "records")
    records.remember(TaskRecord("tsk_old", "treasury", "wire", "2026-04-30T20:00:00Z", "working"))
    extension = TasksExtension(records=records)
    async with connected(world.server(), extension) as client:
        with pytest.raises(TaskEnded) as caught:
            await extension.resume(client.session, "tsk_old")
    assert caught.value.status == "gone"
    assert records.all()[0].status == "gone"


async def test_an_error_that_is_not_about_the_task_is_no_end_of_the_task(world: World) -> None:
    extension = TasksExtension()
    async with connected(world.server()) as client:  # the extension is not declared
        with pytest.raises(MCPError) as caught:
            await extension.get(client.session, "tsk_1")
    assert caught.value.code == -32021


@pytest.mark.parametrize(("milliseconds", "seconds"), [(200, 0.2), (0, 0.05), (3_600_000, 60.0), (None, 5.0)])
async def test_the_servers_interval_is_kept_within_bounds(
    world: World, milliseconds: int | None, seconds: float
) -> None:
    waited: list[float] = []

    async def sleep(time: float) -> None:
        waited.append(time)
        world.service.approve()
        await anyio.lowlevel.checkpoint()

    extension = TasksExtension(sleep=sleep)
    settings = world.settings(limits={"poll_interval_seconds": 0.05})
    async with connected(world.server(settings), extension) as client:
        created = await create(client, "wire", to="acct-991", amount=1)
        (claim,) = extension.claims()
        context = ClaimContext(session=client.session, tool_name="wire", read_timeout_seconds=None)
        await claim.resolve(created.model_copy(update={"poll_interval_ms": milliseconds}), context)
    assert waited[0] == seconds


def test_records_are_private_and_survive_what_they_cannot_read(tmp_path: Path) -> None:
    records = TaskRecords(tmp_path / "records")
    assert records.all() == []
    records.settle("tsk_1", "completed")
    assert records.find("tsk_1") is None
    records.remember(TaskRecord("../../tsk_1", "s", "t", "2026-04-30T20:00:00Z", "working"))
    (file,) = (tmp_path / "records").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    (tmp_path / "records" / "torn.json").write_text('{"task_id": ')
    (tmp_path / "records" / "other.json").write_text('{"surprise": 1}')
    assert [record.task_id for record in records.all()] == ["../../tsk_1"]


def test_records_of_a_user_are_where_the_state_of_programs_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    TaskRecords.default().remember(TaskRecord("tsk_1", "s", "t", "2026-04-30T20:00:00Z", "working"))
    assert len(list((tmp_path / "mcp-gate" / "tasks").iterdir())) == 1

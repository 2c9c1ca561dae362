"""What an engine does first, and what it does when it can't yet. Provenance: design section 8, Executor; PEP-59."""

from collections.abc import Callable
from datetime import timedelta

import anyio
import pytest
from structlog.testing import capture_logs

from mcp_gate.lifecycle import Phase
from tests.crash.processes import locked, until
from tests.gate.kit import Killed, Kit

pytestmark = pytest.mark.anyio


async def test_a_locked_database_postpones_recovery_and_ends_nothing(make_kit: Callable[..., Kit]) -> None:
    before = make_kit(crash_at="intent.committed")
    with pytest.raises(Killed):
        await before.call()
    kit = await before.restarted(crash_at=None, options={"idle": timedelta(milliseconds=1)})
    await kit.store.database.write(lambda connection: connection.exec_driver_sql("PRAGMA busy_timeout = 1"))
    (task_id,) = await kit.engine._core.duty.due(kit.clock() + kit.limits.lease)

    async def is_recovered() -> bool:
        return (await kit.stored(task_id)).submission.handle is not None

    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        with capture_logs() as logs, locked(kit.url):
            group.start_soon(kit.engine.run, stop)
            await until(lambda: any(entry["event"] == "recovery_postponed" for entry in logs), "recovery failed")
        await until(is_recovered, "recovery succeeded")
        stop.set()
    assert await kit.phase(task_id) is Phase.INTENT
    await kit.aclose()

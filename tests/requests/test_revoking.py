"""A revocation comes before a re-evaluation or after it, never in between (PDP-65)."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from arap_service import requests
from arap_service.evaluation import evaluate
from arap_service.store.database import parse_url
from tests.requests.world import GATE, World, person, question

pytestmark = pytest.mark.anyio


def is_free(url: str, approval_id: str) -> bool:
    """Whether another connection could end the approval at this moment, without waiting for anybody."""
    parsed = parse_url(url)
    is_file = parsed.get_backend_name() == "sqlite"
    engine = create_engine(parsed, connect_args={"timeout": 0, "isolation_level": None} if is_file else {})
    try:
        with engine.connect() as connection:
            if is_file:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                wanted = text("SELECT id FROM approval WHERE id = :id FOR UPDATE NOWAIT")
                connection.execute(wanted, {"id": approval_id})
            connection.rollback()
    except OperationalError:
        return False
    finally:
        engine.dispose()
    return True


@pytest.mark.requirement("PDP-65", "PDP-78")
async def test_nobody_revokes_between_the_look_at_an_approval_and_its_record(world: World, world_url: str) -> None:
    """Otherwise the audit would show a permit after the revocation that it should have met."""
    detail = await world.decide(await world.pending())
    assert detail.approval is not None
    approval_id = detail.approval.id
    found: list[bool] = []

    def looking(clock: Callable[[], datetime]) -> Callable[[], datetime]:
        def now() -> datetime:
            found.append(is_free(world_url, approval_id))
            return clock()

        return now

    # The time is asked for when the approval is judged, between the look at it and the record.
    slow = replace(world.ctx, clock=looking(world.ctx.clock))
    asked = question(approval={"id": approval_id})
    assert is_free(world_url, approval_id)
    assert (await evaluate(slow, GATE, asked))["decision"] is True
    assert found
    assert not any(found)
    assert is_free(world_url, approval_id)

    await requests.revoke(world.ctx, person("ann"), approval_id, reason="Stop.")
    assert (await evaluate(world.ctx, GATE, asked))["decision"] is False
    entries = await world.audit(detail.id)
    told = [(entry.kind, json.loads(entry.detail).get("decision")) for entry in entries][-3:]
    assert told == [("reevaluated", True), ("approval_revoked", None), ("reevaluated", False)]

"""Reasons that must contain something: told beforehand, insisted on at the moment of deciding."""

import pytest

from arap_service import requests
from arap_service.domain.errors import InputInvalid
from arap_service.domain.reasons import ReasonRule
from tests.requests.world import World, person

pytestmark = pytest.mark.anyio
CHANGE = "Name the change, such as CHG-1234."


async def test_reason_without_what_the_template_wants_decides_nothing(terms: World) -> None:
    task_id = await terms.pending("restart")
    wrong = ((None, "required"), ("\u200b \u2800", "required"), ("because", "pattern"), ("chg-1234", "pattern"))
    for reason, code in wrong:
        with pytest.raises(InputInvalid) as refused:
            await terms.decide(task_id, reason=reason)
        assert refused.value.extra["errors"] == [{"pointer": "/reason", "code": code}]
    assert (await terms.version(task_id), await terms.kinds(task_id)) == (1, ["task_submitted"])
    assert (await terms.decide(task_id, reason="CHG-1234 is planned")).status == "approved"


async def test_reviewer_reads_what_is_wanted_before_he_writes(terms: World) -> None:
    detail = await requests.detail(terms.ctx, person("ann"), await terms.pending("restart"))
    assert detail.reasons["approve"] == ReasonRule(r"\bCHG-[0-9]{4,}\b", CHANGE)
    assert detail.reason_required == {"approve", "revoke"}


async def test_approval_is_taken_back_only_for_a_reason_of_the_wanted_kind(terms: World) -> None:
    task_id = await terms.pending("restart")
    approval = (await terms.decide(task_id, reason="CHG-1234")).approval
    assert approval is not None
    with pytest.raises(InputInvalid):
        await requests.revoke(terms.ctx, person("ann"), approval.id, reason="no good")
    taken = (await requests.revoke(terms.ctx, person("ann"), approval.id, reason="INC 7")).approval
    assert taken is not None
    assert taken.status == "revoked"

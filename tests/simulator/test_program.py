"""The armed behaviours: which applies, how often, and that no number of them fills the memory."""

from arap_service.domain.behaviours import Endpoint, Group, read_act
from arap_service.simulator.program import MOST_ARMED, Armed, Occasion, Program, Target
from tests.clock import START

TASK = Occasion("task_1", "transfer", "task_1")


def armed(behaviour: str, target: Target | None = None, **numbers: int) -> Armed:
    act = read_act({"behaviour": behaviour, **numbers})
    return Armed(f"sim_{behaviour}", act, target or Target(template="transfer"), START)


def program(*entries: Armed) -> Program:
    made = Program(lambda _: (read_act({"behaviour": "fail"}),))
    assert all(made.arm(entry) for entry in entries)
    return made


def test_task_goes_before_template_and_template_before_script() -> None:
    made = program(armed("approve"), armed("deny", Target(task="task_1")))
    assert _name(made.choose(TASK, Group.OUTCOME)) == "deny"
    assert _name(made.choose(Occasion("task_2", "transfer", "task_2"), Group.OUTCOME)) == "approve"
    assert _name(made.choose(Occasion("task_3", "another", "task_3"), Group.OUTCOME)) == "fail"


def test_the_same_occasion_uses_an_act_up_once() -> None:
    made = program(armed("approve", times=1))
    assert [_name(made.choose(TASK, Group.OUTCOME)) for _ in range(3)] == ["approve"] * 3
    assert _name(made.choose(Occasion("task_2", "transfer", "task_2"), Group.OUTCOME)) == "fail"


def test_faults_of_an_endpoint_come_in_order_and_then_no_more() -> None:
    status = Target(endpoint=Endpoint.STATUS)
    made = program(armed("cut", status, times=2), armed("garbage", status))
    faults = [made.fault_of(Endpoint.STATUS) for _ in range(4)]
    assert [None if act is None else act.name for act in faults] == ["cut", "cut", "garbage", None]
    assert made.fault_of(Endpoint.EVALUATION) is None


def test_another_call_has_counts_of_its_own() -> None:
    made = program(armed("reevaluation-retry", times=1))
    calls = [Occasion("task_1", "transfer", "one"), Occasion("task_1", "transfer", "other")]
    assert [made.answer(call) is None for call in calls * 2] == [False, False, True, True]


def test_no_more_can_be_armed_than_there_is_room_for_and_what_is_used_up_makes_room() -> None:
    made = program(*(armed("cut", Target(endpoint=Endpoint.STATUS)) for _ in range(MOST_ARMED)))
    assert not made.arm(armed("approve"))
    assert made.fault_of(Endpoint.STATUS) is not None
    assert made.arm(armed("approve"))
    made.clear()
    assert made.listed() == []


def _name(found: Armed | None) -> str | None:
    return None if found is None else found.act.name

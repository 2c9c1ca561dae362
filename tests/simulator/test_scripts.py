"""A template's `script` in the rules file: what is read, what is refused with its line, and that editors know it."""

from typing import Any

import pytest

from arap_service.domain.behaviours import BEHAVIOURS, PARAMETERS, SCRIPTED, Act, BehaviourInvalid, read_act
from arap_service.domain.policy_load import PolicyInvalid, load_policy, policy_schema

RULES = """version: 1
rules: [{id: all, when: 'true', request: t}]
templates:
  t:
    title: T
    explanation: E
    steps: [{id: s, title: S, people: [p]}]
    script:
      - {behaviour: deny, after: 0.5}
      - %s
"""


def test_a_script_is_read_with_the_defaults_of_its_behaviours() -> None:
    script = load_policy(RULES % "{behaviour: reevaluation-retry}").templates["t"].script
    assert script == (
        Act(BEHAVIOURS["deny"], after=0.5, times=None),
        Act(BEHAVIOURS["reevaluation-retry"], times=2, retry_after=1),
    )


@pytest.mark.parametrize(
    "entry",
    [
        "{behaviour: applaud}",
        "{behaviour: slow}",
        "{behaviour: clock-moved}",
        "{behaviour: approve, after: -1}",
        "{behaviour: approve, after: soon}",
        "{behaviour: approve, times: 0}",
        "{behaviour: approve, times: 1.5}",
        "{behaviour: approve, retry_after: 1}",
        "{behaviour: approve, loudly: true}",
        "{after: 1}",
        "approve",
    ],
)
def test_an_act_that_no_simulator_could_carry_out_is_a_fault_on_its_line(entry: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(RULES % entry)
    assert {problem.line for problem in refused.value.problems} == {10}
    assert all(problem.pointer.startswith("/templates/t/script/1") for problem in refused.value.problems)


def test_the_schema_for_editors_names_the_behaviours_and_bounds_of_the_table() -> None:
    act = policy_schema()["$defs"]["act"]["properties"]
    assert act.pop("behaviour")["enum"] == [each.name for each in BEHAVIOURS.values() if each.group in SCRIPTED]
    used = {name for each in BEHAVIOURS.values() if each.group in SCRIPTED for name in each.parameters}
    assert act.keys() == used
    bounds = {name: (each["minimum"], each["maximum"]) for name, each in act.items()}
    assert bounds == {name: (PARAMETERS[name].least, PARAMETERS[name].most) for name in used}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, True, None, "1", [1], {}])
def test_what_is_no_number_within_bounds_is_refused(value: Any) -> None:
    with pytest.raises(BehaviourInvalid) as refused:
        read_act({"behaviour": "approve", "after": value})
    assert refused.value.member == "after"


def test_an_act_written_down_reads_as_itself() -> None:
    for behaviour in BEHAVIOURS.values():
        act = read_act({"behaviour": behaviour.name})
        assert read_act(act.said()) == act

"""Writes models for the Spin model checker from the transition tables of the service's task and of the gate's task.

`python -m tools.models` writes `tests/models/*.pml`. Nobody edits those files: a table that changes changes its model.
Both models let several workers act on one row at once. A worker reads where the task stands, picks an event that the
table allows there, and writes by compare-and-set; between the two anything may happen. What must hold whoever is faster
stands in the models as assertions and as formulas of linear temporal logic.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from arap_service.domain import task
from arap_service.protocol.arap import TaskStatus
from mcp_gate import events, lifecycle

FOLDER: Final = Path(__file__).parents[1] / "tests" / "models"
_HEADER: Final = """\
/* Generated from the transition table by `python -m tools.models`; not to be edited.
 * {about}
 */
"""
Arrows = Mapping[tuple[str, str], str]


def service_model() -> str:
    """The life of an access request: one end, and an approval only with it."""
    arrows = {(_name(at.value), _name(on.__name__)): _name(to.value) for (at, on), to in task.TRANSITIONS.items()}
    ends = sorted({*arrows.values()} - {at for at, _ in arrows})
    start, approved = _name(TaskStatus.PENDING.value), _name(TaskStatus.APPROVED.value)
    effects = {on: "grants++" for (_, on), to in arrows.items() if to == approved}
    properties = [
        *(f"ltl {end.lower()}_is_final {{ [] ((state == {end}) -> [] (state == {end})) }}" for end in ends),
        "ltl at_most_one_approval { [] (grants <= 1) }",
        f"ltl approved_means_granted {{ [] ((grants == 1) <-> (state == {approved})) }}",
    ]
    return _model(
        "Several deciders, sweepers and cancellers on one task of the service.",
        arrows=arrows,
        start=start,
        counters=("grants",),
        effects=effects,
        properties=properties,
        workers=3,
    )


def gate_model() -> str:
    """The life of a gate task: a tool is called at most once, and never after an end that came first."""
    arrows = {(_name(at.value), _name(on.__name__)): _name(to.value) for (at, on), to in lifecycle.TRANSITIONS.items()}
    # The one arrow that is not in the table: at the bound of the chain, another denial ends the task.
    done = _name(lifecycle.Phase.DONE.value)
    claimed = _name(lifecycle.Phase.CLAIMED.value)
    arrows[_name(lifecycle.Phase.GRANTED.value), _name(events.ChainRequested.__name__) + "_AT_BOUND"] = done
    claim = _name(events.Allowed.__name__)
    properties = [
        f"ltl {done.lower()}_is_final {{ [] ((state == {done}) -> [] (state == {done})) }}",
        "ltl at_most_one_claim { [] (claims <= 1) }",
        "ltl at_most_one_call { [] (calls <= claims) }",
        f"ltl no_call_after_another_end {{ [] (((state == {done}) && (claims == 0)) -> [] (calls == 0)) }}",
        f"ltl claimed_tasks_only_end {{ [] ((state == {claimed}) -> [] ((state == {claimed}) || (state == {done}))) }}",
    ]
    return _model(
        "Several workers of one fleet, a client and the clocks on one task of the gate.",
        arrows=arrows,
        start=_name(lifecycle.Phase.INTENT.value),
        counters=("claims", "calls"),
        effects={claim: "claims++"},
        after={claim: "calls++"},
        properties=properties,
        workers=2,
    )


MODELS: Final = {"service_task": service_model, "gate_task": gate_model}


def _model(
    about: str,
    *,
    arrows: Arrows,
    start: str,
    counters: tuple[str, ...],
    effects: Mapping[str, str],
    properties: list[str],
    workers: int,
    after: Mapping[str, str] | None = None,
) -> str:
    """The text of a model; `effects` happen with an event's write, `after` what the worker does once it has won."""
    states = sorted({start, *(at for at, _ in arrows), *arrows.values()})
    ends = sorted({*arrows.values()} - {at for at, _ in arrows})
    return "\n".join(
        [
            _HEADER.format(about=about),
            f"mtype:state = {{ {', '.join(states)} }};",
            f"mtype:event = {{ {', '.join(sorted({on for _, on in arrows}))} }};",
            f"mtype:state state = {start};",
            *(f"byte {counter} = 0;" for counter in counters),
            "",
            f"active [{workers}] proctype worker() {{",
            "  mtype:state seen, next;",
            "  mtype:event happened;",
            "  bool won;",
            "  do",
            "  :: atomic {",
            "     seen = state;",
            "     if",
            *(f"     :: seen == {at} -> happened = {on}; next = {to}" for (at, on), to in sorted(arrows.items())),
            f"     :: {' || '.join(f'seen == {end}' for end in ends)} -> break",
            "     fi",
            "     };",
            "     atomic {",
            "       won = (state == seen);",
            "       if",
            "       :: won ->",
            "          state = next;",
            "          if",
            *(f"          :: happened == {on} -> {effect}" for on, effect in sorted(effects.items())),
            "          :: else -> skip",
            "          fi",
            "       :: else -> skip",
            "       fi",
            "     };",
            *(f"     if :: won && happened == {on} -> {act} :: else -> skip fi;" for on, act in (after or {}).items()),
            "     won = false; seen = 0; next = 0; happened = 0",
            "  od",
            "}",
            "",
            *properties,
            "",
        ]
    )


def _name(word: str) -> str:
    """A word of the tables as a name in the model: `BackendEnded` and `pending` become `BACKEND_ENDED`, `PENDING`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper()


def main() -> None:
    """Write every model."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, model in MODELS.items():
        (FOLDER / f"{name}.pml").write_text(model(), encoding="utf-8")


if __name__ == "__main__":
    main()

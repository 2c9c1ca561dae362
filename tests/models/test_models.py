"""Spin goes through every order in which workers can act on one task, in models made from the transition tables.

The models are those that the generator makes of the tables now; each formula in them is checked by itself, and each is
shown to be able to fail by a model whose workers write without comparing. Catalogue
ARS-55, PEP-55; design.md section 9.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests import legs
from tools.models import FOLDER, MODELS

DEPTH = "-m100000"
FORMULAS = [(name, formula) for name in MODELS for formula in re.findall(r"^ltl (\w+)", MODELS[name](), re.MULTILINE)]


def checker(folder: Path, text: str, *options: str) -> Path:
    """The program that Spin makes of a model; with `-DNOCLAIM` it looks for workers that are stuck, not at formulas."""
    legs.need(legs.SPIN)
    (folder / "model.pml").write_text(text, encoding="utf-8")
    for command in (["spin", "-a", "model.pml"], ["gcc", "-w", *options, "-o", "pan", "pan.c"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    return folder / "pan"


def faults(program: Path, *options: str) -> int:
    """How many faults a complete search finds."""
    said = subprocess.run(
        [program, DEPTH, *options], cwd=program.parent, check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert "max search depth too small" not in said
    found = re.search(r"errors: (\d+)", said)
    assert found, said
    return int(found[1])


@pytest.mark.parametrize("name", MODELS)
def test_models_are_those_of_the_tables(name: str) -> None:
    assert (FOLDER / f"{name}.pml").read_text(encoding="utf-8") == MODELS[name](), "run `python -m tools.models`"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.requirement("ARS-55")
def test_every_order_of_events_keeps_every_promise_and_can_come_to_an_end(name: str, tmp_path: Path) -> None:
    program = checker(tmp_path, MODELS[name]())
    assert {formula: faults(program, "-a", "-N", formula) for of, formula in FORMULAS if of == name} == {
        formula: 0 for of, formula in FORMULAS if of == name
    }
    assert faults(checker(tmp_path, MODELS[name](), "-DNOCLAIM")) == 0


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("service_task", "approved_is_final"),
        ("service_task", "at_most_one_approval"),
        ("gate_task", "done_is_final"),
        ("gate_task", "at_most_one_claim"),
        ("gate_task", "claimed_tasks_only_end"),
    ],
)
def test_workers_that_write_without_comparing_break_the_promises(name: str, formula: str, tmp_path: Path) -> None:
    careless = MODELS[name]().replace("won = (state == seen);", "won = true;")
    assert careless != MODELS[name]()
    assert faults(checker(tmp_path, careless), "-a", "-N", formula) > 0


def test_a_phase_without_a_way_out_is_found(tmp_path: Path) -> None:
    stuck = re.sub(r"^ +:: seen == WAITING .*\n", "", MODELS["gate_task"](), flags=re.MULTILINE)
    assert faults(checker(tmp_path, stuck, "-DNOCLAIM")) > 0

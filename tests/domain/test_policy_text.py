"""Strict YAML: what JSON cannot say, or what two readers could read differently, is a fault with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.domain.policy_text import PolicyProblem, read_text

BILLION = "a: &a [x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_values_and_lines() -> None:
    text = read_text(
        "a: 1\nb:\n  - x\n  - {c/d: true}\ne: null\nf: 1.5\n2030: no\n".replace("2030: no\n", "'2030': 2030-01-01\n")
    )
    assert text.problems == []
    assert text.value == {"a": 1, "b": ["x", {"c/d": True}], "e": None, "f": 1.5, "2030": "2030-01-01"}
    assert text.lines == {"": 1, "/a": 1, "/b": 2, "/b/0": 3, "/b/1": 4, "/b/1/c~1d": 4, "/e": 5, "/f": 6, "/2030": 7}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", PolicyProblem(3, "/a", "the key stands here twice")),
        ("x:\n  a: deny\n  a: permit\n", PolicyProblem(3, "/x/a", "the key stands here twice")),
        ("1: a\n", PolicyProblem(1, "", "a key must be text: put it in quotes")),
        ("on: a\n", PolicyProblem(1, "", "a key must be text: put it in quotes")),
        ("? [a]\n: b\n", PolicyProblem(1, "", "a key must be text: put it in quotes")),
        ("<<: {a: 1}\n", PolicyProblem(1, "", "a key must be text: put it in quotes")),
        ("a: !!binary aGk=\n", PolicyProblem(1, "/a", "a value of this kind has no place here")),
        ("a: !!python/object:os.system x\n", PolicyProblem(1, "/a", "a value of this kind has no place here")),
        ("a: .nan\n", PolicyProblem(1, "/a", "a number must be finite")),
        ("a: 0b_\n", PolicyProblem(1, "/a", "no number or constant can be read here")),
        ("a: !!bool maybe\n", PolicyProblem(1, "/a", "no number or constant can be read here")),
        ("a: !!int ten\n", PolicyProblem(1, "/a", "no number or constant can be read here")),
        ("a: !!float ten\n", PolicyProblem(1, "/a", "no number or constant can be read here")),
        ('a:\n  - "b\\0c"\n', PolicyProblem(2, "/a/0", "a text must hold neither NUL nor half a character")),
        ('a: "\\ud800"\n', PolicyProblem(1, "/a", "a text must hold neither NUL nor half a character")),
        ('"a\\0": b\n', PolicyProblem(1, "", "a text must hold neither NUL nor half a character")),
        ("a: -.inf\n", PolicyProblem(1, "/a", "a number must be finite")),
        ("a: 1.0e+999\n", PolicyProblem(1, "/a", "a number must be finite")),
        ("\n\na: [\n", PolicyProblem(4, "", "not valid YAML: expected the node content, but found '<stream end>'")),
        ("a: \x07\n", PolicyProblem(1, "", "not valid YAML: unreadable characters")),
        ("&a [*a]\n", PolicyProblem(1, "", "not valid YAML: nested too deeply or too large")),
        (BILLION, PolicyProblem(1, "", "not valid YAML: nested too deeply or too large")),
        ("[" * 2000, PolicyProblem(1, "", "nested too deeply")),
        ("# nothing\n", PolicyProblem(1, "", "the file is empty")),
    ],
)
def test_a_fault_names_its_line(source: str, problem: PolicyProblem) -> None:
    assert read_text(source).problems == [problem]


def test_an_alias_stands_for_what_it_names() -> None:
    assert read_text("a: &x {b: 1}\nc: *x\n").value == {"a": {"b": 1}, "c": {"b": 1}}


def test_a_fault_is_reported_on_the_nearest_line() -> None:
    text = read_text("a:\n  b: 1\n")
    text.report("missing", "a", "c", "d")
    text.report("missing")
    assert text.problems == [PolicyProblem(1, "/a/c/d", "missing"), PolicyProblem(1, "", "missing")]


@given(st.text(max_size=60))
def test_any_text_is_read_or_faulted_and_never_raises(source: str) -> None:
    text = read_text(source)
    assert text.problems or text.lines

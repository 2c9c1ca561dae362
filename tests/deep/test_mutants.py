"""The small faults of `make deep mutation` are what they say: Python, in which one place differs."""

import ast

import pytest

from tests.deep.mutants import mutants_of


def texts(source: str) -> set[str]:
    """The module with each fault in it in turn."""
    return {mutant.applied(source) for mutant in mutants_of("module.py", source)}


@pytest.mark.parametrize(
    ("source", "faulty"),
    [
        ("x = a < b", {"x = (a <= b)", "x = (a >= b)"}),
        ("x = a <= b", {"x = (a < b)", "x = (a > b)"}),
        ("x = a is None", {"x = (a is not None)"}),
        ("x = a in b", {"x = (a not in b)"}),
        ("x = a and b", {"x = (a or b)", "x = (a)", "x = (b)"}),
        ("x = not a", {"x = (a)"}),
        ("x = a + b", {"x = (a - b)"}),
        ("x = True", {"x = False"}),
        ("x = 3", {"x = 4"}),
        ("x = 'a'", {"x = 'aX'"}),
        ("x = b'a'", {"x = b'aX'"}),
        ("x = min(a)", {"x = max(a)"}),
        ("x = {a, b}", {"x = ({b})", "x = ({a})"}),
        ("x = (a, b)", {"x = ((b,))", "x = ((a,))"}),
        ("x = {a: b, **c}", {"x = ({**c})", "x = ({a: b})"}),
        ("x = f(a, b=c)", {"x = (f(a))"}),
        ("x = a if b else c", {"x = a if (not (b)) else c"}),
        ("x = [a for a in b if c]", {"x = [a for a in b if (not (c))]"}),
        ("if a:\n    b()", {"if (not (a)):\n    b()", "if a:\n    pass"}),
        ("if a:\n    b += c", {"if (not (a)):\n    b += c", "if a:\n    pass"}),
        ("for a in b:\n    continue", {"for a in b:\n    break"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("def f(a=1):\n    raise a", {"def f(a=2):\n    raise a", "def f(a=1):\n    pass"}),
        ("x = A.ONE\ny = A.TWO", {"x = A.TWO\ny = A.TWO", "x = A.ONE\ny = A.ONE"}),
        ("x = isinstance(a, One | Other)", {"x = isinstance(a, (One))"}),
        (
            "match a:\n    case B():\n        c\n    case _ if d:\n        e",
            {
                "match a:\n    case 'no such case':\n        c\n    case _ if d:\n        e",
                "match a:\n    case B():\n        c\n    case _ if False:\n        e",
                "match a:\n    case B():\n        c\n    case _ if (not (d)):\n        e",
            },
        ),
    ],
)  # fmt: skip
def test_each_place_is_changed_in_each_way(source: str, faulty: set[str]) -> None:
    assert texts(source) == faulty
    for text in faulty:
        ast.parse(text)


@pytest.mark.parametrize(
    "source",
    [
        '"""Words."""',
        'def f(a: "A" = b) -> "C":\n    """Words."""',
        "x: Literal[1, 2]",
        "X = One | Other | None",
        "X = Literal['a', 'b']",
        "T = NewType('T', str)",
        "x = f'a {b!r} c'",
        "x = Field(description='words', max_length=3)",
        "from a import b, c",
        "@decorated(a=1)\nclass C(B):\n    x: int",
        "x = Type(a=b)",
        "return_none = None",
    ],
)
def test_what_no_test_is_meant_to_notice_is_left_alone(source: str) -> None:
    assert texts(source) == set()


def test_the_words_of_an_exception_stay_and_the_rest_of_it_is_changed() -> None:
    source = "raise Refused('words', a or b)"
    assert texts(source) == {
        "pass",
        *(f"raise Refused('words', {changed})" for changed in ("(a and b)", "(a)", "(b)")),
    }


def test_a_fault_is_told_by_its_line_and_put_in_at_its_bytes() -> None:
    """Letters that take several bytes stand before it, and the line stands for it when the file grows."""
    source = "# ä\nx = 'ö', a < b\n"
    found = [mutant for mutant in mutants_of("module.py", source) if mutant.kind == "comparison"]
    assert [(m.line, m.code, m.old, m.new) for m in found] == [
        (2, "x = 'ö', a < b", "a < b", "(a <= b)"),
        (2, "x = 'ö', a < b", "a < b", "(a >= b)"),
    ]
    assert found[0].applied(source) == "# ä\nx = 'ö', (a <= b)\n"

"""Calls of an expression that will fail whatever the data are, found before the expression is put in force.

The engine checks types when it compiles, but reads a pattern, a date or a number in quotes only when it evaluates; a
rule with a misspelt one would answer every question with an error. Only calls whose argument is one literal are found
here. CEL specification, "Lexis" and "List of Standard Definitions".
"""

import re
from collections.abc import Iterator
from typing import Final

from arap_service.protocol.expressions import Environment, ExpressionError, ExpressionInvalid

_TOKEN: Final = re.compile(
    r"""
    (?P<space> \s+ | //[^\n]* )
    | (?P<text> (?: [rR][bB]? | [bB][rR] ) (?: \"\"\".*?\"\"\" | \'\'\'.*?\'\'\' | "[^"\n]*" | '[^'\n]*' )
        | [bB]? (?: \"\"\"(?:\\.|[^\\])*?\"\"\" | \'\'\'(?:\\.|[^\\])*?\'\'\'
            | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ) )
    | (?P<word> [A-Za-z_]\w* )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_READERS: Final = frozenset({"timestamp", "duration", "int", "uint", "double", "bool"})
_NO_VARIABLES: Final = Environment({})


def unusable_calls(source: str) -> Iterator[str]:
    """The calls in a compiled expression that cannot succeed, each by its name and the literal."""
    opened: list[str] = []
    seen: list[tuple[str, str]] = []
    for found in _TOKEN.finditer(source):
        kind, text = str(found.lastgroup), found.group()
        if kind == "space":
            continue
        if text == "(":
            opened.append(seen[-1][1] if seen and seen[-1][0] == "word" else "")
        elif text == ")" and opened:
            name = opened.pop()
            if _reads_literal(name, seen) and _fails(name, seen[-1][1]):
                yield f"{name}({seen[-1][1]})"
        seen.append((kind, text))


def _reads_literal(name: str, seen: list[tuple[str, str]]) -> bool:
    """Whether what closes after `seen` is a call of `name` whose last argument is a literal that it has to read."""
    if len(seen) < 2 or seen[-1][0] != "text":
        return False
    before = seen[-2][1]
    return before in {"(", ","} if name == "matches" else name in _READERS and before == "("


def _fails(name: str, literal: str) -> bool:
    call = f'"".matches({literal})' if name == "matches" else f"{name}({literal})"
    try:
        _NO_VARIABLES.compile_bool(f"{call} == {call}").holds({})
    except ExpressionInvalid:
        return False  # the literal is none by itself; the whole was compiled, so it means something else
    except ExpressionError:
        return True
    return False

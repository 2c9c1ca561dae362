"""Small faults that are put into a module by rule: which there are, and the text of the module with one of them in it.

Tables and constants of a module are changed as well as its functions, since the rules of a state machine stand in its
table; the tools that are published for this change functions only, or operators and numbers only. Left alone is what no
test is meant to notice: documentation, annotations, decorators, and the words of an exception.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

_COMPARED: Final[Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLED: Final[Mapping[str, str]] = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Their strings are words for people or for the type checker.
_NOT_TRIED: Final = frozenset({"NewType", "TypeVar", "Field"})
_TYPES: Final = frozenset({"Literal", "Annotated"})

Change = tuple[ast.expr | ast.stmt | ast.pattern, str, str]
"""What is replaced, which kind of fault it is, and the text that takes its place."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: the bytes from `start` to `end` of `file`, which are `old`, become `new`; `code` is their line."""

    file: str
    line: int
    kind: str
    code: str
    old: str
    new: str
    start: int
    end: int

    def applied(self, source: str) -> str:
        """The text of the file with the fault in it."""
        text = source.encode()
        return (text[: self.start] + self.new.encode() + text[self.end :]).decode()


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Every fault that the rules know for a module, in the order of its lines."""
    tree, text = ast.parse(source), source.encode()
    lines = text.splitlines(keepends=True)
    starts = [0, *accumulate(len(line) for line in lines)]
    found = set()
    for node, kind, new in _changes(tree, _members(tree)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
        code, old = lines[node.lineno - 1].decode().strip(), " ".join(text[start:end].decode().split())
        found.add(Mutant(file, node.lineno, kind, code, old, new, start, end))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.new))


def _members(tree: ast.AST) -> Mapping[str, list[str]]:
    """The members of enumerations that the module speaks of, by the name of the enumeration."""
    found = defaultdict[str, set[str]](set)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=member) if owner[0].isupper() and member.isupper():
                found[owner].add(member)
    return {owner: sorted(members) for owner, members in found.items()}


def _changes(node: ast.AST, members: Mapping[str, list[str]]) -> Iterator[Change]:
    yield from _of_statement(node)
    yield from _of_expression(node)
    yield from _of_display(node)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        known = members.get(node.value.id, [])
        if node.attr in known and len(known) > 1:
            other = known[(known.index(node.attr) + 1) % len(known)]
            yield node, "member", f"{node.value.id}.{other}"
    for child in _children(node):
        yield from _changes(child, members)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node in which a fault would mean something."""
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.arguments():
            if isinstance(node, ast.arguments):
                yield from (default for default in (*node.defaults, *node.kw_defaults) if default is not None)
        case ast.Raise(exc=ast.Call(func=func, args=args)):
            yield func
            yield from (arg for arg in args if not isinstance(arg, ast.Constant))
        case ast.Call(func=ast.Name(id=name)) if name in _NOT_TRIED:
            return
        case ast.Subscript(value=ast.Name(id=name)) if name in _TYPES:
            return
        case ast.AnnAssign(value=value):
            yield from () if value is None else (value,)
        case ast.Assign(value=value) if _is_type(value):
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.args
            yield from _body(node.body)
        case ast.Module() | ast.ClassDef():
            yield from _body(node.body)
        case _:
            yield from ast.iter_child_nodes(node)


def _body(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    yield from (each for each in statements if not _is_words(each))


def _is_words(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_type(value: ast.expr) -> bool:
    """Whether it is a union of types, such as `One | Other`."""
    match value:
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return all(_is_type(side) for side in (left, right))
        case ast.Name(id=name):
            return name[0].isupper() and not name.isupper()
        case ast.Constant(value=None):
            return True
        case _:
            return False


def _of_statement(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield node, "statement", "pass"
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield node, "return", "return None"
        case ast.Break():
            yield node, "statement", "continue"
        case ast.Continue():
            yield node, "statement", "break"
        case ast.If(test=test) | ast.IfExp(test=test):
            yield test, "condition", f"(not ({ast.unparse(test)}))"
        case ast.Match(cases=cases) if len(cases) > 1:
            yield from (_without(case) for case in cases if not _is_never(case))
        case ast.match_case(guard=ast.expr() as guard):
            yield guard, "condition", f"(not ({ast.unparse(guard)}))"
        case ast.comprehension(ifs=tests):
            yield from ((test, "condition", f"(not ({ast.unparse(test)}))") for test in tests)


def _without(case: ast.match_case) -> Change:
    if case.guard is not None:
        return case.guard, "case", "False"
    return case.pattern, "case", "'no such case'"


def _is_never(case: ast.match_case) -> bool:
    """Whether only the type checker needs the case."""
    return ast.unparse(case.body[0]).startswith("assert_never(")


def _of_expression(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Constant) and (new := _other(node.value)) is not None:
        yield node, "constant", new
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            for place, known in enumerate(ops):
                for other in _COMPARED[type(known)]:
                    changed = [*ops[:place], other(), *ops[place + 1 :]]
                    yield node, "comparison", f"({ast.unparse(ast.Compare(left, changed, others))})"
        case ast.BoolOp():
            yield from _of_both(node)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield node, "operand", f"({ast.unparse(operand)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTED and not _is_type(node):
            yield node, "arithmetic", f"({ast.unparse(ast.BinOp(left, _COMPUTED[type(op)](), right))})"
        case ast.BinOp(left=left) if _is_type(node):
            yield node, "operand", f"({ast.unparse(left)})"
        case ast.Call(func=ast.Name(id=name) as func) if name in _CALLED:
            yield func, "function", _CALLED[name]


def _of_both(node: ast.BoolOp) -> Iterator[Change]:
    """With `and` for `or`, and without each operand."""
    swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield node, "and-or", f"({ast.unparse(ast.BoolOp(swapped, node.values))})"
    for place in range(len(node.values)):
        left_over = [*node.values[:place], *node.values[place + 1 :]]
        whole = left_over[0] if len(left_over) == 1 else ast.BoolOp(node.op, left_over)
        yield node, "operand", f"({ast.unparse(whole)})"


def _other(value: object) -> str | None:
    """Another constant of the same type; None if there is none."""
    match value:
        case bool():
            return repr(not value)
        case int() | float():
            return repr(value + 1)
        case str():
            return repr(f"{value}X")
        case bytes():
            return repr(value + b"X")
        case _:
            return None


def _of_display(node: ast.AST) -> Iterator[Change]:
    """Without one of several elements of a table, or of the named arguments of a function."""
    match node:
        case ast.Dict(keys=keys, values=values) if len(values) > 1:
            for place in range(len(values)):
                rest = ast.Dict([*keys[:place], *keys[place + 1 :]], [*values[:place], *values[place + 1 :]])
                yield node, "element", f"({ast.unparse(rest)})"
        case ast.Set(elts=elts) | ast.List(elts=elts, ctx=ast.Load()) | ast.Tuple(elts=elts, ctx=ast.Load()) if (
            len(elts) > 1
        ):
            for place in range(len(elts)):
                left_over = [*elts[:place], *elts[place + 1 :]]
                rest_of = ast.Set(left_over) if isinstance(node, ast.Set) else type(node)(left_over, ast.Load())
                yield node, "element", f"({ast.unparse(rest_of)})"
        case ast.Call(func=func, args=args, keywords=keywords) if ast.unparse(func).split(".")[-1][0].islower():
            for place in range(len(keywords)):
                fewer = ast.Call(func, args, [*keywords[:place], *keywords[place + 1 :]])
                yield node, "argument", f"({ast.unparse(fewer)})"

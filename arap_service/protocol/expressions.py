"""Compiles and evaluates the expressions of rules and mappings (CEL with optional selection).

Decides nothing by itself: an expression holds, doesn't hold, or fails, and a failure is never a value. The engine
reports failures in three ways: an error value that is truthy to Python, `RuntimeError`, `TypeError`. It crashes the
process when a map that contains an optional is converted whole, so results are taken apart value by value; and it
reads some data as other data, so those are refused before it sees them.
Sources: COAZ framework "The Expression Contract", CEL specification.
"""

import math
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar, cast

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional

from arap_service.protocol.canonical import JsonValue

_TYPES: Final[Mapping[str, cel.Type]] = {
    "bool": cel.Type.BOOL,
    "double": cel.Type.DOUBLE,
    "dyn": cel.Type.DYN,
    "int": cel.Type.INT,
    "list": cel.Type.List(cel.Type.DYN),
    "map": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
    "string": cel.Type.STRING,
    "timestamp": cel.Type.TIMESTAMP,
}
_INT64: Final = 2**63
_DEEPEST: Final = 256
_FAILURES: Final = (RuntimeError, TypeError, ValueError)
_CONTAINERS: Final = (dict, list)
_AS_IS: Final = frozenset({"BOOL", "INT", "UINT", "STRING", "NULL"})
_POSITION: Final = re.compile(r"<input>:(\d+):(\d+): (.*)")

Outcome = TypeVar("Outcome")


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""What an expression yields to leave its field out; not the same as None, which is JSON null."""


class ExpressionInvalid(ValueError):
    """An expression that must not be loaded; `line` and `column` count from 1 and are 0 when the fault has no place."""

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


class ExpressionError(Exception):
    """An evaluation that gave no usable value; neither message nor `code` repeats anything of the input.

    Codes: `number` (an integer beyond 64 bits), `text` (one with a NUL), `depth` (nested too deeply), `failed` (the
    engine's own errors), `result` (a value that isn't JSON, or not a boolean where one is needed).
    """

    def __init__(self, code: str) -> None:
        super().__init__(f"the expression has no value: {code}")
        self.code = code


class Facts:
    """Values of the variables, checked once for any number of expressions of one environment."""

    __slots__ = ("activation",)

    def __init__(self, activation: cel.Activation) -> None:
        self.activation = activation


Data: TypeAlias = "Mapping[str, Any] | Facts"


class Environment:
    """The variables that expressions may use, by name and type; anything else is refused when compiled.

    Types: bool, double, dyn, int, list, map (with text keys), string, timestamp.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._env = cel.NewEnv(
            variables={name: _TYPES[type_name] for name, type_name in variables.items()},
            extensions=[ext_optional.ExtOptional()],
        )

    def bind(self, data: Mapping[str, Any]) -> Facts:
        """The data, ready for several expressions in one thread; they are converted on use and must not change before.

        Raises:
            ExpressionError: for data that the engine cannot hold.
        """
        _check_holdable(data)
        return Facts(_guarded(lambda: self._env.Activation(dict(data))))

    def compile_bool(self, source: str) -> "BoolExpression":
        """An expression whose type is boolean, known before any data is.

        Raises:
            ExpressionInvalid: for a syntax or type error, and for an expression that might yield something else.
        """
        expression = self._compile(source)
        if expression.return_type() != cel.Type.BOOL:
            raise ExpressionInvalid(
                "the expression isn't known to be true or false; compare it, as in `context.flag == true`"
            )
        return BoolExpression(self, expression)

    def compile_value(self, source: str) -> "ValueExpression":
        """An expression for one JSON value, or for none where it selects with `.?`.

        Raises:
            ExpressionInvalid: for a syntax or type error.
        """
        is_optional = self._compile(source).return_type().name().startswith("optional_type")
        # The line break ends a comment at the end of the source.
        return ValueExpression(self, self._compile(f"{{{'?' if is_optional else ''}'v': ({source}\n)}}"))

    def _compile(self, source: str) -> cel.Expression:
        try:
            return self._env.compile(source)
        except TypeError:
            # The engine takes no text with an unpaired surrogate.
            raise ExpressionInvalid("the expression isn't proper text") from None
        except RuntimeError as fault:
            found = _POSITION.search(str(fault))
            if found is None:
                raise ExpressionInvalid("the expression is too long or too deeply nested") from None
            raise ExpressionInvalid(found[3], line=int(found[1]), column=int(found[2])) from None

    def evaluate(self, expression: cel.Expression, data: Data) -> cel.Value:
        """The engine's value, of any type but error; for the expressions of this module."""
        facts = data if isinstance(data, Facts) else self.bind(data)
        value = _guarded(lambda: expression.eval(facts.activation))
        if value.type() == cel.Type.ERROR:
            raise ExpressionError("failed")
        return value


class BoolExpression:
    """A condition; made by `Environment.compile_bool`."""

    __slots__ = ("_environment", "_expression")

    def __init__(self, environment: Environment, expression: cel.Expression) -> None:
        self._environment = environment
        self._expression = expression

    def holds(self, data: Data) -> bool:
        """Whether the condition is true of the data.

        Raises:
            ExpressionError: when that cannot be told, which the caller must take for a denial.
        """
        facts = data if isinstance(data, Facts) else self._environment.bind(data)
        try:
            value = self._expression.eval(facts.activation)
            held = value.value()
        except _FAILURES:
            raise ExpressionError("failed") from None
        # Only a boolean is one of these two objects: an error's value is its text. Types are slow to compare.
        if held is True or held is False:
            return held
        raise ExpressionError("failed" if value.type() == cel.Type.ERROR else "result")


class ValueExpression:
    """An expression for a value; made by `Environment.compile_value`."""

    __slots__ = ("_environment", "_expression")

    def __init__(self, environment: Environment, expression: cel.Expression) -> None:
        self._environment = environment
        self._expression = expression

    def evaluate(self, data: Data) -> JsonValue | Absent:
        """The JSON value, or `ABSENT`.

        Raises:
            ExpressionError: when there is no value, or one that JSON cannot carry.
        """
        members = self._environment.evaluate(self._expression, data).value()
        return _json(members["v"]) if "v" in members else ABSENT


def _json(value: cel.Value) -> JsonValue:
    kind = value.type().name()
    if kind == "ERROR":
        # So shows itself an optional inside a value; to convert it would end the process.
        raise ExpressionError("result")
    plain: Any = value.value()
    if kind in _AS_IS or (kind == "DOUBLE" and math.isfinite(plain)):
        return cast("JsonValue", plain)
    if kind.startswith("LIST"):
        return [_json(element) for element in plain]
    if kind.startswith("MAP") and all(isinstance(name, str) for name in plain):
        return {name: _json(element) for name, element in plain.items()}
    # A moment, a duration, bytes, a type, an infinity.
    raise ExpressionError("result")


def _guarded(work: Callable[[], Outcome]) -> Outcome:
    try:
        return work()
    except _FAILURES:
        raise ExpressionError("failed") from None


def _check_holdable(data: Mapping[str, Any]) -> None:
    """Refuse what the engine would take for something else, or crash on, instead of refusing it itself."""
    level: list[Any] = [data]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for parent in level:
            for value in (*parent, *parent.values()) if isinstance(parent, Mapping) else parent:
                if type(value) is str or isinstance(value, str):  # this runs for every value of every evaluation
                    # The engine reads a text up to the first NUL, and "alice\0x" would be "alice" to a rule.
                    if "\0" in value:
                        raise ExpressionError("text")
                elif isinstance(value, _CONTAINERS):
                    below.append(value)
                elif isinstance(value, int) and not -_INT64 <= value < _INT64:
                    # The engine takes 2^63 to 2^64-1 for unsigned numbers.
                    raise ExpressionError("number")
        if not below:
            return
        level = below
    raise ExpressionError("depth")

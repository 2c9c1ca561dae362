"""Rules of this repository that no ready-made linter knows, as functions from a file to its offences.

Each rule takes the path from the top of the repository and the text, and yields one sentence per offence.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LONGEST_FILE: Final = 400
LONGEST_FUNCTION: Final = 50

Rule = Callable[[PurePosixPath, str], Iterator[str]]

# Pieces, so that this file does not break its own rules.
FOLDERS: Final = "work|tmp|root|home"
MACHINE_PATH: Final = re.compile(rf"(?<![\w.])/(?:{FOLDERS})/[\w.-]+")
REGISTRY: Final = re.compile(
    "|".join(
        re.escape(".".join(host))
        for host in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"))
    )
)
UNFINISHED: Final = re.compile(
    "|".join((rf"\b(?:{'TO'}DO|{'FIX'}ME|{'XX'}X|{'HA'}CK)\b", "NotImplemented" + "Error", "pragma: " + "no cover"))
)
MAY_SLEEP: Final = frozenset({"tests/patience.py"})
MAY_COMMIT: Final = frozenset({"arap_service/store/database.py", "mcp_gate/store.py"})
MAY_ASK_THE_TIME: Final = frozenset({"arap_service/app.py", "arap_service/cli.py", "mcp_gate/cli.py"})
CLOCKS: Final = frozenset({("datetime", "now"), ("datetime", "utcnow"), ("date", "today"), ("time", "time")})
SLEEPERS: Final = frozenset({"time", "anyio", "asyncio", "trio"})
OURS: Final = ("arap_service", "blackbox_kit", "mcp_gate")


def tracked() -> list[PurePosixPath]:
    """Every file under version control that still exists."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [PurePosixPath(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]


def no_machine_path(path: PurePosixPath, text: str) -> Iterator[str]:
    """No absolute path of somebody's machine."""
    for match in MACHINE_PATH.finditer(text):
        yield f"{_at(path, text, match.start())}: absolute path {match[0]}"


def no_registry_host(path: PurePosixPath, text: str) -> Iterator[str]:
    """No host of a package registry: where packages come from is for the user's configuration to say."""
    for match in REGISTRY.finditer(text):
        yield f"{_at(path, text, match.start())}: registry host {match[0]}"


def nothing_unfinished(path: PurePosixPath, text: str) -> Iterator[str]:
    """No reminder, no stub, no line hidden from coverage."""
    for match in UNFINISHED.finditer(text):
        yield f"{_at(path, text, match.start())}: {match[0]}"


def short_files_and_functions(path: PurePosixPath, text: str) -> Iterator[str]:
    """Our packages keep files under 400 lines and functions under 50."""
    if path.parts[0] not in OURS or path.suffix != ".py":
        return
    lines = text.count("\n")
    if lines >= LONGEST_FILE:
        yield f"{path}: {lines} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            if length >= LONGEST_FUNCTION:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines"


def no_sleep_in_tests(path: PurePosixPath, text: str) -> Iterator[str]:
    """A test waits for an event; giving way with `sleep(0)` is no waiting, and other processes are looked at again."""
    if path.parts[0] != "tests" or path.suffix != ".py" or str(path) in MAY_SLEEP:
        return
    for call in _calls(text):
        function = call.func
        slept = isinstance(function, ast.Attribute) and function.attr == "sleep" and _name(function.value) in SLEEPERS
        bare = isinstance(function, ast.Name) and function.id == "sleep"
        gives_way = len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
        if (slept or bare) and not gives_way:
            yield f"{path}:{call.lineno}: sleeps"


def one_place_commits(path: PurePosixPath, text: str) -> Iterator[str]:
    """The unit of work commits, nobody else."""
    if path.parts[0] not in OURS or path.suffix != ".py" or str(path) in MAY_COMMIT:
        return
    for call in _calls(text):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "commit":
            yield f"{path}:{call.lineno}: commits outside the unit of work"


def the_clock_is_an_argument(path: PurePosixPath, text: str) -> Iterator[str]:
    """Nobody asks for the time but the commands, and functions that are a clock and nothing else."""
    if path.parts[0] not in OURS or path.suffix != ".py" or str(path) in MAY_ASK_THE_TIME:
        return
    clocks = set(_only_expressions(text))
    for call in _calls(text):
        asks = isinstance(call.func, ast.Attribute) and (_name(call.func.value), call.func.attr) in CLOCKS
        if asks and ast.dump(call, include_attributes=True) not in clocks:
            yield f"{path}:{call.lineno}: asks for the time instead of being told"


def tables_stay_in_the_store(path: PurePosixPath, text: str) -> Iterator[str]:
    """SQLModel defines tables in `store/`; elsewhere in the service only its session and query words are used."""
    if path.parts[0] not in OURS or path.suffix != ".py" or path.is_relative_to("arap_service/store"):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "sqlmodel":
            for alias in node.names:
                if alias.name in {"SQLModel", "Field", "Relationship"}:
                    yield f"{path}:{node.lineno}: defines tables outside the store"


def no_skipped_test(path: PurePosixPath, text: str) -> Iterator[str]:
    """No test is marked to be left out or to fail; what a machine lacks is decided in `legs.py`."""
    if path.parts[0] != "tests" or path.suffix != ".py" or path.name in {"legs.py", "test_legs.py"}:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in {"skip", "skipif", "xfail", "importorskip"}:
            owner = node.value
            marked = isinstance(owner, ast.Attribute) and owner.attr == "mark"
            if marked or _name(owner) == "pytest":
                yield f"{path}:{node.lineno}: {node.attr}"


def functions_not_classes(path: PurePosixPath, text: str) -> Iterator[str]:
    """Tests are functions named as sentences."""
    if path.parts[0] != "tests" or not path.name.startswith("test_"):
        return
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test") and _has_tests(node):
            yield f"{path}:{node.lineno}: class {node.name}"


RULES: Final[tuple[Rule, ...]] = (
    no_machine_path,
    no_registry_host,
    nothing_unfinished,
    short_files_and_functions,
    no_sleep_in_tests,
    one_place_commits,
    the_clock_is_an_argument,
    tables_stay_in_the_store,
    no_skipped_test,
    functions_not_classes,
)


def _calls(text: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))


def _only_expressions(text: str) -> Iterator[str]:
    """What lambdas, and functions of one statement, return."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Lambda):
            yield ast.dump(node.body, include_attributes=True)
        elif isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
                yield ast.dump(body[0].value, include_attributes=True)


def _name(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _has_tests(node: ast.ClassDef) -> bool:
    return any(isinstance(item, ast.FunctionDef) and item.name.startswith("test") for item in node.body)


def _at(path: PurePosixPath, text: str, position: int) -> str:
    return f"{path}:{text.count(chr(10), 0, position) + 1}"

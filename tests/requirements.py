"""The catalogue of requirements, which of them a test proves, and which are open.

A test claims ids with `@pytest.mark.requirement("ARS-20")`. The claims are read from the source of the tests, so
that the answer does not depend on which tests ran; `test_requirements.py` holds both directions together.
"""

import argparse
import ast
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.requirements_open import OPEN

TESTS: Final = Path(__file__).parent
CATALOGUE: Final = TESTS / "requirements.json"
OPEN_FILE: Final = TESTS / "requirements_open.py"
# Decisions where the sources contradict each other: a test may name one, but they are no requirements of their own.
DECISIONS: Final = frozenset(f"X-{number:02}" for number in range(1, 43))


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row of the catalogue: `level` is MUST, SHOULD or MAY; `test` says how the rule is to be shown."""

    id: str
    group: str
    level: str
    our_decision: bool
    rule: str
    source: str
    test: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One id that one test says it proves; `test` is the name of the test, or of the file if all its tests say so."""

    id: str
    path: str
    test: str


class BadClaim(ValueError):
    """A mark that cannot be counted: it names no literal ids, or stands on something that is not a test."""


def catalogue() -> tuple[Requirement, ...]:
    """All requirements, in the order of the catalogue."""
    return tuple(Requirement(**row) for row in json.loads(CATALOGUE.read_text(encoding="utf-8")))


def claims(folder: Path = TESTS) -> list[Claim]:
    """Every claim in the test files under `folder`.

    Raises:
        BadClaim: with file and line, for a mark that cannot be counted.
    """
    return [claim for path in sorted(folder.rglob("test_*.py")) for claim in _claims_in(path, folder)]


def _claims_in(path: Path, folder: Path) -> Iterator[Claim]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    shown = path.relative_to(folder.parent).as_posix()
    owners: dict[ast.Call, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                owners.update((call, node.name) for call in _marks(decorator))
    for call in _marks(tree):
        where = f"{shown}:{call.lineno}"
        owner = owners.get(call, path.stem)
        if not owner.startswith("test_"):
            raise BadClaim(f"{where}: {owner} is not a test")
        if not call.args or call.keywords:
            raise BadClaim(f"{where}: a claim is a list of ids")
        for argument in call.args:
            if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                raise BadClaim(f"{where}: an id is written out, not computed")
            yield Claim(argument.value, shown, owner)


def _marks(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if name == "requirement":
                yield node


def problems(
    requirements: Sequence[Requirement], claimed: Sequence[Claim], still_open: Mapping[str, str]
) -> Iterator[str]:
    """What is wrong between catalogue, claims and open list, one sentence each; nothing when all agree."""
    known = {requirement.id for requirement in requirements}
    tested = {claim.id for claim in claimed}
    if len(known) != len(requirements):
        yield "the catalogue names an id twice"
    for claim in claimed:
        if claim.id not in known | DECISIONS:
            yield f"{claim.path}: {claim.test} claims {claim.id}, which is not in the catalogue"
    for id_ in still_open:
        if id_ not in known:
            yield f"{id_} is open, but not in the catalogue"
    for id_ in sorted(known - tested - still_open.keys()):
        yield f"{id_} has neither a test nor a reason to be open"
    for id_ in sorted(tested & still_open.keys()):
        yield f"{id_} is tested, but still listed as open; run: python -m tests.requirements --sync"
    for id_, reason in still_open.items():
        if len(reason) < 15 or "no time" in reason.lower():
            yield f"{id_} is open for a reason that explains nothing"


def render_open(still_open: Mapping[str, str]) -> str:
    """The source of `requirements_open.py` for these ids and reasons."""
    rows = "".join(f"    {json.dumps(id_)}: {json.dumps(reason)},\n" for id_, reason in still_open.items())
    source = OPEN_FILE.read_text(encoding="utf-8")
    return source[: source.index("= {")] + ("= {\n" + rows + "}\n" if rows else "= {}\n")


def _listing(group: str, proved: Mapping[str, Sequence[Claim]]) -> Iterator[str]:
    for requirement in catalogue():
        if not requirement.group.startswith(group):
            continue
        by = proved.get(requirement.id)
        state = (
            f"tested  {by[0].path}::{by[0].test}" if by else f"open    {OPEN.get(requirement.id, 'no reason given')}"
        )
        yield f"{requirement.id:<8} {requirement.level:<7} {state}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the state of the catalogue; with `--list` its rows; `--sync` drops what is tested from the open list."""
    parser = argparse.ArgumentParser(prog="python -m tests.requirements", description=main.__doc__)
    parser.add_argument("--list", metavar="GROUP", nargs="?", const="", help="rows of a group such as PDP-A, or all")
    parser.add_argument("--sync", action="store_true", help="drop tested ids from the open list")
    options = parser.parse_args(arguments)

    proved: dict[str, list[Claim]] = {}
    for claim in claims():
        proved.setdefault(claim.id, []).append(claim)
    still_open = {id_: reason for id_, reason in OPEN.items() if id_ not in proved}
    if options.sync:
        OPEN_FILE.write_text(render_open(still_open), encoding="utf-8")
    if options.list is not None:
        print("\n".join(_listing(options.list, proved)))
    ids = {requirement.id for requirement in catalogue()}
    print(f"{len(ids & proved.keys())} tested, {len(ids - proved.keys())} open, {len(ids)} total")
    return 0


if __name__ == "__main__":
    sys.exit(main())

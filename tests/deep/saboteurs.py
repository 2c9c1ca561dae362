"""The catalogue of saboteurs: deliberate one-line faults, each with the rules that it breaks and the test that notices.

Says what a saboteur is and whether it still fits the sources. Trying them out is done in `workshop.py`. See design.md
section 12.
"""

import ast
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
FILES: Final = (FOLDER / "service.toml", FOLDER / "gate.toml")
MEMBERS: Final = frozenset({"name", "covers", "file", "old", "new", "test"})


class Unfit(ValueError):
    """A saboteur cannot be read or does not fit the sources; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class Saboteur:
    """`old` stands once in `file` and becomes `new`; then `test`, a pytest node id, must fail."""

    name: str
    covers: tuple[str, ...]
    file: str
    old: str
    new: str
    test: str

    def applied(self, text: str) -> str:
        """The text of the file with the fault in it.

        Raises:
            Unfit: The old text is not there exactly once, or more than one line would change.
        """
        found = text.count(self.old)
        if found != 1:
            raise Unfit(f"{self.name}: its old text stands {found} times in {self.file}, not once")
        before, after = self.old.split("\n"), self.new.split("\n")
        changed = sum(one != other for one, other in zip(before, after, strict=False))
        if len(before) != len(after) or changed != 1:
            raise Unfit(f"{self.name}: it must change exactly one line")
        return text.replace(self.old, self.new)


def load(files: Sequence[Path] = FILES) -> tuple[Saboteur, ...]:
    """All saboteurs, in the order of the files.

    Raises:
        Unfit: An entry has not the form of one, or two have the same name.
    """
    found = [_read(row) for file in files for row in tomllib.loads(file.read_text(encoding="utf-8"))["saboteur"]]
    names = [saboteur.name for saboteur in found]
    for name in names:
        if names.count(name) > 1:
            raise Unfit(f"{name}: the name is used twice")
    return tuple(found)


def _read(row: dict[str, Any]) -> Saboteur:
    name, covers = str(row.get("name")), row.get("covers")
    if row.keys() != MEMBERS or not isinstance(covers, list) or not covers:
        raise Unfit(f"{name}: a saboteur has {', '.join(sorted(MEMBERS))}")
    return Saboteur(**{**row, "covers": tuple(covers)})


def faults(saboteur: Saboteur, root: Path) -> Iterator[str]:
    """Why `saboteur` does not fit the checkout at `root`, one sentence each; nothing when it does."""
    file = root / saboteur.file
    if not file.is_file():
        yield f"{saboteur.name}: there is no {saboteur.file}"
    else:
        try:
            faulty = saboteur.applied(file.read_text(encoding="utf-8"))
            if file.suffix == ".py":
                ast.parse(faulty)
        except Unfit as error:
            yield str(error)
        except SyntaxError:
            yield f"{saboteur.name}: with the fault {saboteur.file} is no Python any more"
    path, _, name = saboteur.test.partition("::")
    if not (root / path).is_file() or name.partition("[")[0] not in _tests_in(root / path):
        yield f"{saboteur.name}: there is no test {saboteur.test}"


def _tests_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

"""A copy of the checkout in which saboteurs are tried out, one at a time; the checkout itself is never touched.

Decides whether a saboteur was caught: its test failed, and it passes without the fault. A test that breaks in its
set-up, a run that ends early and a test that does not run at all count for nothing.
"""

import compileall
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

from tests.deep import warm
from tests.deep.saboteurs import Saboteur

COMPILED: Final = ("arap_service", "blackbox_kit", "mcp_gate", "tests")
OPTIONS: Final = (
    *("-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist"),
    # What a failed test has left open is no reason to lose its outcome.
    *("-p", "no:unraisableexception"),
    # The rules are the same on both engines, and this one is at hand everywhere.
    *("-k", "not postgres"),
    # Libraries that are there before pytest is, see `warm.py`.
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class RunFailed(Exception):
    """The tests could not be run to their end; the message says how it ended."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one saboteur; `caught_by` are the tests that failed, empty when nobody noticed."""

    saboteur: Saboteur
    caught_by: tuple[str, ...]
    trouble: str | None = None


class Workshop:
    """A copy of the files of a checkout at `root`, whose tests run there and see nothing of the original."""

    def __init__(self, root: Path, report: Path, *, libraries: Sequence[str]) -> None:
        self._root = root
        self._report = report
        self._log = report.with_suffix(".log")
        # Python takes a module for unchanged when size and second agree. Comparing by content is slower and right.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(root)}
        for name in COMPILED:
            compileall.compile_dir(root / name, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        self._runner = subprocess.Popen(
            [sys.executable, "-P", warm.__file__, str(self._log), *libraries],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process that runs the tests."""
        for pipe in (self._runner.stdin, self._runner.stdout):
            if pipe is not None:
                pipe.close()
        self._runner.wait()

    def outcomes(self, tests: Sequence[str], *more: str) -> Mapping[str, str]:
        """How each of `tests` ended (`passed`, `failed`, `broken`, `skipped`), by node id.

        Raises:
            RunFailed: pytest could not do what it was asked.
        """
        self._report.unlink(missing_ok=True)
        ended = self._ask([*OPTIONS, f"--junit-xml={self._report}", *more, *tests])
        if ended not in {"0", "1"} or not self._report.exists():
            raise RunFailed(f"pytest ended with {ended or 'nothing'}: {_last_line(self._log)}")
        return outcomes_in(self._report)

    def status_with(self, file: str, text: str, tests: Sequence[str], *, seconds: int, more: Sequence[str] = ()) -> str:
        """How pytest ends when `text` stands in `file`: its status or that of its death, or `timeout`.

        `seconds` are those of the processor, so that a busy machine makes no difference.
        """
        changed = self._root / file
        sound = changed.read_text(encoding="utf-8")
        changed.write_text(text, encoding="utf-8")
        try:
            return self._ask([*OPTIONS, "-x", *more, *tests], seconds)
        finally:
            changed.write_text(sound, encoding="utf-8")

    def _ask(self, arguments: list[str], seconds: int | None = None) -> str:
        if self._runner.stdin is None or self._runner.stdout is None:
            raise AssertionError("the runner has pipes")
        self._runner.stdin.write(json.dumps([seconds, *arguments]) + "\n")
        self._runner.stdin.flush()
        return self._runner.stdout.readline().strip()

    def attempt(self, saboteur: Saboteur) -> Trial:
        """Put the fault in, run its test until something fails, and put the file back as it was."""
        file = self._root / saboteur.file
        sound = file.read_text(encoding="utf-8")
        file.write_text(saboteur.applied(sound), encoding="utf-8")
        try:
            ended = self.outcomes([saboteur.test], "-x")
        except RunFailed as error:
            return Trial(saboteur, (), str(error))
        finally:
            file.write_text(sound, encoding="utf-8")
        failed = tuple(test for test, outcome in ended.items() if outcome == "failed")
        broken = any(outcome == "broken" for outcome in ended.values())
        return Trial(saboteur, failed, "the test broke before it could say anything" if broken and not failed else None)


@contextmanager
def open_workshop(checkout: Path, folder: Path, *, libraries: Sequence[str] = warm.LIBRARIES) -> Iterator[Workshop]:
    """A workshop under `folder` with every file that `checkout` has under version control, or is about to have.

    `libraries` are imported once instead of by every run.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=checkout,
        check=True,
        capture_output=True,
        text=True,
    )
    root = folder / "checkout"
    root.mkdir(parents=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (checkout / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, root / name)
    workshop = Workshop(root, folder / "report.xml", libraries=libraries)
    try:
        yield workshop
    finally:
        workshop.close()


def outcomes_in(report: Path) -> dict[str, str]:
    """How the tests of a JUnit report ended, by node id."""
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314  # written by the run that has just ended
        outcome = "passed"
        for tag, meaning in (("skipped", "skipped"), ("error", "broken"), ("failure", "failed")):
            if case.find(tag) is not None:
                outcome = meaning
        found[f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"] = outcome
    return found


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "it said nothing")

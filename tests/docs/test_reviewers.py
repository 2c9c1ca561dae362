"""docs/reviewers.md: a standards reviewer's hour, worked through in a copy of the checkout's surface.

The folder has the repository's files under their names, so that the commands stand as on the page. `make` would
set up an environment of its own; its recipes are taken from the Makefile and run with the environment of the tests.
"""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, Guide, blocks

PAGE = (DOCS / "reviewers.md").read_text(encoding="utf-8")
MADE = ("-o", ".venv/.demo", "-o", ".venv/.dev", "-o", ".venv-git/.ready")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def surface(folder: Path) -> None:
    for path in ROOT.iterdir():
        if path.name not in {".venv", ".review"}:
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)


def without_make(page: str, folder: Path) -> str:
    """`page` with the recipe of each `make` command in its place."""

    def recipe(found: re.Match[str]) -> str:
        command = ["make", "-s", "-n", *MADE, *found[1].split()]
        made = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        return re.sub(r"\\\s+", "", made.stdout).strip().removeprefix("exec ").replace("'", "")

    return re.sub(r"^make (.+)$", recipe, page, flags=re.MULTILINE)


@pytest.mark.timeout(600)
def test_the_hour_goes_as_the_page_says(tmp_path: Path) -> None:
    surface(tmp_path)
    port = free_port()
    page = without_make(PAGE.replace("8403", str(port)), tmp_path)
    said = [
        printed
        for block, printed in Guide(tmp_path, {port: port, 8400: 8400, 8500: 8500}).follow(page)
        if block.language == "sh"
    ]
    example, transcript, _, called, restarted, fetched, suite = said
    ledger = (tmp_path / ".review" / "treasury" / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["amount"] for line in ledger] == [900, 50_000]
    assert "the story is over" in example
    assert '"resultType": "task"' in transcript
    assert re.search(r"^tsk_", called, re.MULTILINE)
    assert restarted.split() == ["done", "0"]
    assert "50000 sent" in fetched
    assert fetched.split()[-1] == "1"
    assert "5 checks: 5 passed" in suite


def test_the_minutes_of_the_parts_are_an_hour() -> None:
    assert sum(int(minutes) for minutes in re.findall(r"^\| \d \|.*\| (\d+) \|$", PAGE, re.MULTILINE)) == 60


def test_everything_on_the_page_is_a_command_or_is_for_people() -> None:
    assert {(block.language, block.words) for block in blocks(PAGE)} == {
        ("sh", ()),
        ("sh", ("background",)),
        ("text", ()),
    }


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)", PAGE))
def test_what_the_page_points_at_is_there(target: str) -> None:
    assert (DOCS / target).exists()

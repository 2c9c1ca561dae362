"""What the documents tell people to type exists."""

import re
import subprocess
from pathlib import PurePosixPath

import pytest

from tests.house_rules import ROOT, tracked

PAGES = [path for path in tracked() if path.suffix == ".md" and path.parts[0] != "tests"]


def _listed() -> dict[str, str]:
    said = subprocess.run(["make", "-s"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^  make (\S+) +(\S.*)$", said, re.MULTILINE)
    return dict(rows)


def test_make_alone_lists_every_command_with_what_it_does() -> None:
    listed = set(_listed())
    assert {"demo", "test", "check", "deep", "requirements", "bench", "lock", "assets", "help"} <= listed


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_make_command_on_a_page_exists(page: PurePosixPath) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    mentioned = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)\b", text, re.MULTILINE))
    assert mentioned - set(_listed()) == set()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_local_link_on_a_page_leads_somewhere(page: PurePosixPath) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    folder = (ROOT / page).parent
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)
    assert [link for link in links if not (folder / link).exists()] == []

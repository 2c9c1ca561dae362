"""docs/gate.md: every file loads, the embedding builds a server, and the commands tell one story of an approval."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Guide

PAGE = (DOCS / "gate.md").read_text(encoding="utf-8")


@pytest.mark.timeout(600)
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    said = [printed for block, printed in Guide(tmp_path, {8400: 8400, 8500: 8500}).follow(PAGE) if printed]
    tried, approved, rotated = said
    assert "denied, status 1" in tried
    assert "todo: nothing yet" in tried
    assert "status 3" in approved
    assert "asked by alice through assistant" in approved
    assert "is approved, to be used until" in approved
    assert "old is deleted" in approved
    assert "ok" in rotated

"""docs/conformance.md: its commands run, its control file loads, and its tables name every call and verb there is."""

import json
from pathlib import Path

import pytest

from mcp_gate.conformance.catalogue import CHECKS
from mcp_gate.conformance.control import CALLS, VERBS
from tests.docs.pages import DOCS, Guide

PAGE = (DOCS / "conformance.md").read_text(encoding="utf-8")
PORT = 8403


@pytest.mark.timeout(900)
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    said = [printed for _, printed in Guide(tmp_path, {8400: 8400, 8500: 8500, PORT: PORT}).follow(PAGE) if printed]
    ours, client = said
    creation = [check for check in CHECKS if check.group == "creation"]
    assert f"{len(creation)} checks: {len(creation)} passed" in ours
    assert {one["verdict"] for one in json.loads((tmp_path / "found.json").read_text())["checks"]} == {"pass"}
    assert "sep-2848-changed-subject" in ours
    assert "2 checks: 2 passed" in client


def test_the_tables_name_every_call_and_every_verb() -> None:
    assert [name for name in (*CALLS, *VERBS) if f"`{name}`" not in PAGE] == []

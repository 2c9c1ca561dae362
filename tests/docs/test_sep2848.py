"""docs/conformance.md: its commands run, its control files load, and its tables name everything there is."""

import json
from pathlib import Path

import pytest

from arap_service.conformance.catalogue import CHECKS as ARAP_CHECKS
from arap_service.conformance.control import PROFILES, QUESTIONS, ROLES
from arap_service.conformance.control import VERBS as ARAP_VERBS
from mcp_gate.conformance.catalogue import CHECKS
from mcp_gate.conformance.control import CALLS, VERBS
from tests.docs.pages import DOCS, Guide

PAGE = (DOCS / "conformance.md").read_text(encoding="utf-8")
PORT, SERVICE_PORT = 8403, 8405


@pytest.mark.timeout(900)
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    ports = {8400: 8400, 8500: 8500, PORT: PORT, SERVICE_PORT: SERVICE_PORT}
    said = [printed for _, printed in Guide(tmp_path, ports).follow(PAGE) if printed]
    ours, client, service, sentences = said
    creation = [check for check in CHECKS if check.group == "creation"]
    assert f"{len(creation)} checks: {len(creation)} passed" in ours
    assert {one["verdict"] for one in json.loads((tmp_path / "found.json").read_text())["checks"]} == {"pass"}
    assert "sep-2848-changed-subject" in ours
    assert "2 checks: 2 passed" in client
    first = [check for check in ARAP_CHECKS if check.group in {"discovery", "denial"}]
    # It is served over plain http here.
    assert f"{len(first)} checks: {len(first) - 1} passed, 0 failed, 1 skipped" in service
    assert "arap-policy-outranks-approval" in service
    assert f"{len(ARAP_CHECKS)} checks in all" in sentences


def test_the_tables_name_every_call_and_every_verb() -> None:
    named = (*CALLS, *VERBS, *QUESTIONS, *ROLES, *ARAP_VERBS, *PROFILES)
    assert [name for name in named if f"`{name}`" not in PAGE] == []

"""The demonstration tells its stories to the end by itself, with real servers and a real git repository."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.demo_process import demo

ARTIFACTS = ("binding_token", "evaluation_id", "access_request", "approved_until", "/access/v1/", "status_endpoint")


def git(repository: Path, *arguments: str) -> list[str]:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def records(folder: Path) -> list[tuple[str, str]]:
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return sorted((record["tool"], record["status"]) for record in found)


@pytest.mark.timeout(300)
def test_the_git_story_ends_with_one_commit_and_can_be_told_again(tmp_path: Path) -> None:
    for _ in range(2):
        with demo("--auto", folder=tmp_path) as told:
            assert told.ended() == 0, told.output
        story = tmp_path / "git"
        assert git(story / "repository", "log", "--format=%s") == [
            "Retry a payment once when the bank times out",
            "Start the payments service",
        ]
        assert git(story / "repository", "diff", "--cached", "--name-only") == ["notes.txt"]
        assert records(story / "tasks") == [("git_commit", "completed"), ("git_commit", "completed")]


@pytest.mark.timeout(200)
@pytest.mark.requirement("PEP-126", "GOV-13")
def test_the_treasury_story_transfers_once_and_its_transcript_holds_nothing_of_the_backend(tmp_path: Path) -> None:
    """SEP-2848, "End-to-end example", with the same arguments."""
    with demo("--auto", "--story", "treasury", folder=tmp_path) as told:
        assert told.ended() == 0, told.output
    story = tmp_path / "treasury"
    ledger = [json.loads(line) for line in (story / "ledger.jsonl").read_text().splitlines()]
    assert [(entry["to"], entry["amount"]) for entry in ledger] == [("acct-102", 900), ("acct-991", 50000)]

    transcript = [json.loads(line) for line in (story / "transcript.jsonl").read_text().splitlines()]
    created, final = transfer_of(transcript)
    assert created["resultType"] == "task"
    assert created["status"] == "working"
    assert created["_meta"]["io.modelcontextprotocol/authorization"] == {
        "reason": "insufficient_authorization",
        "remediation": "available",
        "remediationHints": [{"type": "task"}],
    }
    assert final["taskId"] == created["taskId"]
    assert final["status"] == "completed"
    assert final["result"]["isError"] is False
    assert final["result"]["_meta"]["io.modelcontextprotocol/tool-approval-disposition"] == "approved-executed"
    assert "Transfer of $50,000 to acct-991 completed." in json.dumps(final["result"]["content"])

    service = json.loads((story / "service.yaml").read_text())
    received = json.dumps([entry["message"] for entry in transcript if entry["direction"] == "gate to client"])
    for artifact in (*ARTIFACTS, service["identifier"], "io.mcp-hangar"):
        assert artifact not in received


def transfer_of(transcript: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was answered to the large transfer, and the last state of its task."""
    results = [entry["message"]["result"] for entry in transcript if "result" in entry["message"]]
    tasks = [result for result in results if "taskId" in result]
    return tasks[0], tasks[-1]

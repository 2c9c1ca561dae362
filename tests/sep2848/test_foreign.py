"""Servers that know nothing of approvals get sensible verdicts: one of the present era, and one of the older."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer

from mcp_gate.conformance.catalogue import CHECKS
from mcp_gate.conformance.command import FAILED, status
from mcp_gate.conformance.control import Control, Hands
from mcp_gate.conformance.model import Report, Verdict
from mcp_gate.conformance.running import HttpSubject, Run, StdioSubject, Subject
from tests.gate.live import serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
CALL: dict[str, Any] = {"calls": {"gated": {"tool": "greet", "arguments": {"name": "{marker}"}}}}


async def judged(subject: Subject, *, control: dict[str, Any], anyway: bool = False) -> Report:
    run = Run(Hands(Control.model_validate(control), Path()), subject, anyway=anyway)
    with anyio.fail_after(250):
        outcomes = await run.all(CHECKS, lambda _: None)
    assert len(outcomes) == len(CHECKS)
    return Report(subject.target, subject.transport, outcomes)


def notes(report: Report, verdict: Verdict) -> dict[str, str]:
    return {one.check.id: one.note for one in report.outcomes if one.verdict is verdict}


def plain_server() -> MCPServer[Any]:
    """A server of the SDK with one tool and no approvals."""
    server: MCPServer[Any] = MCPServer("plain")

    @server.tool()
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"

    return server


async def test_a_server_without_approvals_fails_to_declare_them_and_is_asked_nothing_else() -> None:
    async with serving(plain_server().streamable_http_app()) as base:
        report = await judged(HttpSubject(f"{base}/mcp"), control=CALL)
    failed, skipped = notes(report, Verdict.FAIL), notes(report, Verdict.SKIPPED)
    assert failed.keys() == {"sep-2848-capability-declared"}
    assert "io.modelcontextprotocol/tasks and io.modelcontextprotocol/tool-approval" in failed.popitem()[1]
    assert len(skipped) == len(CHECKS) - 1
    assert "declares neither" in skipped["sep-2848-handle-shape"]
    assert status(report, strict=False) == FAILED


async def test_asked_anyway_it_is_told_that_its_call_became_no_task() -> None:
    async with serving(plain_server().streamable_http_app()) as base:
        report = await judged(HttpSubject(f"{base}/mcp"), control=CALL, anyway=True)
    failed, not_run = notes(report, Verdict.FAIL), notes(report, Verdict.ERROR)
    assert "Hello, m" in failed["sep-2848-requestable-denial-returns-task"]
    assert "Hello, m" in not_run["sep-2848-handle-shape"]
    assert failed.keys() >= {"sep-2848-undeclared-client", "sep-2848-unknown-task"}


async def test_a_server_of_the_handshake_era_is_told_which_protocol_it_lacks(tmp_path: Path) -> None:
    command = f"{sys.executable} -m tests.gate.handshake_server {tmp_path / 'effects'}"
    report = await judged(StdioSubject(command), control=CALL)
    skipped = notes(report, Verdict.SKIPPED)
    assert notes(report, Verdict.FAIL).keys() == {"sep-2848-capability-declared"}
    assert "does not speak 2026-07-28" in skipped["sep-2848-handle-shape"]

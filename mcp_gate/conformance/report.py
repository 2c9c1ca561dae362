"""What a run found, for programs: the shared reports under this suite's name."""

from datetime import datetime

from blackbox_kit import report as shared
from blackbox_kit.model import Report
from mcp_gate.conformance.table import SUITE


def as_json(report: Report) -> str:
    """Everything, exchanges included."""
    return shared.as_json(SUITE, report)


def as_junit(report: Report) -> str:
    """A JUnit file."""
    return shared.as_junit(SUITE, report)


def as_checks(report: Report, *, at: datetime) -> str:
    """`checks.json`."""
    return shared.as_checks(SUITE, report, at=at)

"""What a run found, for programs: JSON, JUnit, and `checks.json` as the public MCP conformance suite writes it."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from xml.etree import ElementTree as ET

from blackbox_kit.model import Json, Level, Outcome, Report, Suite, Verdict


def as_json(suite: Suite, report: Report) -> str:
    """Everything, exchanges included."""
    document: Json = {
        "suite": suite.name,
        "target": report.target,
        "transport": report.transport,
        "summary": {str(verdict): report.count(verdict) for verdict in Verdict},
        "checks": [_whole(report, one) for one in report.outcomes],
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def _whole(report: Report, outcome: Outcome) -> Json:
    check = outcome.check
    rule = report.rules.get(check.id)
    return {
        "id": check.id,
        "group": check.group,
        "level": str(check.level),
        "verdict": str(outcome.verdict),
        "note": outcome.note,
        "sentence": None if rule is None else rule.sentence,
        "source": None if rule is None else rule.source,
        "seconds": round(outcome.seconds, 3),
        "exchanges": [{"sent": one.sent, "came": one.came} for one in outcome.exchanges],
    }


def as_junit(suite: Suite, report: Report) -> str:
    """A JUnit file: a suite for each group; a SHOULD that is not kept is a skipped case with the reason."""
    top = ET.Element("testsuites", name=suite.name, tests=str(len(report.outcomes)))
    groups: dict[str, list[Outcome]] = {}
    for outcome in report.outcomes:
        groups.setdefault(outcome.check.group, []).append(outcome)
    for group, outcomes in groups.items():
        name = f"{suite.name}.{group}"
        within = ET.SubElement(top, "testsuite", {"name": name, **_sums(outcomes)})
        for outcome in outcomes:
            _case(within, report, outcome, name)
    ET.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(top, encoding="unicode") + "\n"


def _sums(outcomes: list[Outcome]) -> dict[str, str]:
    tags = [_tag(outcome) for outcome in outcomes]
    return {"tests": str(len(tags)), **{name: str(tags.count(tag)) for name, tag in _PLURALS.items()}}


_PLURALS: Final[Mapping[str, str]] = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def _tag(outcome: Outcome) -> str | None:
    match outcome.verdict:
        case Verdict.FAIL:
            return "failure" if outcome.check.level is Level.MUST else "skipped"
        case Verdict.ERROR:
            return "error"
        case Verdict.SKIPPED:
            return "skipped"
        case Verdict.PASS:
            return None


def _case(within: ET.Element, report: Report, outcome: Outcome, classname: str) -> None:
    case = ET.SubElement(within, "testcase", name=outcome.check.id, classname=classname, time=f"{outcome.seconds:.3f}")
    if (tag := _tag(outcome)) is not None:
        told = (
            f"SHOULD, not kept: {outcome.note}"
            if outcome.verdict is Verdict.FAIL and tag == "skipped"
            else outcome.note
        )
        found = ET.SubElement(case, tag, message=_printable(told))
        if (rule := report.rules.get(outcome.check.id)) is not None:
            found.text = rule.sentence


def _printable(text: str) -> str:
    """XML has no place for most control characters."""
    return "".join(character if character.isprintable() else " " for character in text)


def as_checks(suite: Suite, report: Report, *, at: datetime) -> str:
    """`checks.json`. What was skipped or could not be run is left out, so that nothing takes it for tested."""
    rows: list[dict[str, Any]] = []
    for outcome in report.outcomes:
        if outcome.verdict not in {Verdict.PASS, Verdict.FAIL}:
            continue
        rule = report.rules.get(outcome.check.id)
        row: dict[str, Any] = {
            "id": outcome.check.id,
            "name": outcome.check.run.__name__,
            "description": (outcome.check.run.__doc__ or "").strip(),
            "status": _status(outcome),
            "timestamp": at.isoformat().replace("+00:00", "Z"),
            "specReferences": [
                {"id": suite.title if rule is None else rule.source, "url": "" if rule is None else rule.url}
            ],
        }
        if outcome.verdict is Verdict.FAIL:
            row["errorMessage"] = outcome.note
        rows.append(row)
    return json.dumps(rows, indent=1, ensure_ascii=True) + "\n"


def _status(outcome: Outcome) -> str:
    if outcome.verdict is Verdict.PASS:
        return "SUCCESS"
    return "FAILURE" if outcome.check.level is Level.MUST else "WARNING"

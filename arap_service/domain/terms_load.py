"""What a template says about decisions, as objects, with the faults that the schema cannot see.

A part of `policy_load.py`, which compiles the conditions and collects the faults with their lines.
"""

from collections.abc import Mapping
from typing import Any

from arap_service.domain.catalog_load import Condition, Path, Report
from arap_service.domain.policy import DEFAULT_APPROVAL_SECONDS, Emergency
from arap_service.domain.reasons import ReasonRule, is_usable
from arap_service.domain.scopes import Scope, unvariable


def read_reasons(template: Mapping[str, Any], report: Report, *, path: Path) -> dict[str, ReasonRule]:
    """What the reasons of decisions must contain."""
    reasons: Mapping[str, Mapping[str, str]] = template.get("reasons", {})
    for decision, rule in reasons.items():
        if not is_usable(rule["pattern"]):
            fault = "no regular expression that is tried in linear time (no look-around, no back-reference)"
            report(fault, *path, "reasons", decision, "pattern")
    return {decision: ReasonRule(rule["pattern"], rule["hint"]) for decision, rule in reasons.items()}


def read_scope(template: Mapping[str, Any], condition: Condition, report: Report, *, path: Path) -> Scope | None:
    """How far an approval reaches beyond exactly what was asked, if it does."""
    if "scope" not in template:
        return None
    value = template["scope"]
    for index, pointer in enumerate(value["may_vary"]):
        fault = unvariable(pointer)
        if fault is not None:
            report(fault, *path, "scope", "may_vary", index)
    within = value.get("within")
    if within is not None:
        condition(within, (*path, "scope", "within"))
    elif "/context/arguments_hash" in value["may_vary"]:
        report("arguments may vary only within a bound: say which in within", *path, "scope", "may_vary")
    return Scope(tuple(value["may_vary"]), value["words"], within)


def read_emergency(
    template: Mapping[str, Any], known: Mapping[str, Any] | None, report: Report, *, path: Path
) -> Emergency | None:
    """Who decides in an emergency, and who looks at it afterwards; None where the template has no rule for one."""
    if "emergency" not in template:
        return None
    value = template["emergency"]
    for member in ("groups", "owners"):
        for index, group in enumerate(value.get(member, [])):
            if known is not None and group not in known:
                report("no group has this name", *path, "emergency", member, index)
    if value["approval_seconds"] > template.get("approval_seconds", DEFAULT_APPROVAL_SECONDS):
        report("an emergency lasts no longer than other approvals", *path, "emergency", "approval_seconds")
    return Emergency(
        title=value.get("title", "Whoever is on call"),
        groups=frozenset(value.get("groups", ())),
        people=frozenset(value.get("people", ())),
        owners=frozenset(value["owners"]),
        approval_seconds=value["approval_seconds"],
        pending_seconds=value.get("pending_seconds"),
        review_seconds=value.get("review_seconds", 86400),
    )

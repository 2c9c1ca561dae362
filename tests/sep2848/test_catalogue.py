"""The traceability file is complete, and every check has its sentence."""

import re
from typing import Any

import pytest

from mcp_gate.conformance.catalogue import CHECKS, NoSuchCheck, chosen
from mcp_gate.conformance.control import CALLS, VERBS
from mcp_gate.conformance.model import Level
from mcp_gate.conformance.rules import rules, traceability

ROWS: list[dict[str, Any]] = traceability()["requirements"]
STATEMENT = "Conformance statement: "
# SEP-2848, "Reference Implementation": the statements that a conformance scenario has to cover.
STATEMENTS = {
    "a requestable denial returns a task without executing the tool": {
        "requestable-denial-returns-task",
        "denial-is-not-executed",
    },
    "approval resumes execution at most once": {"approved-executes", "executes-at-most-once"},
    "a terminal denial is a completed task whose CallToolResult body (not only _meta) marks it denied-not-executed, "
    "distinct from an execution error": {
        "terminal-denial-is-completed",
        "denied-disposition",
        "denied-body",
        "execution-error",
    },
    "a changed envelope (tool, arguments, principal, or subject/resource) requires a new approval": {
        "changed-tool",
        "changed-arguments",
        "changed-principal",
        "changed-subject",
        "changed-resource",
    },
    "a cancelled or expired task cannot later execute": {"cancelled-never-executes", "expired-never-executes"},
    "result retrieval does not expose backend artifacts": {"no-backend-artifact"},
    "submission input flows through the task input channel": {"input-through-the-task"},
}


def test_every_check_has_a_row_and_every_row_a_check() -> None:
    assert {row["check"] for row in ROWS if "check" in row} == {check.id for check in CHECKS}
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert rules().keys() == {check.id for check in CHECKS}


def test_every_row_is_a_sentence_with_a_check_or_a_reason() -> None:
    assert [row for row in ROWS if not row.get("text") or ("check" in row) == ("excluded" in row)] == []
    assert all(len(row["excluded"]) > 20 for row in ROWS if "excluded" in row)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_each_statement_of_the_reference_implementation_is_checked(statement: str) -> None:
    found = {row["check"] for row in ROWS if row["text"] == f"{STATEMENT}{statement}." and "check" in row}
    assert found == {f"sep-2848-{check}" for check in STATEMENTS[statement]}


def test_no_other_statement_is_claimed() -> None:
    claimed = {row["text"].removeprefix(STATEMENT).rstrip(".") for row in ROWS if row["text"].startswith(STATEMENT)}
    assert claimed == STATEMENTS.keys()


def test_the_binding_sentences_are_as_many_as_were_found_in_the_sep() -> None:
    """Each sentence of the text of 2026-09-25 with MUST or SHOULD in it, and each clause of one that has several."""
    binding = {row["text"] for row in ROWS if re.search(r"\b(MUST|SHOULD)\b", row["text"]) and "url" not in row}
    assert len(binding) == 68


def test_advice_is_what_the_sep_calls_so() -> None:
    advice = {check.id for check in CHECKS if check.level is Level.SHOULD}
    assert advice == {
        "sep-2848-undeclared-client-guidance",
        "sep-2848-repeat-returns-the-task",
        "sep-2848-concurrent-repeats-open-one-task",
    }


def test_checks_ask_for_nothing_that_a_control_file_cannot_have() -> None:
    assert {verb for check in CHECKS for verb in check.verbs} <= VERBS.keys()
    assert {call for check in CHECKS for call in check.calls} <= CALLS.keys()


def test_one_check_or_one_group_can_be_named() -> None:
    assert [check.id for check in chosen(["handle-shape"])] == ["sep-2848-handle-shape"]
    assert [check.id for check in chosen(["sep-2848-handle-shape"])] == ["sep-2848-handle-shape"]
    assert {check.group for check in chosen(["binding", "access"])} == {"binding", "access"}
    assert chosen([]) == CHECKS
    with pytest.raises(NoSuchCheck):
        chosen(["handle-shapes"])

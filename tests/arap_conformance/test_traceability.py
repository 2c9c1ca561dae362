"""`arap.yaml` has every normative sentence, every check has its own, and the rules named are in the catalogue."""

import re
import subprocess
import sys
from typing import Any

from arap_service.conformance.catalogue import CHECKS
from arap_service.conformance.model import Level
from arap_service.conformance.traceability import BINDING, rows, sentences
from tests.requirements import catalogue
from tests.requirements_open import OPEN

ROWS: list[dict[str, Any]] = [dict(row) for row in rows()]
# The draft lets a service normalise such a value or have it reviewed as well, so that a refusal is advice.
ONE_WAY_OF_SEVERAL = {"arap-catalog-values-are-validated"}


def test_every_check_has_a_sentence_and_every_check_named_exists() -> None:
    assert {row["check"] for row in ROWS if "check" in row} == {check.id for check in CHECKS}


def test_every_row_is_a_sentence_with_a_check_or_a_reason() -> None:
    members = {"check", "section", "level", "text", "source", "excluded", "rules"}
    assert [row for row in ROWS if not row["text"].endswith(".") or ("check" in row) == ("excluded" in row)] == []
    assert [row for row in ROWS if row.keys() - members or row["level"] not in (*BINDING, "stated")] == []
    assert [row for row in ROWS if len(row.get("excluded", "x" * 50)) < 45] == []
    assert all("check" in row for row in ROWS if row["level"] == "stated")


def test_no_row_stands_twice() -> None:
    seen = [(row.get("source"), row["section"], row["level"], row["text"], row.get("check")) for row in ROWS]
    assert len(set(seen)) == len(seen)
    assert not [one for one in seen if one[4] is None and len([two for two in seen if two[:4] == one[:4]]) > 1]


def test_what_must_be_is_looked_at_by_a_check_that_can_fail_the_service() -> None:
    advice = {check.id for check in CHECKS if check.level is Level.SHOULD} - ONE_WAY_OF_SEVERAL
    must = {sentence: named for sentence, named in sentences(ROWS).items() if sentence[2].startswith("MUST") and named}
    assert [sentence for sentence, named in must.items() if set(named) <= advice] == []


def test_rules_of_checks_and_rows_are_in_the_catalogue() -> None:
    known = {requirement.id for requirement in catalogue()}
    assert {rule for check in CHECKS for rule in check.requirements} <= known
    assert all(check.requirements for check in CHECKS)
    named = {rule for row in ROWS for rule in row.get("rules", ())}
    assert named <= known
    assert not named & OPEN.keys()


def test_the_sentences_are_as_many_as_were_found_in_the_texts() -> None:
    """Each clause with MUST, MUST NOT, SHOULD or RECOMMENDED of the draft of 2026-08-21, and of what is touched."""
    found = sentences(ROWS)
    by_source = {
        source: sum(1 for one in found if one[0] == source and one[2] != "stated")
        for source in ("profile", "authorization-api")
    }
    assert by_source == {"profile": 299, "authorization-api": 40}


def test_a_command_prints_the_count() -> None:
    command = [sys.executable, "-m", "arap_service.conformance.traceability"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    total = sum(1 for _, _, level, _ in sentences(ROWS) if level != "stated")
    assert re.search(
        rf"^{total} normative sentences: \d+ looked at by checks, \d+ with the reason why not$", said, re.MULTILINE
    )
    assert f"{len(CHECKS)} checks in all" in said

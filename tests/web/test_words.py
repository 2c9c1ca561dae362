"""What the desk calls things; the words are the project's own."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from arap_service.domain import reviewers
from arap_service.protocol.arap import TaskStatus
from arap_service.web import words

NOW = datetime(2026, 4, 30, 20, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 seconds"),
        (0, "0 seconds"),
        (1, "1 second"),
        (59.9, "59 seconds"),
        (60, "1 minute"),
        (90, "1 minute 30 seconds"),
        (900, "15 minutes"),
        (901, "15 minutes"),
        (7_500, "2 hours 5 minutes"),
        (86_340, "23 hours 59 minutes"),
        (604, "10 minutes"),
        (90_000, "1 day 1 hour"),
    ],
)
def test_a_span_names_its_two_largest_units(seconds: float, text: str) -> None:
    assert words.span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4, "just now"),
        (-4, "just now"),
        (59, "in 59 seconds"),
        (119, "in 1 minute"),
        (-30, "30 seconds ago"),
        (-3_700, "1 hour 1 minute ago"),
    ],
)
def test_a_moment_is_told_relative_to_now_without_ticking_seconds(seconds: int, text: str) -> None:
    assert words.relative(NOW + timedelta(seconds=seconds), NOW) == text


def test_an_absolute_time_carries_its_zone() -> None:
    assert words.absolute(NOW) == "30 Apr 2026, 20:00 UTC"
    assert words.absolute(NOW.astimezone(timezone(timedelta(hours=2), "CEST"))) == "30 Apr 2026, 22:00 CEST"


def test_every_status_has_words_and_an_unknown_one_promises_nothing() -> None:
    assert {words.status(status.value) for status in TaskStatus}.isdisjoint({"Not approved"})
    assert words.status("paused") == "Not approved"


def test_every_reason_of_ineligibility_is_explained() -> None:
    codes = [value for name, value in vars(reviewers).items() if name.isupper() and isinstance(value, str)]
    assert len(codes) == 9
    assert all(" " in words.why_not(code) and words.why_not(code) != words.why_not("new_code") for code in codes)


def test_an_explanation_that_is_a_sentence_already_is_kept() -> None:
    assert words.why_not("Only the owner decides.") == "Only the owner decides."
    assert words.why_not("new_code") == "You may not decide this request."


@pytest.mark.parametrize(
    ("pointer", "text"), [("/to/0/account", "to → 0 → account"), ("/a~1b~0c", "a/b~c"), ("", "all of it")]
)
def test_a_pointer_reads_as_a_path_of_names(pointer: str, text: str) -> None:
    assert words.pointer(pointer) == text


def test_a_thing_is_named_before_its_kind() -> None:
    assert words.named({"type": "repository", "id": "ledger"}) == "ledger (repository)"
    assert words.named({"name": "tools/call"}) == "tools/call"
    assert words.named("ada") == "ada"


@pytest.mark.parametrize("kind", ["user", "identity", "person"])
def test_somebody_is_named_without_saying_that_he_is_somebody(kind: str) -> None:
    assert words.named({"type": kind, "id": "ada"}) == "ada"
    assert words.named({"type": "service", "id": "ada"}) == "ada (service)"


def test_an_identity_is_told_as_its_name_and_who_vouches_for_it() -> None:
    told = {
        value: (words.principal(value), words.vouching(value))
        for value in ("https://id.example/issuer|gate", "urn:x|gate", "gate", "gate|")
    }
    assert told == {
        "https://id.example/issuer|gate": ("gate", "id.example/issuer"),
        "urn:x|gate": ("gate", "urn:x"),
        "gate": ("gate", "nobody"),
        "gate|": ("gate|", "nobody"),
    }


@pytest.mark.parametrize(
    ("required", "label"),
    [
        ({"deny"}, "Remark or reason (needed to deny)"),
        ({"approve"}, "Remark or reason (needed to approve)"),
        ({"approve", "deny"}, "Reason"),
        (set(), "Remark or reason (optional)"),
    ],
)
def test_the_one_box_says_which_decision_needs_it(required: set[str], label: str) -> None:
    assert words.remark(required) == label


def test_counts_agree_in_number() -> None:
    assert [words.counted(1, "approval"), words.counted(2, "approval"), words.counted(2, "reply", "replies")] == [
        "1 approval",
        "2 approvals",
        "2 replies",
    ]


def test_outcomes_say_whether_anything_can_still_run() -> None:
    assert "in force" in words.outcome("approved", "active", in_force=True)
    assert "run out" in words.outcome("approved", "active", in_force=False)
    assert "taken back" in words.outcome("approved", "revoked", in_force=False)
    assert "Nothing runs" in words.outcome("denied", None, in_force=False)
    assert "Nothing has run" in words.outcome("approved", "active", in_force=True, reported="failed")
    assert "run out" in words.outcome("approved", "active", in_force=False, reported="failed")
    assert words.outcome("paused", None, in_force=False) == "Nothing runs."


def test_an_approval_that_was_used_promises_no_second_time() -> None:
    assert set(words.USED) < set(words.DISPOSITION)
    for reported in words.USED:
        for approval, in_force in (("active", True), ("active", False), ("revoked", False)):
            text = words.outcome("approved", approval, in_force=in_force, reported=reported)
            assert text.startswith("Used: it ")
            assert "nothing more can run with it" in text
            assert "can be used" not in text
            assert ("taken back" in text) == (approval == "revoked")


def test_dispositions_and_risks_have_words_and_unknown_ones_say_so() -> None:
    assert words.disposition("approved-executed") != words.disposition("something-new")
    assert "does not know" in words.disposition("something-new")
    assert [words.risk("high"), words.risk("odd")] == ["High risk", "Risk not stated"]

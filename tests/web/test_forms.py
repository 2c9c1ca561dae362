"""How strictly a reviewer's form is read; the rules are the project's own."""

import pytest

from arap_service.web.forms import (
    REASON_LIMIT,
    Decision,
    Lifetime,
    Mistakes,
    UnreadableForm,
    lifetimes,
    only,
    read_decision,
    read_reason,
    whole,
)

DENY_NEEDS_REASON = frozenset({"deny"})


def test_an_approval_is_read_with_its_version_and_shortened_lifetime() -> None:
    fields = {"decision": "approve", "version": "3", "lifetime": "300", "reason": " fine \r\n "}
    assert read_decision(fields, reason_required=DENY_NEEDS_REASON) == Decision("approve", 3, "fine", 300)


def test_a_denial_carries_its_reason_and_no_lifetime() -> None:
    fields = {"decision": "deny", "version": "1", "lifetime": "300", "reason": "No.\r\nNot today."}
    assert read_decision(fields, reason_required=DENY_NEEDS_REASON) == Decision("deny", 1, "No.\nNot today.", None)


@pytest.mark.parametrize("reason", ["", "  \r\n"])
def test_a_missing_reason_is_asked_for_beside_its_field(reason: str) -> None:
    read = read_decision({"decision": "deny", "version": "1", "reason": reason}, reason_required=DENY_NEEDS_REASON)
    assert isinstance(read, Mistakes)
    assert list(read.messages) == ["reason"]


def test_a_reason_is_optional_where_the_template_says_so() -> None:
    read = read_decision({"decision": "deny", "version": "1"}, reason_required=frozenset())
    assert read == Decision("deny", 1, None, None)


def test_a_reason_that_is_too_long_is_kept_for_editing_up_to_the_limit() -> None:
    read = read_reason({"reason": "a" * (REASON_LIMIT + 1)}, needed=False)
    assert isinstance(read, Mistakes)
    assert read.typed == {"reason": "a" * REASON_LIMIT}


@pytest.mark.parametrize("nothing", ["", " \n", "\u200b", "\u3164 \u2800\u00a0", "\U000e0041"])
def test_a_reason_of_which_nothing_can_be_seen_is_none(nothing: str) -> None:
    read = read_reason({"reason": nothing}, needed=True)
    assert isinstance(read, Mistakes)
    assert read.messages["reason"].startswith("Please say why.")
    assert read_reason({"reason": f"{nothing}x"}, needed=True) == f"{nothing}x".strip()


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x0b", "\x85", "\ud800"])
def test_a_control_character_in_a_reason_is_refused_and_removed(character: str) -> None:
    read = read_reason({"reason": f"a{character}b"}, needed=True)
    assert isinstance(read, Mistakes)
    assert read.typed == {"reason": "ab"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"decision": "maybe", "version": "1"},
        {"decision": "approve"},
        {"decision": "approve", "version": ""},
        {"decision": "approve", "version": "-1"},
        {"decision": "approve", "version": "1e3"},
        {"decision": "approve", "version": "\u0661"},
        {"decision": "approve", "version": "1" * 10},
        {"decision": "approve", "version": "1", "lifetime": "0"},
        {"decision": "approve", "version": "1", "lifetime": "long"},
    ],
)
def test_a_form_that_no_page_of_ours_sends_is_unreadable(fields: dict[str, str]) -> None:
    with pytest.raises(UnreadableForm):
        read_decision(fields, reason_required=frozenset())


def test_a_field_comes_once_and_is_text() -> None:
    assert only([("a", "1"), ("b", "2")]) == {"a": "1", "b": "2"}
    with pytest.raises(UnreadableForm):
        only([("a", "1"), ("a", "1")])
    with pytest.raises(UnreadableForm):
        only([("a", b"1")])


def test_a_number_that_is_absent_is_unreadable() -> None:
    with pytest.raises(UnreadableForm):
        whole(None)


def test_lifetimes_start_with_the_longest_and_only_shorten() -> None:
    assert lifetimes(900) == [
        Lifetime("", "15 minutes (longest allowed)"),
        Lifetime("300", "5 minutes"),
        Lifetime("60", "1 minute"),
    ]
    assert [choice.value for choice in lifetimes(30)] == [""]

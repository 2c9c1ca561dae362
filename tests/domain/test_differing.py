"""Two values side by side, member by member and exactly; design.md section 7."""

import pytest

from arap_service.domain.differing import Comparison, Difference, compare


def beside(before: object, now: object, **changes: object) -> Comparison:
    given = {"reveals": ["whole"], "mask": ["token"], **changes}
    return compare(before, now, **given)  # type: ignore[arg-type]


def test_what_is_new_what_changed_and_what_is_gone_is_told_in_the_order_of_now() -> None:
    before = {"to": "DE1", "amount": 100, "memo": "x"}
    now = {"amount": 100, "to": "DE2", "urgent": True}
    assert beside(before, now) == Comparison(
        (
            Difference("/to", "changed", "DE1", "DE2", "text", "text"),
            Difference("/urgent", "added", "", "true", "absent", "yes-no"),
            Difference("/memo", "gone", "x", "", "text", "absent"),
        ),
        equal=1,
        secrets=0,
        hidden=0,
    )


@pytest.mark.parametrize(
    ("before", "now", "kinds"),
    [(1, "1", ("number", "text")), (None, "null", ("nothing", "text")), (True, "true", ("yes-no", "text"))],
)
def test_values_that_look_alike_and_are_not_of_one_kind_differ(before: object, now: object, kinds: object) -> None:
    [found] = beside({"v": before}, {"v": now}).differences
    assert (found.kind_before, found.kind_after) == kinds


def test_numbers_are_compared_as_they_are_hashed() -> None:
    assert beside({"v": 1}, {"v": 1.0}).differences == ()
    assert len(beside({"v": 0.1}, {"v": 0.10000000000000002}).differences) == 1
    assert len(beside({"v": 9007199254740993}, {"v": 9007199254740992}).differences) == 1


def test_a_hidden_character_and_its_written_form_are_two_texts_and_two_names() -> None:
    assert len(beside({"v": "a\u202e"}, {"v": "a⟦U+202E⟧"}).differences) == 1
    two = {"a\u202e": 1, "a⟦U+202E⟧": 2}
    assert beside(two, dict(two)).equal == 2


def test_a_change_at_the_end_of_a_long_text_is_what_is_shown_of_it() -> None:
    long = "ab" * 10_000
    [found] = beside({"v": long + " to ann"}, {"v": long + " to eve"}).differences
    assert found.before.endswith(" to ann")
    assert found.after.endswith(" to eve")
    assert len(found.after) < 60
    assert found.equal_before + len(found.after) == len(long) + 7
    assert found.equal_behind == 0


def test_a_change_at_the_beginning_keeps_the_count_of_what_follows() -> None:
    [found] = beside({"v": "x" + "ab" * 500}, {"v": "yz" + "ab" * 500}).differences
    assert (found.equal_before, found.equal_behind) == (0, 960)
    assert (found.before[:1], found.after[:2]) == ("x", "yz")


def test_secrets_are_never_compared_nor_told() -> None:
    found = beside({"token": "old", "v": 1}, {"token": "new", "v": 1})
    assert (found.differences, found.secrets, found.equal) == ((), 1, 1)


def test_what_either_side_hides_is_neither_told_nor_compared() -> None:
    found = beside({"to": "a", "memo": "old"}, {"to": "b", "memo": "new"}, reveals=["whole", ["/to"]])
    assert [each.pointer for each in found.differences] == ["/to"]
    assert found.hidden == 1
    assert "old" not in repr(found)

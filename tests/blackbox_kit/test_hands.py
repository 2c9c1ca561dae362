"""What a deployment's control file gives to a suite; docs/conformance.md."""

import pytest

from blackbox_kit.hands import ControlInvalid, each_its_own


def test_callers_with_tokens_of_their_own_are_told_apart() -> None:
    each_its_own({"first": "a", "second": "b", "third": None, "fourth": None})


def test_two_callers_with_one_token_are_named_and_the_token_is_not() -> None:
    with pytest.raises(ControlInvalid, match="first and third have the same token") as refused:
        each_its_own({"first": "hush", "second": "b", "third": "hush"})
    assert "hush" not in str(refused.value)

"""The ids that a gate makes when nobody replaces its parts."""

import base64

import pytest

from mcp_gate.runtime import Parts

COUNT = 2_000


@pytest.mark.requirement("PEP-72")
def test_a_task_id_is_128_fresh_random_bits() -> None:
    """SEP-2848, Security Implications: no counter, clock or process shows in an id, so none can be guessed."""
    new_id = Parts().new_id
    ids = [new_id("tsk") for _ in range(COUNT)]
    assert len(set(ids)) == COUNT
    tokens = [base64.urlsafe_b64decode(made.removeprefix("tsk_") + "==") for made in ids]
    assert {len(token) for token in tokens} == {16}
    ones = [sum(token[bit // 8] >> bit % 8 & 1 for token in tokens) for bit in range(128)]
    # A fair bit lies within 9 standard deviations of one half; a bit of a clock or counter does not.
    assert all(abs(count - COUNT / 2) < 200 for count in ones)

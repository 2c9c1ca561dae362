"""Texts that clients and models read. Provenance: SEP-2848 "Execution disposition", "Model-facing text"; PEP-J, K."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_gate import texts
from mcp_gate.events import Cause
from mcp_gate.lifecycle import DISPOSITIONS, ENDINGS, Ending, Phase
from mcp_gate.texts import (
    DISPOSITION,
    ENDED,
    ENVELOPE,
    WORKING,
    Wording,
    redacted,
    sanitised,
    sanitised_tree,
    strings_in,
)

COMPLETING = [cause for cause in Cause if ENDINGS[cause] in DISPOSITIONS]


def test_every_phase_and_every_cause_has_its_fixed_text() -> None:
    assert set(WORKING) == set(Phase) - {Phase.DONE}
    assert set(ENDED) == set(Cause)


@pytest.mark.requirement("PEP-128")
def test_no_text_of_an_open_task_sounds_done() -> None:
    for phase, text in WORKING.items():
        assert ("has not run" in text) == (phase is not Phase.CLAIMED)
        assert not any(word in text for word in ("approved", "completed", "succeeded", "executed"))
    assert "has not run" in texts.IMMEDIATE_TEXT
    assert "completed" not in texts.IMMEDIATE_TEXT


@pytest.mark.requirement("PEP-119", "PEP-120", "PEP-121")
@pytest.mark.parametrize("cause", COMPLETING)
def test_body_disposition_and_envelope_agree(cause: Cause) -> None:
    result = Wording().completed(cause)
    said = " ".join(part["text"] for part in result["content"])
    disposition = result["_meta"][DISPOSITION]
    assert disposition == ENDINGS[cause]
    assert ("did not run" in said) == (disposition == Ending.DENIED_NOT_EXECUTED)
    assert ("may have run" in said) == (disposition == Ending.OUTCOME_UNKNOWN)
    envelope = result["_meta"].get(ENVELOPE)
    assert (envelope is not None) == (disposition == Ending.DENIED_NOT_EXECUTED)
    if envelope is not None:
        assert envelope == {"reason": "insufficient_authorization", "remediation": "unavailable"}


@pytest.mark.parametrize("cause", sorted(set(Cause) - set(COMPLETING)))
def test_what_failed_or_was_cancelled_has_no_result(cause: Cause) -> None:
    with pytest.raises(ValueError, match="disposition"):
        Wording().completed(cause)


@pytest.mark.requirement("PEP-122")
def test_the_disposition_stays_when_the_envelope_is_switched_off() -> None:
    plain = Wording(envelope=False)
    assert plain.completed(Cause.DENIED)["_meta"] == {DISPOSITION: "denied-not-executed"}
    assert "_meta" not in plain.plain_denial("x")
    assert plain.envelope_of(Phase.PENDING, None) == {}


@pytest.mark.requirement("PEP-124")
def test_the_tools_structured_content_is_left_as_it_is() -> None:
    result = Wording().executed({"content": [], "structuredContent": {"a": 1}}, is_error=False, artifacts=())
    assert result["structuredContent"] == {"a": 1}
    assert "structuredContent" not in Wording().executed({"content": "odd"}, is_error=False, artifacts=())


@pytest.mark.requirement("PEP-127")
@given(st.text(max_size=2000))
def test_somebody_elses_words_come_out_as_one_line_of_visible_characters(words: str) -> None:
    said = sanitised(words)
    assert len(said) <= 500
    assert said == " ".join(said.split())
    assert sanitised(said) == said or said.endswith("…")
    said.encode()


def test_bidi_zero_width_tag_and_control_characters_are_taken_out() -> None:
    assert sanitised("a\u202eb\u200bc\U000e0041d\x00e\r\nf\u2028g\ud800") == "abcd e f g"
    assert sanitised_tree({"n\u200b": ["x\u202e", 1, None]}) == {"n": ["x", 1, None]}


def test_artifacts_are_withheld_wherever_they_stand_the_longest_first() -> None:
    value = {"https://b.example/1": [{"deep": "see https://b.example/1/cancel"}], "n": 1, "t": True}
    found = redacted(value, ["https://b.example/1", "https://b.example/1/cancel", "short", ""])
    assert found == {"[withheld]": [{"deep": "see [withheld]"}], "n": 1, "t": True}
    assert redacted(value, []) == value
    assert redacted("short", ["short"]) == "short"


def test_strings_are_found_at_any_depth_but_not_among_names() -> None:
    assert strings_in({"name": ["a", {"b": "c"}, 1, None], "x": ("d",)}) == {"a", "c", "d"}


def test_results_are_plain_json() -> None:
    for cause in COMPLETING:
        assert json.loads(json.dumps(Wording().completed(cause))) == Wording().completed(cause)

"""What of an exchange may be shown, and how."""

from blackbox_kit.judging import without_secrets
from blackbox_kit.model import Check, Exchange, Level, Outcome, Verdict
from blackbox_kit.redaction import LONGEST_NOTE, REDACTED, note, redacted, visible

TOKEN = "T0ken-" + "x9" * 20


async def _nothing(_: object) -> None:
    """Look at nothing."""


def test_a_secret_is_taken_out_before_anything_is_cut() -> None:
    for place in range(LONGEST_NOTE):
        shown = note("-" * place + TOKEN + "=" * LONGEST_NOTE, [TOKEN])
        assert "T0ken" not in shown
        assert "x9x9" not in shown


def test_a_long_note_keeps_its_beginning_and_its_end() -> None:
    shown = note("the call was answered with " + "y" * 5_000 + ", not error -32602", [])
    assert shown.startswith("the call was answered with y")
    assert shown.endswith(", not error -32602")
    assert len(shown) < LONGEST_NOTE + 10


def test_secrets_are_no_names_of_members_either_and_none_is_lost() -> None:
    assert redacted({TOKEN: 1, f"a {TOKEN}": [{TOKEN: TOKEN}]}, [TOKEN]) == {
        REDACTED: 1,
        f"a {REDACTED}": [{REDACTED: REDACTED}],
    }
    assert redacted({"a": 1, "A": 2}, ["a"]) == {REDACTED: 1, REDACTED + "'": 2}


def test_secrets_are_known_in_any_case_and_as_json_text_and_urls_spell_them() -> None:
    for spelt in ('Zo\u00eb "Q"', 'zo\u00cb "q"', 'Zo\\u00eb \\"Q\\"', "Zo%C3%AB%20%22Q%22"):
        assert redacted(f"ask {spelt} now", ['Zo\u00eb "Q"']) == f"ask {REDACTED} now"


def test_nesting_without_end_is_cut_and_breaks_nothing() -> None:
    deep: object = TOKEN
    for _ in range(100_000):
        deep = [deep]
    assert "\u2026" in str(redacted(deep, [TOKEN]))


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert visible("\x1b[2Jfine\x9b1m\u202e \ud800\n") == "\\x1b[2Jfine\\x9b1m\\u202e \\ud800\\n"
    outcome = Outcome(Check("x", "g", Level.MUST, _nothing), Verdict.FAIL, "\x1b[2J gone", 0.0, (Exchange({}, None),))
    assert without_secrets(outcome, []).note == "\\x1b[2J gone"

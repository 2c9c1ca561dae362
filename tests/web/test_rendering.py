"""What pages make of untrusted text, and what they never leave out; ARS-126, design.md section 7."""

import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arap_service.domain.visible import is_hidden
from arap_service.views import ArgumentView, HistoryView, RequestDetail, StepView, VoteView
from arap_service.web.outcomes import outcome_of
from arap_service.web.pages import Part, Wanted
from arap_service.web.rendering import asset_path, assets, render
from tests.web.samples import APPROVED, DETAIL, IN_FORCE, PAGE, reported, request_values, row

CHOICES: dict[str, dict[str, str]] = {"template": {}, "risk": {}, "step": {}, "due": {}}
ATTACK = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}</pre>\u202egnp.exe\u200b\x1b[31m"


class Structure(HTMLParser):
    """Tags, attribute names and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def structure(text: str) -> Structure:
    parsed = Structure()
    parsed.feed(text)
    return parsed


def poisoned(text: str) -> RequestDetail:
    """The sample with every text that somebody else chose replaced by `text`."""
    return replace(
        DETAIL,
        effect=text,
        explanation=text,
        caution=text,
        subject={"type": text, "id": text},
        resource={"type": text, "id": text},
        action={"name": text},
        submitter=text,
        client_id=text,
        agent=text,
        server=text,
        tool=text,
        tool_title=text + "!",
        arguments=(ArgumentView(pointer="/" + text, text=text, masked=False, suspicious=True),),
        facts=(ArgumentView(pointer="/" + text, text=text, masked=True, suspicious=True),),
        hidden=("/" + text,),
        justification=text,
        reason=text,
        rule_id=text,
        template_title=text,
        steps=(StepView(id="s", title=text, quorum=1, approvals=0, denials=1, status="waiting"),),
        votes=(VoteView(at=DETAIL.deadline, step_id="s", voter=text, kind="person", decision="deny", reason=text),),
        history=(HistoryView(at=DETAIL.deadline, kind="voted", who=text, text=text),),
    )


def request_page(detail: RequestDetail, **changes: Any) -> str:
    return bytes(render("request.html", PAGE, **request_values(detail, **changes)).body).decode()


def queue_page(*, mixed: bool = False, **changes: Any) -> str:
    part = Part("For you", [row(**changes)], None, "", "", mixed=mixed)
    values = {"heading": "Requests", "show": "mine", "q": changes.get("effect", ""), "tabs": [], "live": None}
    values |= {"wanted": Wanted("mine", "", None), "bare": "/desk", "choices": CHOICES}
    return bytes(render("queue.html", PAGE, parts=[part], **values).body).decode()


@pytest.mark.requirement("ARS-126")
def test_markup_and_hidden_characters_of_others_stay_inert_on_the_request_page() -> None:
    clean, page = request_page(poisoned("plain")), request_page(poisoned(ATTACK), heading=ATTACK)
    assert structure(page).tags == structure(clean).tags
    assert "onerror" not in dict(structure(page).attributes)
    assert not any(is_hidden(char) for char in page)
    assert "{{7*7}}" in page
    assert page.count("⟦U+202E⟧") >= 15


@pytest.mark.requirement("ARS-126")
def test_markup_and_hidden_characters_of_others_stay_inert_in_the_queue() -> None:
    names = ("effect", "agent", "server", "tool", "template_title")
    clean, page = (queue_page(mixed=True, **dict[str, Any].fromkeys(names, text)) for text in ("plain", ATTACK))
    assert structure(page).tags == structure(clean).tags
    assert not any(is_hidden(char) for char in page)


@pytest.mark.requirement("ARS-126")
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.characters(codec=None), min_size=1, max_size=60))
def test_no_text_changes_the_structure_of_the_page(text: str) -> None:
    parsed = structure(request_page(poisoned(text)))
    assert parsed.tags == structure(request_page(poisoned("plain"))).tags
    assert not any(is_hidden(char) for char in "".join(parsed.texts))


@pytest.mark.requirement("ARS-126")
def test_the_requesters_own_words_are_marked_as_unverified() -> None:
    page = request_page(DETAIL)
    quoted = page[page.index("Their own words") : page.index("</blockquote>")]
    assert "not verified" in quoted
    assert "The nightly report is off by one cent." in quoted


def test_nothing_that_a_decision_needs_is_left_out() -> None:
    page = request_page(replace(DETAIL, hidden=("/memo",)))
    for text in (
        "It commits what is staged at the moment it runs.", "ada@example.com", "coding-agent", "git_commit", "git",
        "/srv/ledger", "Fix rounding of the last digit", "1 value not shown to you", "memo", "Commit needs review",
        "commit-needs-review", "in 14 minutes", "30 Apr 2026, 20:14 UTC", "For 15 minutes at most", "1 of 2 approvals",
        "Linus Example", "Looked at the diff.", DETAIL.arguments_hash or "", DETAIL.id,
    ):  # fmt: skip
        assert text in page, text


def test_a_long_value_is_shown_whole() -> None:
    value = "x" * 20_000 + "END"
    shown = ArgumentView(pointer="/v", text=value, masked=False, suspicious=False)
    assert value in request_page(replace(DETAIL, arguments=(shown,)))


def test_values_that_were_not_verified_against_the_call_are_called_so() -> None:
    assert "could not be compared" in request_page(replace(DETAIL, complete=False))
    assert "could not be compared" not in request_page(DETAIL)


def test_letters_that_look_like_others_are_named_and_told_beside_the_decision() -> None:
    page = request_page(DETAIL)
    assert "holds letters that look like others" not in page
    shown = ArgumentView(pointer="/to", text="tom@p⟦U+0430⟧per.example", masked=False, suspicious=True)
    page = request_page(replace(DETAIL, arguments=(shown,)))
    assert "U+0430 is Cyrillic small letter a" in page
    assert page.index("holds letters that look like others") < page.index('value="approve"')
    assert page.index("<form") < page.index("holds letters that look like others")


def test_who_may_not_decide_sees_why_and_no_form() -> None:
    page = request_page(replace(DETAIL, may_decide=False, why_not="is_submitter"))
    assert "You made this request yourself" in page
    assert "/decision" not in page


def test_while_an_approval_is_in_force_the_page_waits_for_the_report_and_offers_to_take_it_back() -> None:
    page = request_page(IN_FORCE)
    assert "The approval is in force. It can be used for exactly this" in page
    assert "Waiting for gate to report what becomes of it." in page
    assert "/desk/approvals/apr_1/revocation" in page
    assert "What the approval allows" in page
    assert "For 15 minutes</strong> after the decision" in page
    assert f'hx-get="/desk/live/requests/{DETAIL.id}/outcome?version=1"' in page
    assert "/decision" not in page


def test_after_the_tool_has_run_no_word_and_no_button_suggests_that_it_can_run_again() -> None:
    page = request_page(APPROVED)
    assert "Used: it ran once; nothing more can run with it." in page
    assert "It ran once, with the values shown here." in page
    assert "What the approval allowed" in page
    for text in ("in force", "can be used", "Valid until", "/revocation", "checked once more", "hx-get", "Waiting for"):
        assert text not in page, text


def test_an_approval_that_was_not_used_can_still_be_taken_back_after_a_report() -> None:
    page = request_page(reported("denied-not-executed"))
    assert "Nothing has run with it so far." in page
    assert "/revocation" in page
    assert "Valid until" in page


def test_an_approval_that_ran_out_says_when_and_awaits_nothing() -> None:
    late = DETAIL.deadline + timedelta(minutes=2)
    page = request_page(IN_FORCE, outcome=outcome_of(IN_FORCE, now=late))
    assert "Ran out" in page
    assert "No report has come." in page
    for text in ("Valid until", "/revocation", "hx-get", "Waiting for"):
        assert text not in page, text


@pytest.mark.parametrize("status", ["denied", "expired", "cancelled"])
def test_a_request_without_an_approval_says_nothing_of_what_one_would_allow(status: str) -> None:
    page = request_page(replace(DETAIL, status=status, may_decide=False, max_approved_until=None), longest=0)
    for text in ("at most", "0 seconds", "You can make it shorter", "What an approval allows", "hx-get"):
        assert text not in page, text


def test_who_may_not_decide_is_not_told_to_make_the_approval_shorter() -> None:
    assert "You can make it shorter" in request_page(DETAIL)
    page = request_page(replace(DETAIL, may_decide=False, why_not="already_decided"))
    assert "For 15 minutes at most" in page
    assert "You can make it shorter" not in page


def test_a_request_whose_time_is_over_can_only_be_denied() -> None:
    page = request_page(DETAIL, longest=0)
    assert "No time is left." in page
    assert ['value="approve"' in page, 'value="deny"' in page, "0 seconds" in page] == [False, True, False]


def test_both_decisions_are_sent_with_the_one_box_for_a_remark_or_reason() -> None:
    page = request_page(DETAIL)
    form = page[page.index('/decision"') : page.index("</form>", page.index('/decision"'))]
    sent = re.findall(r'name="decision" value="(\w+)"', form)
    assert (sent, page.count('name="decision"'), form.count("<textarea")) == (["approve", "deny"], 2, 1)
    assert "Remark or reason (needed to deny)" in form
    assert " required" not in form


def test_the_box_is_required_where_either_decision_needs_it() -> None:
    form = request_page(replace(DETAIL, reason_required=frozenset({"approve", "deny"})))
    assert 'aria-required="true"' in form


def test_the_sender_and_the_subject_are_told_once_and_plainly() -> None:
    one, two = (
        " ".join(" ".join(structure(request_page(detail)).texts).split())
        for detail in (replace(DETAIL, client_id="gate"), DETAIL)
    )
    assert "Sent by gate Asked" in one
    assert "(user)" not in one
    assert "Wants to use" not in one
    assert "Sent by gate through gate-of-git" in two


def test_why_it_needs_a_person_is_the_explanation_or_failing_that_the_reason() -> None:
    told = re.compile(r"Why it needs a person</dt><dd>(.*?)</dd>")
    assert told.findall(request_page(DETAIL)) == [DETAIL.explanation]
    assert told.findall(request_page(replace(DETAIL, explanation=""))) == ["Commit needs review"]
    assert request_page(DETAIL).count(DETAIL.explanation) == 1


def test_a_list_of_all_requests_shows_the_state_of_each_and_a_risk_that_no_longer_matters_quietly() -> None:
    assert "Waiting for a decision" in queue_page(mixed=True)
    assert "Waiting for a decision" not in queue_page()
    assert 'class="chip risk-medium"' in queue_page(mixed=True)
    settled = queue_page(mixed=True, status="denied")
    assert "Denied" in settled
    assert "risk-medium" not in settled
    assert '<span class="chip settled">Medium risk</span>' in settled


def test_reviewer_pages_speak_no_protocol() -> None:
    jargon = re.compile(r"\b(tokens?|denial binding|jti|PDP|PEP|ARAP|AuthZEN|scope|client[_ ]id|payload|JSON|task)\b")
    for text in (request_page(DETAIL), request_page(IN_FORCE), request_page(APPROVED), queue_page(mixed=True)):
        words = " ".join(structure(text).texts).replace(DETAIL.id, "")
        assert jargon.findall(words) == []


def test_every_linked_file_is_served_under_a_version_of_its_content() -> None:
    linked = set(re.findall(r'(?:href|src)="(/desk/static/[^"]+)"', request_page(DETAIL)))
    assert linked == {asset_path(name) for name in ("mark.svg", "pico.min.css", "desk.css", "htmx.min.js", "desk.js")}
    assert len({asset.version for asset in assets().values()}) == len(assets())


def test_pages_hold_no_inline_code_and_name_no_other_host() -> None:
    for text in (request_page(DETAIL), request_page(IN_FORCE), queue_page()):
        parsed = structure(text)
        assert not [name for name, _ in parsed.attributes if name == "style" or name.startswith("on")]
        assert all(not (value or "").startswith(("http:", "https:", "//")) for _, value in parsed.attributes)
        assert re.findall(r"<script(?! src=)", text) == []

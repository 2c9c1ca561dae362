"""A person at the browser tells the demonstration's story to its end, as `make demo` asks him to."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import PATIENCE_MS
from tests.demo_process import demo
from tests.stories.test_demo import git

pytestmark = [pytest.mark.browser]
TURN = re.compile(r"Open\s+(?P<desk>http\S+).*?Log in\s+(?P<login>\S+).*?Password\s+(?P<password>\S+)", re.DOTALL)


@pytest.mark.timeout(240)
def test_a_person_approves_one_commit_and_denies_the_other(chromium_browser: Browser, tmp_path: Path) -> None:
    with demo(folder=tmp_path) as told:
        turn = TURN.search(told.until(lambda text: TURN.search(text) is not None))
        assert turn is not None
        page = chromium_browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(turn["desk"])
        page.get_by_label("Account").fill(turn["login"])
        page.get_by_label("Password").fill(turn["password"])
        page.get_by_role("button", name="Log in").click()

        page.get_by_role("link", name="Retry a payment once when the bank times out").click()
        shown = page.locator("main")
        for fact in (
            "dana@demo.example",
            "coding-agent",
            str(tmp_path / "git" / "repository"),
            "Retry a payment once when the bank times out",
            "The commit takes what is staged at the moment it runs",
        ):
            expect(shown).to_contain_text(fact)
        page.get_by_role("button", name="Approve").click()
        expect(shown).to_contain_text("Used: it ran once; nothing more can run with it.")

        told.until(lambda text: text.count("Your turn") == 2)
        page.goto(turn["desk"])
        page.get_by_role("link", name="wip").click()
        page.get_by_label("Remark or reason").fill("The message must say what changes")
        page.get_by_role("button", name="Deny").click()
        expect(shown).to_contain_text("Denied")

        assert told.ended() == 0, told.output
        page.close()
    assert "approved-executed" in told.output
    assert "denied-not-executed" in told.output
    assert "Retry a payment once when the bank times out" in told.output
    assert git(tmp_path / "git" / "repository", "log", "--format=%s")[0].startswith("Retry a payment once")

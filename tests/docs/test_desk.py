"""docs/desk.md: every picture that it shows is made by a test of that page, and its words are those of the pages."""

import re

from tests.browser import test_states, test_states_changing
from tests.browser.states import JARGON, NAMES
from tests.docs.pages import DOCS

PAGE = (DOCS / "desk.md").read_text(encoding="utf-8")


def test_the_pictures_are_those_that_the_tests_make() -> None:
    every = (*test_states.STATES, *test_states_changing.STATES, *test_states_changing.EMPTY)
    shown = re.findall(r"!\[[^\]]+\]\(images/([\w-]+)\.png\)", PAGE)
    assert sorted(shown) == sorted(state.name for state in every if state.in_guide)
    assert {path.stem for path in (DOCS / "images").glob("*.png")} == set(shown)


def test_the_words_of_the_guide_stand_on_the_pages_and_are_nobodys_jargon() -> None:
    said = "\n".join(path.read_text(encoding="utf-8") for path in NAMES.glob("*.txt"))
    words = re.findall(r"^\| ([^|]+?) \| [^|]+ \|$", PAGE, re.MULTILINE)[1:]
    assert len(words) > 10
    assert [word for word in words if word not in said] == []
    assert JARGON.findall(PAGE) == []

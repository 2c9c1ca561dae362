"""A reader who has no mouse: presses keys one after another, and looks where the focus is.

Nothing here puts the focus anywhere: it moves as the browser moves it. What is not found within `MOST` presses is not
reachable for somebody who counts his time.
"""

from dataclasses import dataclass
from typing import Any, Final

from playwright.sync_api import Page, expect

MOST: Final = 90
# The name as a screen reader says it, as far as our pages give one; a page without a focus has its body there.
_WHERE: Final = """() => {
  const here = document.activeElement;
  if (!here || here === document.body) return { tag: "", name: "", checked: null };
  const labels = [...(here.labels ?? [])].map(label => label.textContent).join(" ");
  const name = here.getAttribute("aria-label") ?? (labels || here.textContent);
  return { tag: here.localName, name: name.replace(/\\s+/g, " ").trim(), checked: here.checked ?? null };
}"""


@dataclass(slots=True)
class Keyboard:
    """The keys of one page; `presses` counts them all."""

    page: Page
    presses: int = 0

    def here(self) -> dict[str, Any]:
        """What is in focus: its tag, its name, and whether it is ticked."""
        found: dict[str, Any] = self.page.evaluate(_WHERE)
        return found

    def press(self, key: str, *, times: int = 1) -> None:
        """Press a key."""
        for _ in range(times):
            self.page.keyboard.press(key)
            self.presses += 1

    def type(self, text: str) -> None:
        """Type a text; nothing is there before."""
        self.page.keyboard.type(text)
        self.presses += len(text)

    def to(self, name: str, tag: str = "", *, key: str = "Tab") -> None:
        """Press Tab until what is called like this is in focus.

        Raises:
            AssertionError: It is not among the next `MOST` stops.
        """
        passed: list[str] = []
        for _ in range(MOST):
            self.press(key)
            found = self.here()
            if found["name"].startswith(name) and tag in {"", found["tag"]}:
                return
            passed.append(found["name"][:60])
        raise AssertionError(f"the keyboard does not reach {name!r}; it came by {passed}")

    def back_to(self, name: str, tag: str = "") -> None:
        """The same towards the beginning."""
        self.to(name, tag, key="Shift+Tab")

    def at(self, name: str) -> None:
        """Insist that this is in focus already, because the page put it there."""
        assert self.here()["name"].startswith(name), self.here()

    def go(self, heading: str, key: str = "Enter") -> None:
        """Press what is in focus, which leads to a page with this heading."""
        with self.page.expect_navigation():
            self.press(key)
        self.sees(heading, heading=True)

    def follow(self, name: str, heading: str, tag: str = "") -> None:
        """Go to what is called like this, press it, and arrive at a page with this heading."""
        self.to(name, tag)
        self.go(heading)

    def write(self, label: str, text: str) -> None:
        """Fill in the field with this label, in the place of what it holds."""
        self.to(label)
        self.press("Control+a")
        self.type(text)

    def choose(self, label: str, option: str) -> None:
        """Choose in a list by typing what the choice begins with."""
        self.to(label, "select")
        self.type(option)
        shown = self.page.evaluate("document.activeElement.selectedOptions[0].textContent")
        assert shown.startswith(option), shown

    def sees(self, text: str, *, heading: bool = False) -> None:
        """Insist that this is on the page."""
        where = self.page.locator("main")
        found = where.get_by_role("heading", name=text) if heading else where.get_by_text(text)
        expect(found.first).to_be_visible()

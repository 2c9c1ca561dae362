"""What every page of the desk must be, whatever stands on it: looked at in the window that shows it.

axe-core, WCAG 2.2: contrast, names, structure. 2.4.7 and 1.4.11: whatever has the focus shows it. 2.1.1: what can be
used can be reached by Tab. 1.4.10: nothing is wider than the window. A page is loaded once; scheme and size change
around it.
"""

import re
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import Page

AXE: Final = (Path(__file__).parent / "axe.min.js").read_text(encoding="utf-8")
STANDARDS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CONTRAST: Final = {"type": "rule", "values": ["color-contrast"]}
LOOKS: Final[tuple[tuple[Literal["light", "dark"], int], ...]] = (
    ("light", 1440),
    ("dark", 1440),
    ("dark", 320),
    ("light", 320),
)
# Every stop of the Tab key is marked; told is whether its outline can be seen: thick enough, and 3 : 1 to the paper.
_WATCH: Final = """() => {
  document.activeElement.blur();
  document.querySelectorAll("[data-stop]").forEach(each => delete each.dataset.stop);
  const parts = (colour) => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return [[r, g, b], a]; };
  const light = (rgb) => {
    const [r, g, b] = rgb.map(v => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  window.unseen = [];
  window.watching?.abort();
  window.watching = new AbortController();
  document.addEventListener("focusin", ({ target: here }) => {
    if (here.dataset.stop || here.tabIndex < 0) return;  // what only a script or a click puts into focus
    here.dataset.stop = "seen";
    let paper = here.parentElement;
    while (paper.parentElement && parts(getComputedStyle(paper).backgroundColor)[1] < 1) paper = paper.parentElement;
    const [ground] = parts(getComputedStyle(paper).backgroundColor);
    const seen = [null, "::after"].map(part => getComputedStyle(here, part)).some(style => {
      if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) return false;
      const [rgb, a] = parts(style.outlineColor);
      const drawn = rgb.map((v, i) => v * a + ground[i] * (1 - a));
      const [more, less] = [light(drawn), light(ground)].sort((a, b) => b - a);
      return (more + 0.05) / (less + 0.05) >= 3;
    });
    if (!seen) window.unseen.push(`no outline: ${here.outerHTML.slice(0, 160)}`);
  }, { signal: window.watching.signal });
  const stops = document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']").length;
  return stops + 6 * document.querySelectorAll("input[type=date], input[type=datetime-local], input[type=time]").length;
}"""
# Of a set of radio buttons Tab reaches one, and the arrows the others.
_MISSED: Final = """() => [...(document.querySelector("dialog[open]") ?? document).querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
  .filter(each => each.dataset.stop === undefined && !each.disabled
    && each.checkVisibility({ visibilityProperty: true })
    && !(each.type === "radio" && document.querySelector(`[name="${each.name}"][data-stop]`)))
  .map(each => each.outerHTML.slice(0, 160))"""
_NORMAL: Final = (
    (re.compile(r"\d{1,2} [A-Z][a-z]{2} \d{4}, \d{2}:\d{2} [A-Z]{3,4}"), "<moment>"),
    (re.compile(r"\b\d{4}-\d{2}-\d{2}\b"), "<day>"),
    (re.compile(r"\b(?:[a-z]+_)[A-Za-z0-9_-]{16,}"), "<reference>"),
    (re.compile(r"\b(?:sha-?256[:=-])?[0-9a-f]{40,}\b|sha-256=:[^:]+:|\b[A-Za-z0-9_-]{43}\b"), "<fingerprint>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<here>"),
    (re.compile(r"\bjust now\b|\bin \d+ \w+(?: \d+ \w+)?|\b\d+ \w+(?: \d+ \w+)? ago\b"), "<when>"),
)


def violations(page: Page, rules: object = STANDARDS) -> list[Any]:
    """What axe finds, short enough to read."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(AXE)
    found = page.evaluate("rules => axe.run({runOnly: rules, resultTypes: ['violations']})", rules)
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]]


def unfold(page: Page) -> None:
    """Open what is folded, so that it is looked at as well."""
    page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true })")


def look(page: Page, scheme: Literal["light", "dark"], width: int) -> None:
    """Show the page to somebody with this scheme and this window."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})


def faults(page: Page) -> list[str]:
    """What is wrong with the page in any scheme and size; every rule in both sizes, contrast in all four."""
    found: list[str] = []
    for (scheme, width), rules in zip(LOOKS, (STANDARDS, CONTRAST, STANDARDS, CONTRAST), strict=True):
        look(page, scheme, width)
        found += [f"{scheme} {width}: {rule} {nodes}" for rule, nodes in violations(page, rules)]
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            found.append(f"{scheme} {width}: {wide} wide")
    return found


def unreachable(page: Page) -> list[str]:
    """What Tab does not come to, and stops at which nobody sees where he is."""
    stops: int = page.evaluate(_WATCH)
    page.evaluate("window.scrollTo(0, 0)")
    page.mouse.click(0, 0)
    for _ in range(stops + 2):
        page.keyboard.press("Tab")
    missed = [f"not reached: {html}" for html in page.evaluate(_MISSED)]
    return [*page.evaluate("window.unseen"), *missed]


def names(page: Page) -> str:
    """The page as a screen reader has it: roles and names; what differs from run to run under a word of its own."""
    told = page.locator("body").aria_snapshot()
    for pattern, word in _NORMAL:
        told = pattern.sub(word, told)
    return told + "\n"


def words(page: Page) -> str:
    """What a reader reads, without values that came from outside."""
    text: str = page.evaluate(
        """() => { const copy = document.body.cloneNode(true);
        copy.querySelectorAll("pre, code, blockquote, .values, [data-row], h1, select, label[for^=propose]")
          .forEach(each => each.remove());
        return copy.textContent; }"""
    )
    return text

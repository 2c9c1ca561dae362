"""Renders `docs/asvs.yaml`, how we stand to OWASP ASVS 5.0 at levels 1 and 2, as the page `docs/asvs.md`.

`python -m tools.asvs` writes the page; `--check` only says whether it is current. A row that is of no known kind, or
that claims something with neither a test nor the reason why there is none, is an error.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

DOCS: Final = Path(__file__).parent.parent / "docs"
ROWS: Final = DOCS / "asvs.yaml"
PAGE: Final = DOCS / "asvs.md"
KINDS: Final = ("met", "partly", "open", "does not apply", "operator")
CHAPTERS: Final = (
    "Encoding and sanitization",
    "Validation and business logic",
    "Web frontend",
    "APIs",
    "Files",
    "Authentication",
    "Sessions",
    "Authorization",
    "Self-contained tokens",
    "OAuth and OIDC",
    "Cryptography",
    "Secure communication",
    "Configuration",
    "Data protection",
    "Coding and architecture",
    "Logging and errors",
    "WebRTC",
)
_HEAD: Final = """# OWASP ASVS 5.0, levels 1 and 2

Every item of the [Application Security Verification Standard](https://github.com/OWASP/ASVS) 5.0.0 at levels 1 and 2,
in a few words of ours, for the approval service and its desk. Written by its authors and not by an assessor; whoever
assesses reads the items themselves. **met**: as it says, with its test. **partly**: what is missing stands there.
**open**: it applies, and we fail it. **operator**: whoever runs the service sees to it.

This page is made from `asvs.yaml` by `python -m tools.asvs`.
"""


class Unclear(ValueError):
    """A row says too little."""


def rows() -> list[Mapping[str, Any]]:
    """The rows as they are written.

    Raises:
        Unclear: One of them is not as a row has to be.
    """
    found: list[Mapping[str, Any]] = yaml.safe_load(ROWS.read_text(encoding="utf-8"))["items"]
    for row in found:
        if row["is"] not in KINDS:
            raise Unclear(f"{row['id']} is {row['is']}")
        if row["is"] in {"met", "partly"} and bool(row.get("tests")) == bool(row.get("untested")):
            raise Unclear(f"{row['id']} needs either tests or the reason why it has none")
        if row["is"] != "met" and not row.get("how"):
            raise Unclear(f"{row['id']} does not say why")
    return found


def page() -> str:
    """The whole page."""
    found = rows()
    counted = Counter(row["is"] for row in found)
    numbers = ", ".join(f"{counted[kind]} {kind}" for kind in KINDS)
    return "\n".join([_HEAD, f"Of {len(found)} items: {numbers}.", *_chapters(found), ""])


def _chapters(found: list[Mapping[str, Any]]) -> Iterator[str]:
    for number, title in enumerate(CHAPTERS, start=1):
        yield f"\n## {number} {title}\n\n| item | asks | stands | how, or why not | test |\n|---|---|---|---|---|"
        for row in found:
            if row["id"].startswith(f"{number}."):
                stands = f"**{row['is']}**" if row["is"] in {"open", "partly"} else row["is"]
                tests = "<br>".join(f"`{test}`" for test in row.get("tests", ()))
                without = {
                    "open": "none: it is not there",
                    "operator": "none: not ours",
                    "does not apply": "none needed",
                }
                told = tests or (f"none: {row['untested']}" if "untested" in row else without[row["is"]])
                yield f"| {row['id']} | {row['asks']} | {stands} | {row.get('how', '')} | {told} |"


def main() -> None:
    """Write the page, or say that it is not current."""
    made = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(made, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != made:
        sys.exit("docs/asvs.md is not current; run python -m tools.asvs")


if __name__ == "__main__":
    main()

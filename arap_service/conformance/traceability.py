"""Reads `arap.yaml`: every normative sentence, with the checks that look at it or the reason why none can.

`python -m arap_service.conformance.traceability` prints how many there are.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

import yaml

FILE: Final = "arap.yaml"
BINDING: Final = ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT")


def rows() -> Sequence[Mapping[str, Any]]:
    """The rows of the file; a sentence that several checks look at has one for each."""
    text = resources.files("arap_service.conformance").joinpath(FILE).read_text(encoding="utf-8")
    found: Sequence[Mapping[str, Any]] = yaml.safe_load(text)["requirements"]
    return found


def sentences(found: Sequence[Mapping[str, Any]]) -> Mapping[tuple[str, str, str, str], tuple[str, ...]]:
    """Each sentence (source, section, level, text) and its checks, none where it cannot be observed."""
    checks: dict[tuple[str, str, str, str], tuple[str, ...]] = {}
    for row in found:
        sentence = (row.get("source", "profile"), row["section"], row["level"], row["text"])
        checks[sentence] = (*checks.get(sentence, ()), *([row["check"]] if "check" in row else []))
    return checks


def counted() -> str:
    """How many sentences there are of each level, and how many of them a check looks at."""
    found = sentences(rows())
    checks = {check for named in found.values() for check in named}
    levels = Counter(level for _, _, level, _ in found)
    looked_at = Counter(level for (_, _, level, _), named in found.items() if named)
    lines = [f"{level:<10} {levels[level]:>3}, {looked_at[level]:>3} looked at" for level in BINDING]
    total = sum(levels[level] for level in BINDING)
    seen = sum(looked_at[level] for level in BINDING)
    lines.append(f"{total} normative sentences: {seen} looked at by checks, {total - seen} with the reason why not")
    lines.append(f"{levels['stated']} more that the text states without a keyword; {len(checks)} checks in all")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(counted() + "\n")

"""What a reason must look like: whether one is needed for a decision, and the pattern that it must contain.

Patterns are those of a regular expression engine whose time is linear in the text, so that neither a rules file nor a
reason can make it hang; what such an engine cannot do (references back, looks around) is refused at load.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs

REQUIRED: Final = "required"
PATTERN: Final = "pattern"


@dataclass(frozen=True, slots=True)
class ReasonRule:
    """A pattern that the reason of a decision must contain, and the hint that a reviewer reads before he writes."""

    pattern: str
    hint: str

    def fits(self, reason: str) -> bool:
        """Whether `reason` contains the pattern."""
        return _compiled(self.pattern).is_valid(reason)


def is_usable(pattern: str) -> bool:
    """Whether `pattern` is a regular expression that can be tried in linear time."""
    try:
        _compiled(pattern)
    except (ValueError, jsonschema_rs.ValidationError):
        return False
    return True


def reason_fault(template: Mapping[str, Any], decision: str, reason: str | None) -> str | None:
    """The code of what is wrong with the reason of a decision, by the template as it stood at submission."""
    if reason is None:
        return REQUIRED if decision in template["reason_required"] else None
    rule = template.get("reasons", {}).get(decision)
    return PATTERN if rule is not None and not ReasonRule(**rule).fits(reason) else None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())

"""Takes out of an outcome what nobody may read in it: tokens and keys, and the texts that the control file hides."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from blackbox_kit.judging import without_secrets
from blackbox_kit.model import Exchange, Outcome
from blackbox_kit.redaction import REDACTED

LONGEST_NOTE: Final = 300


def shown(outcome: Outcome, *, secrets: Collection[str], hidden: Collection[str]) -> Outcome:
    """The outcome as it may be shown. Its note is cut after that only, so that half a token is never left."""
    kept = {one for one in secrets if one}
    patterns = [re.compile(re.escape(one), flags) for one, flags in _longest_first(kept, hidden)]
    exchanges = tuple(Exchange(_without(one.sent, patterns), _without(one.came, patterns)) for one in outcome.exchanges)
    note = str(_without(outcome.note, patterns))
    note = note if len(note) <= LONGEST_NOTE else note[:LONGEST_NOTE] + "…"
    return without_secrets(replace(outcome, note=note, exchanges=exchanges), kept)


def _longest_first(secrets: Collection[str], hidden: Collection[str]) -> list[tuple[str, re.RegexFlag]]:
    found = [(one, re.NOFLAG) for one in secrets] + [(one, re.IGNORECASE) for one in hidden if one]
    return sorted(found, key=lambda one: len(one[0]), reverse=True)


def _without(value: Any, patterns: Collection[re.Pattern[str]]) -> Any:
    if isinstance(value, str):
        for pattern in patterns:
            value = pattern.sub(REDACTED, value)
        return value
    if isinstance(value, Mapping):
        return {_without(name, patterns): _without(member, patterns) for name, member in value.items()}
    return [_without(item, patterns) for item in value] if isinstance(value, list | tuple) else value

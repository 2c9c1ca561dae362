"""The normative sentences, read from `sep-2848.yaml`: the traceability file in the format of the public suite.

Every sentence stands there once, with the check that looks at it or the reason why nothing on the wire can show it.
"""

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

import yaml

from mcp_gate.conformance.model import Rule

FILE: Final = "sep-2848.yaml"
SEP: Final = "SEP-2848"
TASKS: Final = "MCP Tasks extension"


def traceability() -> Mapping[str, Any]:
    """The file as a whole."""
    text = resources.files("mcp_gate.conformance").joinpath(FILE).read_text(encoding="utf-8")
    document: Mapping[str, Any] = yaml.safe_load(text)
    return document


def rules() -> Mapping[str, Rule]:
    """The first sentence of each check, by the check's id."""
    found: dict[str, Rule] = {}
    document = traceability()
    for row in document["requirements"]:
        if "check" in row:
            source, url = (TASKS, row["url"]) if "url" in row else (SEP, document["spec_url"])
            found.setdefault(row["check"], Rule(row["text"], source, url))
    return found

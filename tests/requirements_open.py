"""Requirements that no test proves yet, and why. `python -m tests.requirements --sync` drops those that are proved."""

from typing import Final

OPEN: Final[dict[str, str]] = {
    "ARS-119": "built by the desk issue: workflow, people and reports",
}

"""Requirements that no test proves yet, and why. `python -m tests.requirements --sync` drops those that are proved."""

from typing import Final

OPEN: Final[dict[str, str]] = {}

"""The part of the configuration that says how people are told: by which channels, and what those are for.

The address of a channel holds secrets: it comes from the file, from a file of its own, or from the environment, and is
never printed. What an address means is Apprise's matter; it is tried by `arap notify test` and `arap doctor`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, SecretStr, model_validator

from arap_service.domain.notices import NoticeKind
from arap_service.settings_parts import Part

NAME: Final = r"^[a-z0-9-]{1,64}$"
PERSONAL: Final = "{email}"
"""What in an address stands for the one who is told; without it the address is a room for many."""


class ChannelSettings(Part):
    """One way to tell people: an Apprise address, and what and whom it is for; none named means all."""

    url: SecretStr | None = None
    url_file: Path | None = None
    kinds: frozenset[NoticeKind] = frozenset()
    groups: frozenset[str] = frozenset()
    timeout_seconds: float = Field(default=15.0, gt=0, le=120)

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.url is None) == (self.url_file is None):
            raise ValueError("needs either url or url_file")
        return self

    def under(self, folder: Path) -> Self:
        """The same channel, with a relative file starting from `folder`."""
        return self if self.url_file is None else self.model_copy(update={"url_file": folder / self.url_file})

    @property
    def is_personal(self) -> bool:
        """Whether the channel reaches one person at a time; a room where its address cannot be read just now."""
        try:
            return PERSONAL in self.address()
        except (OSError, UnicodeError):
            return False

    def address(self) -> str:
        """The address as it stands now, so that a changed file counts without a new start.

        Raises:
            OSError, UnicodeError: Its file cannot be read.
        """
        if self.url_file is not None:
            return self.url_file.read_text(encoding="utf-8").strip()
        return "" if self.url is None else self.url.get_secret_value()


class NotificationSettings(Part):
    """How people are told; without a channel nobody is, and nothing is kept for it."""

    channels: Mapping[Annotated[str, Field(pattern=NAME)], ChannelSettings] = {}
    keep_days: int = Field(default=30, ge=1, le=3650)

    @property
    def personal(self) -> Mapping[str, ChannelSettings]:
        """The channels that reach one person at a time, in their order."""
        return {name: each for name, each in self.channels.items() if each.is_personal}

    def under(self, folder: Path) -> Self:
        """The same, with relative files starting from `folder`."""
        return self.model_copy(update={"channels": {name: each.under(folder) for name, each in self.channels.items()}})

"""Hands a message to Apprise, which knows how to reach people; what came of it is a code, never what anybody answered.

The address comes from the administrator's configuration. The one thing of a person that goes into it is an e-mail
address, and only when it is plainly one, so that it can name no second recipient and no other option. See design.md
section 7, "Notifications".
"""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import anyio
import anyio.to_thread
import apprise

from arap_service.domain.notices import Message
from arap_service.settings_notifications import PERSONAL, ChannelSettings

_ADDRESS: Final = re.compile(r"[A-Za-z0-9!#$&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_AT_ONCE: Final = 8

# What it logs names people and servers.
logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True, slots=True)
class NotSent:
    """Why a message was not handed over; `is_final` when trying again cannot help."""

    code: str
    is_final: bool = False


Post = Callable[[ChannelSettings, str | None, Message], Awaitable[NotSent | None]]
"""Send a message by a channel, to this e-mail address where the channel is personal; None when it was taken."""


def fault_of(channel: ChannelSettings) -> str | None:
    """What is wrong with the address of a channel, as a code; nothing is sent."""
    try:
        address = channel.address()
    except (OSError, UnicodeError):
        return "address_unreadable"
    return None if _service(address.replace(PERSONAL, quote("nobody@example.com", safe="")), channel) else "address"


class Poster:
    """Sends through Apprise, in threads of its own, so that a slow server holds up nothing else."""

    def __init__(self) -> None:
        self._slots = anyio.CapacityLimiter(_AT_ONCE)

    async def __call__(self, channel: ChannelSettings, email: str | None, message: Message) -> NotSent | None:
        """See `Post`."""
        try:
            address = channel.address()
        except (OSError, UnicodeError):
            return NotSent("address_unreadable")
        if PERSONAL in address:
            if email is None or not _ADDRESS.fullmatch(email):
                return NotSent("no_email", is_final=True)
            address = address.replace(PERSONAL, quote(email, safe=""))
        service = _service(address, channel)
        if service is None:
            return NotSent("address")
        try:
            with anyio.fail_after(channel.timeout_seconds):
                taken = await anyio.to_thread.run_sync(
                    _handed_over, service, message, limiter=self._slots, abandon_on_cancel=True
                )
        except TimeoutError:  # it may have gone out all the same
            return NotSent("timeout")
        return None if taken else NotSent("refused")


def _service(address: str, channel: ChannelSettings) -> apprise.NotifyBase | None:
    asset = apprise.AppriseAsset(
        app_id="Approvals",
        app_desc="Approvals",
        app_url="",
        image_url_mask="",
        image_url_logo="",
        storage_mode=apprise.PersistentStoreMode.MEMORY,
        service_timeout=channel.timeout_seconds,
        secure_logging=True,
        pgp_autogen=False,
        pem_autogen=False,
        http_redirects=False,
    )
    found = apprise.Apprise.instantiate(address, asset=asset, suppress_exceptions=True)
    return found if isinstance(found, apprise.NotifyBase) else None


def _handed_over(service: apprise.NotifyBase, message: Message) -> bool:
    formats: Any = service.notify_format  # a tuple where a service has a choice
    preferred = formats[0] if isinstance(formats, tuple) else formats
    is_html = preferred == apprise.NotifyFormat.HTML
    try:
        return bool(
            service.notify(
                title=message.subject,
                body=message.html if is_html else message.text,
                body_format=apprise.NotifyFormat.HTML if is_html else apprise.NotifyFormat.TEXT,
            )
        )
    except Exception:  # noqa: BLE001 - code of a hundred services; whatever they raise, the message was not taken
        return False

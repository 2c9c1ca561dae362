"""A real SMTP server on a loopback port that keeps what it takes, or refuses it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope


@dataclass(slots=True)
class Mailbox:
    """What arrived, each message with the address that it was for; `refusal` is what is answered instead of 250."""

    port: int = 0
    refusal: str | None = None
    arrived: list[tuple[str, EmailMessage]] = field(default_factory=list)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802  # its name there
        """Take a message."""
        if self.refusal is not None:
            return self.refusal
        content = envelope.content
        assert isinstance(content, bytes)
        message = message_from_bytes(content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.arrived.extend((str(recipient), message) for recipient in envelope.rcpt_tos)
        return "250 taken"

    @property
    def url(self) -> str:
        """The Apprise address of a channel that sends here."""
        return f"mailto://127.0.0.1:{self.port}?from=desk@approvals.example&to={{email}}"

    def to(self, address: str) -> list[EmailMessage]:
        """What somebody got."""
        return [message for recipient, message in self.arrived if recipient == address]


def text_of(message: EmailMessage) -> str:
    """The plain text of a message."""
    part = message.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def html_of(message: EmailMessage) -> str:
    """The HTML of a message."""
    part = message.get_body(("html",))
    assert part is not None
    return str(part.get_content())


@asynccontextmanager
async def mail_server() -> AsyncIterator[Mailbox]:
    """A server that runs as long as the block."""
    mailbox, loop = Mailbox(), asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(mailbox, hostname="mail.example", loop=loop, enable_SMTPUTF8=False), "127.0.0.1", 0
    )
    mailbox.port = server.sockets[0].getsockname()[1]
    try:
        yield mailbox
    finally:
        server.close()
        await server.wait_closed()

"""A service whose people are told by a real mail server and a real receiver of JSON, both on this machine."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlmodel import col, select

from arap_service.checkpoints import Checkpoint, passing
from arap_service.context import Context
from arap_service.notifier import Notifier
from arap_service.outbound import Outbound
from arap_service.store.database import WriteSession
from arap_service.store.notice_tables import Notice, NoticePreference
from arap_service.store.people_tables import Person
from tests.clock import FakeClock
from tests.mail import Mailbox, mail_server
from tests.receiver import Receiver, receiving
from tests.requests.world import PEOPLE, POLICY, World, public, seed
from tests.service import service_context, settings_for

SAYING = POLICY.replace("title: Wire transfer", "title: Wire transfer\n    notify: sentence")


@dataclass(frozen=True, slots=True)
class Telling:
    """A world, what its mail server and its receiver got, and one who tells."""

    world: World
    mail: Mailbox
    room: Receiver
    notifier: Notifier

    @property
    def ctx(self) -> Context:
        """The surroundings."""
        return self.world.ctx

    def told(self) -> list[tuple[str, str]]:
        """Who got what by mail, in words, whatever the order."""
        return sorted((address.split("@")[0], str(message["subject"])) for address, message in self.mail.arrived)

    def said(self) -> list[dict[str, Any]]:
        """What the room got."""
        return [json.loads(each.body) for each in self.room.received]

    async def notices(self) -> list[Notice]:
        """Every notice, by person and channel."""
        order = (col(Notice.person_id), col(Notice.channel), col(Notice.created_at), col(Notice.id))
        return await self.ctx.database.read(lambda session: list(session.exec(select(Notice).order_by(*order)).all()))

    async def prefer(self, person_id: str, **chosen: Any) -> None:
        """Let a person have chosen something."""
        kinds = chosen.pop("kinds", ["request_waiting", "reminder", "question_asked", "revoked", "emergency_used"])
        channels = chosen.pop("channels", ["mail"])
        row = NoticePreference(
            person_id=person_id,
            chosen={"channels": channels, "kinds": kinds},
            changed_at=self.world.clock(),
            **chosen,
        )
        await self.ctx.database.write(lambda session: session.add(row))


def seed_with_mail(session: WriteSession, clock: FakeClock) -> None:
    """Everybody of the world, each with an address."""
    seed(session, clock())
    for person_id in PEOPLE:
        person = session.get_one(Person, person_id)
        person.email = f"{person_id}@corp.example"


@asynccontextmanager
async def telling_world(
    folder: Path,
    database: str,
    clock: FakeClock,
    *,
    policy: str = POLICY,
    room: dict[str, Any] | None = None,
    checkpoint: Checkpoint = passing,
    **settings: Any,
) -> AsyncIterator[Telling]:
    """The service with a channel `mail`, and with a channel `room` where that has settings."""
    async with mail_server() as mailbox, receiving() as receiver:
        channels: dict[str, Any] = {"mail": {"url": mailbox.url, "timeout_seconds": 10}}
        if room is not None:
            channels["room"] = {"url": f"json://127.0.0.1:{receiver.port}/room", **room}
        given = settings_for(folder, database=database, policy=policy, notifications={"channels": channels}, **settings)
        outbound = Outbound(resolver=public)
        async with service_context(given, clock=clock, checkpoint=checkpoint, outbound=outbound) as ctx:
            await ctx.database.write(lambda session: seed_with_mail(session, clock))
            yield Telling(World(ctx, clock), mailbox, receiver, Notifier(ctx, jitter=lambda: 0.0))

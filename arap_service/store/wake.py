"""Wake-ups between whoever commits and whoever waits: in this process, and between processes on PostgreSQL.

A wake-up is a hint and carries a topic only. It may be lost when a process dies between commit and hint, or while the
listening connection is down; waiters therefore always have a time-out after which they look for themselves.
"""

import asyncio
import secrets
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

import structlog
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

CHANNEL: Final = "arap"
_LOOK: Final = 5.0  # seconds until the listener looks whether to stop, should its own notice have been lost
_LEAVE: Final = 10.0  # seconds that closing waits for the listener
_PAUSE: Final = 1.0  # seconds before it connects again


class Subscription:
    """Wake-ups for some topics, remembered from the moment the context is entered."""

    def __init__(self, bell: "Bell", topics: Iterable[str]) -> None:
        self._bell = bell
        self._topics = frozenset(topics)
        self._rung = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._bell.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bell.remove(self)

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109  # a poll interval, not a deadline
        """Wait until rung or for `timeout` seconds; whether it was rung since the last wait."""
        try:
            async with asyncio.timeout(timeout):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True

    def ring(self, topic: str) -> None:
        """Remember a wake-up, if this subscription is about `topic`; callable from any thread."""
        if topic in self._topics and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._rung.set)


class Bell:
    """Rings subscriptions; with an engine also those of the other processes on that PostgreSQL database."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine
        self._me = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self._listener: threading.Thread | None = None
        self._stop = threading.Event()

    def subscribe(self, topics: Iterable[str]) -> Subscription:
        """A subscription to `topics`, active once its context is entered."""
        return Subscription(self, topics)

    def add(self, subscription: Subscription) -> None:
        """Ring `subscription` from now on; the first one starts the listener."""
        with self._lock:
            self._subscriptions.add(subscription)
            if self._engine is not None and self._listener is None:
                self._listener = threading.Thread(target=self._listen, name="arap-listen", daemon=True)
                self._listener.start()

    def remove(self, subscription: Subscription) -> None:
        """Ring `subscription` no more."""
        with self._lock:
            self._subscriptions.discard(subscription)

    def ring(self, topics: Iterable[str]) -> None:
        """Wake everybody who waits for one of `topics`, here and elsewhere; never fails, for the work is committed."""
        topics = tuple(topics)
        for topic in topics:
            self._ring_here(topic)
        if self._engine is None:
            return
        # After the commit and not within it: PostgreSQL serialises the commits of transactions that notify.
        try:
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                for topic in topics:
                    connection.execute(
                        text("SELECT pg_notify(:channel, :payload)"),
                        {"channel": CHANNEL, "payload": f"{self._me} {topic}"},
                    )
        except SQLAlchemyError:
            structlog.get_logger(__name__).warning("wake_up_lost", topics=topics)

    def close(self) -> None:
        """Stop the listener and forget all subscriptions."""
        self._stop.set()
        if self._listener is not None:
            self.ring(("",))  # our own notice ends the listener's wait
            self._listener.join(_LEAVE)  # a server that is away answers no notice; the thread ends with the process
            self._listener = None
        with self._lock:
            self._subscriptions.clear()

    def _ring_here(self, topic: str) -> None:
        with self._lock:
            subscriptions = tuple(self._subscriptions)
        for subscription in subscriptions:
            subscription.ring(topic)

    def _listen(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen_once()
            except Exception as error:  # noqa: BLE001  # the top of a worker loop; waiters poll meanwhile
                structlog.get_logger(__name__).warning("listener_disconnected", error=type(error).__name__)
                self._stop.wait(_PAUSE)

    def _listen_once(self) -> None:
        assert self._engine is not None  # noqa: S101  # the listener is started only with an engine
        pooled = self._engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()  # ours until the end, so that it takes no place in the pool
        try:
            connection.autocommit = True
            connection.execute(f"LISTEN {CHANNEL}")
            while not self._stop.is_set():
                for notice in connection.notifies(timeout=_LOOK, stop_after=1):
                    origin, _, topic = notice.payload.partition(" ")
                    if origin != self._me:
                        self._ring_here(topic)
        finally:
            pooled.close()

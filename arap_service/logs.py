"""How the service logs: one JSON object a line on standard error, or coloured text on a terminal.

Events are named in the past tense with ids as fields. What an exception says is never written, because messages of
libraries quote their input; its type and the lines it passed through are. Loggers of libraries that would write
addresses or tokens are silenced here.
"""

import logging
import sys
import traceback
from typing import Any, Final

import structlog
from structlog.typing import EventDict, WrappedLogger

_QUIET: Final = ("alembic", "authlib", "httpx2", "httpcore2", "sqlalchemy", "stamina", "apprise")


def without_messages(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace an exception by its type and the places it passed through."""
    given = event.pop("exc_info", None)
    if not given:
        return event
    error: Any = sys.exc_info()[1] if given is True else given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        event["error"] = type(error).__qualname__
        event["where"] = [
            f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
    return event


def configure(level: str) -> None:
    """Set up structlog and the standard library's logging for this process."""
    number = getattr(logging, level.upper())
    renderer: Any = structlog.processors.JSONRenderer()
    if sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer()
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        without_messages,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )

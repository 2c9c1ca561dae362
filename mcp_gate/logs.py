"""How the commands log: JSON lines on stderr, in which nothing of a call, of a result or of a token can be (PEP-131).

Our own events are named and their fields chosen one by one. What libraries log is not: the SDK shows lines that it
cannot parse and results that it cannot validate, and exceptions quote the values that they are about. So of theirs
only the place in the code, the template of the message and the kinds of the exceptions are kept.
"""

import json
import logging
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any, Final

import structlog

FRAMES: Final = 8


class Reticent(logging.Formatter):
    """Formats records of libraries without their arguments and without the text of exceptions."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        shown: dict[str, Any] = {
            "event": "library_logged",
            "level": record.levelname.lower(),
            "logger": record.name,
            "where": f"{record.filename}:{record.lineno}",
        }
        # Without arguments the message may be the result of formatting; with them it is still the template.
        if record.args and isinstance(record.msg, str):
            shown["template"] = record.msg
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            shown["exception"] = outline(record.exc_info[1])
        return json.dumps(shown)


def outline(error: BaseException) -> list[str]:
    """The kinds of an exception, its causes and its group, and where they were raised; no word of what they say."""
    return [line for part in _parts(error, seen=set()) for line in _frames(part)]


def _parts(error: BaseException, *, seen: set[int]) -> Iterator[BaseException]:
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    for inner in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if isinstance(inner, BaseException):
            yield from _parts(inner, seen=seen)


def _frames(error: BaseException) -> Iterator[str]:
    yield f"{type(error).__module__}.{type(error).__qualname__}"
    # Numbers of lines instead of the lines themselves: source text of a script on the command line may hold values.
    for frame in traceback.extract_tb(error.__traceback__)[-FRAMES:]:
        yield f"  {Path(frame.filename).name}:{frame.lineno} {frame.name}"


def _outlined(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    given = event.pop("exc_info", None)
    error = given if isinstance(given, BaseException) else sys.exc_info()[1] if given else None
    if error is not None:
        event["exception"] = outline(error)
    return event


def configure_logging() -> None:
    """Logs go to stderr, because stdout belongs to the protocol on stdio."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Reticent())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _outlined,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )

"""Why an exchange or a file failed, in words: the innermost cause that says more than that something did."""

import socket
import ssl
from collections.abc import Iterator


def cause_of(error: BaseException) -> str:
    """The cause in few words, without an address or a path."""
    chain = list(_chain(error))
    for one in chain:
        match one:
            case ssl.SSLCertVerificationError():
                return f"its certificate is not accepted: {one.verify_message}"
            case ssl.SSLError():
                return f"TLS failed: {(one.reason or type(one).__name__).replace('_', ' ').lower()}"
            case socket.gaierror():
                return "nothing is known of a host of this name"
            case ConnectionRefusedError():
                return "the connection was refused"
            case ConnectionResetError() | BrokenPipeError():
                return "the connection was cut"
            case OverflowError():
                return "there is no such port"
    for one in chain:
        if isinstance(one, OSError) and one.strerror:
            return one.strerror[:1].lower() + one.strerror[1:]
    return next((type(one).__name__ for one in chain if not isinstance(one, BaseExceptionGroup)), type(error).__name__)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what it came from, groups opened."""
    seen = 0
    while error is not None and seen < 20:
        seen += 1
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                yield from _chain(one)
        error = error.__cause__ or error.__context__

"""Copies a SQLite database while it is in use, and proves the copy before calling it one.

The copy is made by SQLite's online backup, so it is of one moment although others go on writing. It can be read by its
owner alone, has its name only once it is whole, and never takes the place of another file. What the columns hold is
sealed: without the key file, which is not in the copy, it cannot be read. PostgreSQL has its own tools; for it the
command is named. See design.md section 2.
"""

import os
import shlex
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.engine import URL

from arap_service.store.database import parse_url

_PAGES: Final = 512  # copied between two chances for writers


class NotBackedUp(Exception):
    """There is no copy; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class BackedUp:
    """The copy, whole and proved: how large it is and of which revision its tables are."""

    path: Path
    size: int
    revision: str


def back_up(url: str, path: Path) -> BackedUp:
    """Copy the SQLite database at `url` to the new file `path`.

    Raises:
        NotBackedUp: It is no SQLite database, the file exists or cannot be written, or the copy is not whole.
        StoreUnavailable: The address is none that we can serve.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        raise NotBackedUp(f"backup: PostgreSQL is backed up by its own tools; run: {pg_dump(parsed, path)}")
    source = Path(str(parsed.database)).absolute()
    if not source.is_file():
        raise NotBackedUp(f"backup: there is no database at {source}")
    if path.exists():
        raise NotBackedUp(f"backup: {path} exists; name a new file")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        revision = _copy(source, partial)
        os.link(partial, path)  # unlike a renaming, this never replaces what came there meanwhile
    except FileExistsError:
        raise NotBackedUp(f"backup: {path} exists; name a new file") from None
    except OSError as error:
        raise NotBackedUp(f"backup: cannot write {path}: {error.strerror or 'unknown reason'}") from None
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        raise NotBackedUp(f"backup: the copy could not be made ({name}); nothing was kept") from None
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
    return BackedUp(path, path.stat().st_size, revision)


def pg_dump(url: URL, path: Path) -> str:
    """The command that backs up the PostgreSQL database at `url`; the password is left to `PGPASSWORD` or `.pgpass`."""
    words = ["pg_dump", "--format=custom", f"--file={path}"]
    host = url.host or url.query.get("host")
    port = url.port or url.query.get("port")
    words += [f"--host={host}"] if isinstance(host, str) else []
    words += [f"--port={port}"] if isinstance(port, int | str) else []
    words += [f"--username={url.username}"] if url.username else []
    return shlex.join([*words, url.database or ""])


def _copy(source: Path, target: Path) -> str:
    with (
        closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True, timeout=30)) as live,
        closing(sqlite3.connect(target)) as copy,
    ):
        live.backup(copy, pages=_PAGES, sleep=0.001)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, which needs none beside it
        found = copy.execute("PRAGMA integrity_check").fetchone()[0]
        if found != "ok" or copy.execute("PRAGMA foreign_key_check").fetchone() is not None:
            raise NotBackedUp("backup: the database is damaged, so its copy is; restore an older backup")
        try:
            (revision,) = copy.execute("SELECT version_num FROM service_version").fetchone()
        except (sqlite3.OperationalError, TypeError):
            raise NotBackedUp(f"backup: {source} holds no tables of this service") from None
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return str(revision)

"""The book of the reviewer's server: requests for approval, what was decided, and what was carried out.

One SQLite file, which the gate, its tool server and the control commands share, so that whatever happens to one of them
is known to the others. A request is found by the marker that stands in the arguments of its call.
"""

import argparse
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

DECISIONS: Final = {"approve": "approved", "deny": "denied", "expire": "expired", "fail": "failed"}
VERBS: Final = (*DECISIONS, "ask", "revoke", "count")
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS request (
  id TEXT PRIMARY KEY, key TEXT UNIQUE NOT NULL, marker TEXT NOT NULL, asked_about TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'pending', asks INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS revoked (marker TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS carried_out (marker TEXT NOT NULL);
"""


class Book:
    """The book in a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "book.sqlite"
        with self._open() as rows:
            rows.executescript(_TABLES)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=10)) as rows, rows:
            yield rows

    def submit(self, key: str, *, marker: str, asked_about: dict[str, Any]) -> str:
        """Open a request, or find the one of this key; its id."""
        with self._open() as rows:
            number = rows.execute("SELECT count(*) + 1 FROM request").fetchone()[0]
            told = json.dumps(asked_about, sort_keys=True)
            rows.execute(
                "INSERT INTO request (id, key, marker, asked_about) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
                (f"request-{number}", key, marker, told),
            )
            return str(rows.execute("SELECT id FROM request WHERE key = ?", (key,)).fetchone()[0])

    def find(self, request: str) -> tuple[str, bool, dict[str, Any]] | None:
        """Its state, whether it asks something, and what it is about."""
        with self._open() as rows:
            found = rows.execute("SELECT state, asks, asked_about FROM request WHERE id = ?", (request,)).fetchone()
        return None if found is None else (found[0], bool(found[1]), json.loads(found[2]))

    def answer(self, request: str) -> bool:
        """Take an answer; False when nothing is asked."""
        with self._open() as rows:
            return rows.execute("UPDATE request SET asks = 0 WHERE id = ? AND asks", (request,)).rowcount == 1

    def cancel(self, request: str) -> None:
        """End what is pending."""
        with self._open() as rows:
            rows.execute("UPDATE request SET state = 'cancelled' WHERE id = ? AND state = 'pending'", (request,))

    def is_revoked(self, marker: str) -> bool:
        """Whether policy denies this call by now."""
        with self._open() as rows:
            return rows.execute("SELECT 1 FROM revoked WHERE marker = ?", (marker,)).fetchone() is not None

    def carry_out(self, marker: str) -> None:
        """Note that the tool ran."""
        with self._open() as rows:
            rows.execute("INSERT INTO carried_out VALUES (?)", (marker,))

    def do(self, verb: str, marker: str) -> str:
        """Carry out a verb of the control interface; what it prints.

        Raises:
            LookupError: There is no pending request of this marker.
        """
        with self._open() as rows:
            if verb == "count":
                return str(rows.execute("SELECT count(*) FROM carried_out WHERE marker = ?", (marker,)).fetchone()[0])
            if verb == "revoke":
                rows.execute("INSERT INTO revoked VALUES (?)", (marker,))
                return ""
            change, value = ("asks", 1) if verb == "ask" else ("state", DECISIONS[verb])
            done = rows.execute(
                f"UPDATE request SET {change} = ? WHERE marker = ? AND state = 'pending'",  # noqa: S608 - one of two names
                (value, marker),
            )
            if done.rowcount == 0:
                raise LookupError(f"nothing is pending for {marker}")
        return ""


def main() -> int:
    """`python -m examples.reviewer.book VERB MARKER --folder FOLDER`: a verb as a command."""
    parser = argparse.ArgumentParser(prog="python -m examples.reviewer.book", description=main.__doc__)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("marker")
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    try:
        print(Book(options.folder).do(options.verb, options.marker))
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Task ids on disk, because a lost task id has no recourse (SEP-2848, Limitations).

One file per task, written whole and synced before the caller goes on; nothing but the id, where it came from, and its
last known status is kept.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task that this machine waits for; `created_at` is the server's text, `status` the last one seen."""

    task_id: str
    server: str
    tool: str
    created_at: str
    status: str


class TaskRecords:
    """The records of one directory, which is made when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @classmethod
    def default(cls) -> "TaskRecords":
        """The records of this user."""
        state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return cls(Path(state) / "mcp-gate" / "tasks")

    def remember(self, record: TaskRecord) -> None:
        """Write the record; it is on the disk when this returns."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = self._path(record.task_id)
        draft = target.with_suffix(f".{os.getpid()}.tmp")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(record), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
        self._sync_directory()

    def settle(self, task_id: str, status: str) -> None:
        """Note the last status of a task that is on record."""
        found = self.find(task_id)
        if found is not None:
            self.remember(replace(found, status=status))

    def find(self, task_id: str) -> TaskRecord | None:
        """The record of one task."""
        return self._read(self._path(task_id))

    def all(self) -> list[TaskRecord]:
        """Every readable record, oldest first."""
        if not self._directory.is_dir():
            return []
        found = [self._read(path) for path in self._directory.glob("*.json")]
        return sorted((record for record in found if record is not None), key=lambda record: record.created_at)

    def _path(self, task_id: str) -> Path:
        # The id is the server's text, so it names no file by itself.
        return self._directory / f"{hashlib.sha256(task_id.encode()).hexdigest()}.json"

    def _read(self, path: Path) -> TaskRecord | None:
        try:
            return TaskRecord(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def _sync_directory(self) -> None:
        if os.name != "posix":
            return
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

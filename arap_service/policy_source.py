"""The rules that are in force: the policy file as it was last found good.

The file is looked at again while the service runs; a file that is wrong in any part is refused whole, the log says so
and the rules before it stay in force. At the start a wrong file is a refusal to start. Which rules came into force when
is in the audit log. What rules mean is decided in `domain/policy.py`. See design.md sections 4 and 5.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from arap_service import audit
from arap_service.domain.policy import Policy
from arap_service.domain.policy_load import PolicyInvalid, load_policy
from arap_service.store.database import Database, WriteSession

CHAIN: Final = "configuration"
_KIND: Final = "rules_loaded"


class PolicySource:
    """Where the current policy comes from; swapping it is one assignment, so a reader never sees half of it."""

    def __init__(self, policy: Policy, *, path: Path | None = None) -> None:
        self._policy = policy
        self._path = path
        self._recorded: str | None = None
        self._is_newer_refused = False
        self._seen: tuple[int, int] | None = None
        self._log = structlog.get_logger("arap.policy")

    @classmethod
    def open(cls, path: Path) -> "PolicySource":
        """Read the policy at `path`.

        Raises:
            PolicyInvalid: A part of it is wrong.
            OSError: The file cannot be read.
        """
        seen = _stamp(path)
        source = cls(load_policy(path.read_text(encoding="utf-8")), path=path)
        source._seen = seen
        return source

    def current(self) -> Policy:
        """The policy in force now; hold on to it for the length of one decision."""
        return self._policy

    @property
    def is_newer_refused(self) -> bool:
        """Whether the file as it is now cannot be put in force, so that older rules still are."""
        return self._is_newer_refused

    def refresh(self) -> bool:
        """Take over the file if it has changed and is good; whether it was taken over."""
        if self._path is None:
            return False
        try:
            seen = _stamp(self._path)
            if seen == self._seen:
                return False
            self._seen = seen
            policy = load_policy(self._path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            self._is_newer_refused = True
            self._log.error("policy_unreadable", error=type(error).__name__)
            return False
        except PolicyInvalid as error:
            self._is_newer_refused = True
            first = error.problems[0]
            self._log.error("policy_refused", problems=len(error.problems), line=first.line, pointer=first.pointer)
            return False
        self._policy = policy
        self._is_newer_refused = False
        self._log.info("policy_loaded", version=policy.version)
        return True

    async def record(self, database: Database, *, now: datetime) -> None:
        """Note in the audit log which rules are in force, unless the last note says so already.

        Called after every look at the file, so that what could not be written is written later.

        Raises:
            StoreUnavailable: It cannot be written now.
        """
        version = self._policy.version
        if version == self._recorded:
            return

        def work(session: WriteSession) -> None:
            # Another instance may have read the same file before, or this one before it was started again.
            last = audit.last_entry(session, CHAIN, kind=_KIND)
            if last is None or json.loads(last.detail)["version"] != version:
                audit.append(session, CHAIN, kind=_KIND, actor="system", detail={"version": version}, now=now)

        await database.write(work)
        self._recorded = version


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size

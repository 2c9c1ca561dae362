"""The rules that are in force: the policy file as it was last found good.

The file is looked at again while the service runs; a file that is wrong in any part is refused whole, the log says so
and the rules before it stay in force. At the start a wrong file is a refusal to start. What rules mean is decided in
`domain/policy.py`. See design.md section 4.
"""

from pathlib import Path

import structlog

from arap_service.domain.policy import Policy
from arap_service.domain.policy_load import PolicyInvalid, load_policy


class PolicySource:
    """Where the current policy comes from; swapping it is one assignment, so a reader never sees half of it."""

    def __init__(self, policy: Policy, *, path: Path | None = None) -> None:
        self._policy = policy
        self._path = path
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
            self._log.error("policy_unreadable", error=type(error).__name__)
            return False
        except PolicyInvalid as error:
            first = error.problems[0]
            self._log.error("policy_refused", problems=len(error.problems), line=first.line, pointer=first.pointer)
            return False
        self._policy = policy
        self._log.info("policy_loaded", version=policy.version)
        return True


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size

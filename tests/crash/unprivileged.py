"""Runs a command without the superuser's right to write everywhere: `python -m tests.crash.unprivileged COMMAND…`.

Tests may run as root, for whom no folder is unwritable; this gives up exactly that (Linux, capabilities(7)).
"""

import ctypes
import os
import sys

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE = 1


def main() -> None:
    """Give it up and become the command."""
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
        raise SystemExit("the capability cannot be dropped")
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - the command is the test's own


if __name__ == "__main__":
    main()

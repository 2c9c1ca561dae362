"""`python -m mcp_gate` is `mcp-gate`: finds the command's module, so that each needs its own extra only."""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Final

CONFORMANCE: Final = "conformance"


def main() -> None:
    """Entry point of `mcp-gate`."""
    if sys.argv[1:2] == [CONFORMANCE]:
        # It stands alone, also where nothing but its own extra is installed.
        del sys.argv[1]
        import_module("mcp_gate.conformance.command").main()
        return
    if find_spec("sqlalchemy") is None:
        sys.stderr.write("mcp-gate: this command needs the gate: pip install 'arap[gate]'\n")
        raise SystemExit(2)
    import_module("mcp_gate.cli").main()


if __name__ == "__main__":
    main()

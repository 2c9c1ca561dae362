"""`python -m mcp_gate` is `mcp-gate`."""

from mcp_gate.cli import main

main()

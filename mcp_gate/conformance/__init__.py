"""Tests any MCP server for what SEP-2848 promises on the wire, and any client for what it must not conclude.

A black box: it imports nothing of the gate, speaks JSON-RPC as plain dicts so that a broken server is seen as it is,
and needs the `conformance` extra alone. `mcp-gate conformance --help`; docs/conformance.md.
"""

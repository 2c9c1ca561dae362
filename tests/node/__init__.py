"""Foreign programs against a gate: the public MCP conformance suite, and clients that are not ours."""

"""The policy enforcement point in front of MCP tools: a requestable denial of a call becomes a task."""

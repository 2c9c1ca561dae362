"""A gated MCP server with the fixtures that the public MCP conformance suite calls for."""

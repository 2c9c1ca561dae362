"""A small MCP server whose `wire_transfer` needs approval above a threshold, gated by the embedded extension."""

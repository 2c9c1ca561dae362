"""A server written with FastMCP behind the gateway: nothing of the gate is in it."""

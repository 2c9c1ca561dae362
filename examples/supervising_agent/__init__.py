"""An agent that supervises others: an MCP server offers it the resolver's tools, and it decides through them."""

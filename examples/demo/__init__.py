"""The demonstration that `make demo` runs: two servers, one agent, one reviewer."""

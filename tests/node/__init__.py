"""Tests that need Node.js: the public MCP conformance suite, and clients from npm."""

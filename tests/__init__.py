"""Tests, one folder per area; each file mirrors one module."""

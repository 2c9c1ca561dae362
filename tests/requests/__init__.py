"""Tests of `arap_service.requests`."""

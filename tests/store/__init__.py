"""Tests of `arap_service.store`."""

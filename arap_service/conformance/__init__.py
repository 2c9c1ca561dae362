"""Tests any access request service and its decision point for what the profile promises on the wire.

A black box: it imports nothing of the service, speaks plain JSON so that a broken service is seen as it is, and needs
the `conformance` extra alone. `arap conformance --help`; docs/conformance.md.
"""

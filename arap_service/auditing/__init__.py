"""The log over all audit chains: its order, signed checkpoints over it, export, verification, and reading it.

Entries are appended by `arap_service.audit`; here they are only put into an order and looked at. See design.md
section 5.
"""

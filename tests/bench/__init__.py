"""Measures service and gate beside floors and a peer, in one run on one machine: `python -m tests.bench`."""

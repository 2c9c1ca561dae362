"""`python -m arap_service.conformance`: the suite, where the service itself is not installed."""

from arap_service.conformance.command import main

main()

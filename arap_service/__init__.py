"""The approval backend: an AuthZEN policy decision point and an ARAP access request service.

Importing the package runs nothing; `arap_service.protocol` and `arap_service.client` are also used by enforcement points.
"""

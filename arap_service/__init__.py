"""The approval backend: an AuthZEN policy decision point and an ARAP access request service.

Importing the package runs nothing, so an enforcement point may use its `protocol` and `client` alone.
"""

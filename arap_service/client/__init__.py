"""For automated resolvers: the resolver API and the token source that its calls need."""

from arap_service.client.credentials import ClientCredentials, TokenRefused
from arap_service.client.resolver import AsyncResolver, Conflict, NotFound, Resolver, ResolverError, Unavailable

__all__ = [
    "AsyncResolver",
    "ClientCredentials",
    "Conflict",
    "NotFound",
    "Resolver",
    "ResolverError",
    "TokenRefused",
    "Unavailable",
]

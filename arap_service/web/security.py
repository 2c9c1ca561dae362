"""What keeps other sites away from the desk: response headers, the origin of a form, the token inside it.

Each function judges values that it is given; who is logged in is the business of `sessions`. Fetch Metadata Request
Headers and RFC 6454 for the origin; Content Security Policy Level 3 for the headers.
"""

import hashlib
import hmac
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

_DIRECTIVES: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",  # the style sheet draws its ticks and arrows as data: images
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
)
CONTENT_SECURITY_POLICY: Final = "; ".join(_DIRECTIVES)
PAGE_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Cache-Control": "no-store",
    }
)
ASSET_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "public, max-age=31536000, immutable",
    }
)


def is_same_origin(headers: Mapping[str, str], *, identifier: str) -> bool:
    """Whether a form was sent by a page of ours, as the browser itself says.

    `Sec-Fetch-Site` decides where the browser sends it, because no page can forge it; an `Origin` of `null` is then
    normal, since our pages send no referrer. Without it `Origin` must be this host or the configured identifier. A
    request that carries neither is refused: every browser that can show the desk sends one of them.
    """
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    if site is not None:
        return site == "same-origin" and origin in {None, "null"} | _origins(headers, identifier)
    return origin is not None and origin in _origins(headers, identifier)


def _origins(headers: Mapping[str, str], identifier: str) -> set[str]:
    configured = urlsplit(identifier)
    own = {f"{configured.scheme}://{configured.netloc}"}
    host = headers.get("host")
    return own | {f"{scheme}://{host}" for scheme in ("https", "http") if host}


def form_token(secret: str) -> str:
    """The token that every form of one session carries; it says nothing about the secret that it comes from."""
    return hmac.new(secret.encode(), b"arap desk form", hashlib.sha256).hexdigest()


def is_form_token(token: object, *, secret: str) -> bool:
    """Whether `token` is the one of this session, compared in constant time."""
    return isinstance(token, str) and hmac.compare_digest(token.encode(errors="replace"), form_token(secret).encode())


def safe_target(target: object, *, default: str = "/desk") -> str:
    """Where to go after logging in: a page of the desk, whatever the address bar asked for."""
    if not isinstance(target, str) or len(target) > 500 or not target.isascii() or not target.isprintable():
        return default
    inside = target == "/desk" or target.startswith(("/desk/", "/desk?"))
    return target if inside and ".." not in target and "\\" not in target else default

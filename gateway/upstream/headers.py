"""Which headers cross the gateway, in both directions. Pure.

Both policies name what passes; everything else stays behind: hop-by-hop headers (RFC 9110 section 7.6.1), credentials,
cookies, and the length and encoding of a body that is decoded on its way. It knows nothing of connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

_REQUEST_NAMES = frozenset(
    {
        "idempotency-key",
        "traceparent",
        "tracestate",
        "x-client-request-id",
        "x-ms-client-request-id",
        "x-request-id",
    }
)
_REQUEST_PREFIXES = ("anthropic-", "openai-")

_FORWARDED_REQUEST_NAMES = _REQUEST_NAMES | {
    "accept",
    "content-type",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "range",
}

_RESPONSE_NAMES = frozenset(
    {
        "apim-request-id",
        "content-type",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "traceparent",
        "x-ms-region",
        "x-ms-request-id",
        "x-request-id",
        "x-should-retry",
    }
)
_RESPONSE_PREFIXES = ("anthropic-", "openai-", "x-ratelimit-")

_FORWARDED_RESPONSE_NAMES = _RESPONSE_NAMES | {
    "accept-ranges",
    "cache-control",
    "content-disposition",
    "content-range",
    "etag",
    "last-modified",
    "location",
}

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

CREDENTIALS = frozenset({"authorization", "api-key", "x-api-key", "cookie", "proxy-authorization"})
"""Names that carry a secret: never passed on, never logged."""


def outgoing(
    base: Mapping[str, str], client: Mapping[str, str], extra: Iterable[str] = (), *, forwarded: bool = False
) -> dict[str, str]:
    """Headers of a request to the upstream: the client's that may pass, under our own.

    `base` (lower-case names) always wins, so no client replaces our key, our organisation or our Accept-Encoding.
    `extra` names further client headers that may pass; `forwarded` is for requests that go through unread, which
    keep their own content type, Accept and range.
    """
    headers = {name.lower(): client[name] for name in _passing(tuple(client), tuple(extra), forwarded)}
    headers.update(base)
    return headers


@lru_cache(maxsize=256)
def _passing(given: tuple[str, ...], extra: tuple[str, ...], forwarded: bool) -> tuple[str, ...]:
    """Those of the given names that may pass: a client sends the same names with every request."""
    names = _FORWARDED_REQUEST_NAMES if forwarded else _REQUEST_NAMES
    return tuple(
        name
        for name in given
        if name.lower() in names or name.lower().startswith(_REQUEST_PREFIXES) or name.lower() in extra
    )


def incoming(upstream: Iterable[tuple[str, str]], *, forwarded: bool = False) -> dict[str, str]:
    """Headers of an upstream's answer that may reach the client, under lower-case names; of a repeated one the first.

    Values with control characters stay behind. Values outside ASCII come back as Latin-1, one character a byte, which
    is what ASGI servers encode.
    """
    names = _FORWARDED_RESPONSE_NAMES if forwarded else _RESPONSE_NAMES
    headers: dict[str, str] = {}
    for name, value in upstream:
        low = name.lower()
        if (low in names or low.startswith(_RESPONSE_PREFIXES)) and low not in headers:
            if not value.isascii():
                value = value.encode("utf-8", "surrogateescape").decode("latin-1")
            if _CONTROL.search(value) is None:  # an ASGI server refuses the whole answer for one such character
                headers[low] = value
    return headers


def credential(authorization: str, style: str) -> tuple[str, str]:
    """A caller's own credential as the upstream's header: (name, value).

    `style` is `authorization`, `api-key` or `x-api-key`; the last two take the bare key, without `Bearer`.
    """
    if style == "authorization":
        return "authorization", authorization
    scheme, _, key = authorization.partition(" ")
    return style, key.strip() if scheme.lower() == "bearer" and key else authorization

"""Reading a request off an ASGI connection: headers once, body within its bound."""

from __future__ import annotations

from collections.abc import Mapping

from litestar.types import HTTPScope, Receive

from gateway.access.keys import Principal
from gateway.errors import AuthenticationError, TooLargeError
from gateway.telemetry import log


class ClientGoneError(Exception):
    """The client went away before its request was whole; there is nobody to answer."""


def headers_of(scope: HTTPScope) -> dict[str, str]:
    """Headers under lower-case names; of a repeated one the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def request_id_of(headers: Mapping[str, str]) -> str | None:
    """The client's own name for its request, if it sent one that may stand in a log."""
    return log.request_id(headers.get(log.REQUEST_ID_HEADER), str) or None


def echo(scope: HTTPScope) -> list[tuple[bytes, bytes]]:
    """The header that tells a client which of its requests an answer belongs to."""
    given = request_id_of(headers_of(scope))
    return [(log.REQUEST_ID_HEADER.encode(), given.encode())] if given else []


def own_authorization(headers: Mapping[str, str], principal: Principal) -> str:
    """What a pass-through route sends on: the caller's own credential, "" without one.

    Raises `AuthenticationError` for a key of this gateway, which is no upstream's to see.
    """
    if principal.key_id is not None:
        raise AuthenticationError(
            "this route sends the caller's own key to its upstream, and the key given is one of this gateway's, which "
            "is not passed on; send the upstream's own key in its place"
        )
    given = headers.get("authorization")
    key = headers.get("x-api-key") or headers.get("api-key")
    return given or (f"Bearer {key}" if key else "")


async def read_body(headers: Mapping[str, str], receive: Receive, limit: int) -> bytes:
    """The whole body. Raises `TooLargeError` as soon as it is known to be over `limit` bytes."""
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise TooLargeError(_too_large(limit))
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        body = message["body"]
        size += len(body)
        if size > limit:
            raise TooLargeError(_too_large(limit))
        parts.append(body)
        if not message["more_body"]:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(limit: int) -> str:
    return f"the request body is over {limit} bytes; send less, or raise server.max_body_bytes"


def base_url(scope: HTTPScope, headers: Mapping[str, str], public_url: str | None) -> str:
    """Where this gateway is reached, without a trailing slash."""
    if public_url:
        return public_url.rstrip("/")
    return f"{scope.get('scheme', 'http')}://{headers.get('host', 'localhost')}"

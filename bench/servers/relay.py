"""The bare relay: an ASGI app that posts what it gets to the upstream with aiohttp and relays the bytes, nothing else.

    python -m bench.servers.relay --port 9002 --upstream http://127.0.0.1:9001

It is the mark for the gateway: the same server (uvicorn, uvloop, httptools, one worker) and the same client, with no
parsing, checking, recording or error handling. What the gateway adds is the difference between the two.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import aiohttp
import uvicorn
from yarl import URL

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Relay:
    """The ASGI app."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._relay(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                connector = aiohttp.TCPConnector(limit=0)
                self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
                await send({"type": "lifespan.startup.complete"})
            else:
                if self._session is not None:
                    await self._session.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _relay(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        message = await receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        assert self._session is not None
        url = URL(self._upstream + scope["raw_path"].decode(), encoded=True)
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        async with self._session.request(scope["method"], url, data=body or None, headers=headers) as response:
            content_type = response.headers.get("content-type", "application/json").encode()
            start: Message = {
                "type": "http.response.start",
                "status": response.status,
                "headers": [(b"content-type", content_type)],
            }
            length = response.headers.get("content-length")
            if length is not None:
                start["headers"].append((b"content-length", length.encode()))
                whole = await response.read()
                await send(start)
                await send({"type": "http.response.body", "body": whole})
                return
            await send(start)
            async for piece in response.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9002)
    parser.add_argument("--upstream", default="http://127.0.0.1:9001", help="without path")
    options = parser.parse_args()
    uvicorn.run(
        Relay(options.upstream), host=options.host, port=options.port, loop="uvloop", http="httptools", access_log=False
    )


if __name__ == "__main__":
    main()

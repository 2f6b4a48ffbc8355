"""The Responses API as an upstream: chat completions are translated on their way out and back.

The translation is `gateway.wire.responses`; the connection is that of every upstream over HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway.upstream.base import UpstreamRequest
from gateway.upstream.reading import Translation
from gateway.wire.responses.from_upstream import ResponseReading
from gateway.wire.responses.to_upstream import ResponsesCarrying, responses_request


class ResponsesSpeech:
    """The Responses API. `clock` gives Unix time, for servers that do not tell when an answer was made."""

    def __init__(self, carrying: ResponsesCarrying, clock: Callable[[], float] = time.time) -> None:
        self._carrying = carrying
        self._clock = clock

    def request(self, request: UpstreamRequest) -> tuple[str, bytes]:
        return "/responses", responses_request(request.body, self._carrying)

    def forwarded(self, path: str, body: bytes) -> str:
        return path

    def translation(self) -> Translation | None:
        return ResponseReading(int(self._clock()))

    def refusal(self, body: bytes) -> bytes:
        return body

"""Anthropic's Messages API as an upstream: chat completions are translated on their way out and back.

The translation is `gateway.wire.messages`; the connection is that of every upstream over HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from gateway.upstream.base import UpstreamRequest
from gateway.upstream.reading import Translation
from gateway.wire.messages.from_upstream import MessageReading, error_envelope
from gateway.wire.messages.to_upstream import Carrying, messages_request

VERSION: Final = "2023-06-01"
"""The `anthropic-version` that is translated."""


class AnthropicSpeech:
    """The Messages API. `clock` gives Unix time, which answers of this API do not tell."""

    def __init__(self, carrying: Carrying, clock: Callable[[], float] = time.time) -> None:
        self._carrying = carrying
        self._clock = clock

    def request(self, request: UpstreamRequest) -> tuple[str, bytes]:
        return "/messages", messages_request(request.body, self._carrying)

    def forwarded(self, path: str, body: bytes) -> str:
        return path

    def translation(self) -> Translation | None:
        return MessageReading(int(self._clock()))

    def refusal(self, body: bytes) -> bytes:
        return error_envelope(body)

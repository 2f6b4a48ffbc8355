"""The dialects that a client may speak: how a request of each becomes a chat completion request for a route.

Pure but for what it is given: it reads no connection and opens no exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gateway.errors import RequestError
from gateway.route import Route
from gateway.wire import chat, completions, raw
from gateway.wire.dialect import CHAT, Dialect
from gateway.wire.messages.from_client import chat_request
from gateway.wire.messages.stream import MessagesDialect
from gateway.wire.responses.from_client import chat_request as responses_request
from gateway.wire.responses.to_client import ResponsesDialect
from gateway.wire.types import ChatRequest

Select = Callable[[str | None], Route]
"""The route for a model name. Raises `GatewayError`."""

MESSAGES: Final = MessagesDialect()
TEXT: Final = completions.TextDialect()


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the exchange takes it, the route that serves it, and how its answer is written."""

    request: ChatRequest
    route: Route
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class Unread:
    """A request that its route passes on unread: it neither grounds nor checks, and its upstream knows the dialect."""

    route: Route


class Ingress(Protocol):
    """One endpoint that answers. `dialect` is how errors are written before a request could be read."""

    @property
    def path(self) -> str: ...

    @property
    def dialect(self) -> Dialect: ...

    def read(
        self, body: bytes, headers: Mapping[str, str], limits: chat.RequestLimits, select: Select
    ) -> Asked | Unread:
        """The request of a body. Raises `GatewayError`."""
        ...


class ChatIngress:
    """`/v1/chat/completions`."""

    path = "/v1/chat/completions"
    dialect: Dialect = CHAT

    def read(self, body: bytes, headers: Mapping[str, str], limits: chat.RequestLimits, select: Select) -> Asked:
        request = chat.parse_request(body, headers, limits)
        return Asked(request, select(request.model), CHAT)


class MessagesIngress:
    """Anthropic's `/v1/messages`."""

    path = "/v1/messages"
    dialect: Dialect = MESSAGES

    def read(self, body: bytes, headers: Mapping[str, str], limits: chat.RequestLimits, select: Select) -> Asked:
        value = decoded(body)
        route = select(model_of(value))
        translated = raw.encode(chat_request(value, native=route.speaks_messages))
        return Asked(chat.parse_request(translated, headers, limits), route, MESSAGES)


class ResponsesIngress:
    """`/v1/responses`."""

    path = "/v1/responses"
    dialect: Dialect = CHAT  # errors are the same, and so is their envelope

    def read(
        self, body: bytes, headers: Mapping[str, str], limits: chat.RequestLimits, select: Select
    ) -> Asked | Unread:
        value = decoded(body)
        route = select(model_of(value))
        if route.passes_unread:
            # Upstreams of this family know the dialect with all that needs their own storage.
            return Unread(route)
        translated = raw.encode(responses_request(value, native=route.takes_reasoning))
        return Asked(chat.parse_request(translated, headers, limits), route, ResponsesDialect(value))


class CompletionsIngress:
    """`/v1/completions`."""

    path = "/v1/completions"
    dialect: Dialect = CHAT  # errors are the same, and so is their envelope

    def read(
        self, body: bytes, headers: Mapping[str, str], limits: chat.RequestLimits, select: Select
    ) -> Asked | Unread:
        value = decoded(body)
        route = select(model_of(value))
        if route.passes_unread:
            # A model that goes on writing a text is no chat model.
            return Unread(route)
        return Asked(chat.parse_request(raw.encode(completions.chat_request(value)), headers, limits), route, TEXT)


def decoded(body: bytes) -> dict[str, Any]:
    """A request body that has to be translated as a whole. Raises `RequestError`."""
    body = body.removeprefix(chat.BOM)
    chat.top_level(body)
    try:
        value: dict[str, Any] = raw.decode(body)
    except (ValueError, RecursionError):
        raise RequestError("The request body cannot be read.", code="invalid_json") from None
    return value


def model_of(value: Mapping[str, Any]) -> str | None:
    """The model that a request names. Raises `RequestError` for anything but a name."""
    model = value.get("model")
    if model is not None and not isinstance(model, str):
        raise RequestError("'model' must be a string.", code="invalid_type", param="model")
    return model


INGRESSES: Final[tuple[Ingress, ...]] = (ChatIngress(), MessagesIngress(), ResponsesIngress(), CompletionsIngress())

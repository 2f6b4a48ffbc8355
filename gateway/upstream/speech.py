"""How a model server is spoken to: where a request goes, in what words, and how its answers are read.

An upstream over HTTP has one `Speech`. It makes and reads bytes; connections, retries and limits are not its business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import quote

import msgspec

from gateway.errors import RequestError
from gateway.upstream.base import UpstreamRequest
from gateway.upstream.reading import Translation


class Speech(Protocol):
    """One dialect of model servers."""

    def request(self, request: UpstreamRequest) -> tuple[str, bytes]:
        """Path below the base URL, and body. Raises `RequestError` for what this dialect cannot carry."""
        ...

    def forwarded(self, path: str, body: bytes) -> str:
        """The path of a request that is passed through unread."""
        ...

    def translation(self) -> Translation | None:
        """How one answer becomes chat completions; None if it is one."""
        ...

    def refusal(self, body: bytes) -> bytes:
        """The body of an error as OpenAI's envelope, as far as it can be read."""
        ...


class OpenAISpeech:
    """Chat completions as they are."""

    def request(self, request: UpstreamRequest) -> tuple[str, bytes]:
        return request.path, request.body

    def forwarded(self, path: str, body: bytes) -> str:
        return path

    def translation(self) -> Translation | None:
        return None

    def refusal(self, body: bytes) -> bytes:
        return body


class _Named(msgspec.Struct):
    model: str | None = None


_OF_DEPLOYMENTS = (
    "/chat/completions",
    "/completions",
    "/embeddings",
    "/audio/",
    "/images/",
)


class AzureSpeech(OpenAISpeech):
    """Azure OpenAI: the model is a deployment, which stands in the path; `deployments` gives names to models.

    Source: https://learn.microsoft.com/azure/ai-foundry/openai/reference.
    """

    def __init__(self, deployments: Mapping[str, str]) -> None:
        self._deployments = deployments

    def request(self, request: UpstreamRequest) -> tuple[str, bytes]:
        return self._path(request.path, request.model), request.body

    def forwarded(self, path: str, body: bytes) -> str:
        bare = path.removeprefix("/v1")
        if not bare.startswith(_OF_DEPLOYMENTS):
            return f"/openai{bare}"
        try:
            model = msgspec.json.decode(body, type=_Named).model
        except (msgspec.DecodeError, RecursionError):
            model = None
        return self._path(bare, model)

    def _path(self, path: str, model: str | None) -> str:
        if not model:
            raise RequestError(
                "this route's upstream is Azure OpenAI, whose deployment is named by the request's model; it has none",
                code="missing_required_parameter",
                param="model",
            )
        deployment = quote(self._deployments.get(model, model), safe="")
        return f"/openai/deployments/{deployment}{path.removeprefix('/v1')}"

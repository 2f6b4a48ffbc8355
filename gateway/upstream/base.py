"""The seam to whatever answers: a request goes in, a reply with a stream of deltas comes out.

An upstream raises only errors of `gateway.errors.UpstreamError`; anything raised before the first delta means that
nothing of the answer exists. Leaving the context manager early closes the connection at once, which is how a client's
disconnect stops the model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from gateway.wire.types import ChatRequest, Delta
from retrieval.types import Hit


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at an upstream, for the record: its name, seconds to headers, status, error code ("" for success)."""

    upstream: str
    status: int | None
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """What to send. `body` is final: grounded, our own options removed, model name resolved.

    `chat`, `query` and `hits` serve upstreams that answer from passages; `headers` are the client's that may pass on.
    `authorization` is the caller's own credential on a pass-through route, never logged. `once` forbids a second try,
    and `limit_s` bounds the whole answer in seconds: a pool tries elsewhere, within the time of the whole request.
    """

    path: str
    body: bytes
    stream: bool
    headers: Mapping[str, str] = field(default_factory=dict)
    authorization: str | None = field(default=None, repr=False)
    model: str | None = None
    chat: ChatRequest | None = None
    query: str = ""
    hits: tuple[Hit, ...] = ()
    once: bool = False
    limit_s: float | None = None


@dataclass(slots=True)
class UpstreamReply:
    """A success: status, the headers that may reach the client (lower-case names), and the deltas.

    `deltas` ends normally only after the protocol's own end (`[DONE]`, or a whole JSON body); a cut raises
    `UpstreamProtocolError`. `attempts` lists every try, the successful one last. `arrived` takes the deltas that came
    together with the last one, so that what came in one piece can leave in one piece. `fallback` says that one answers
    who stands in for those that should have.
    """

    status: int
    headers: Mapping[str, str]
    deltas: AsyncIterator[Delta]
    attempts: tuple[Attempt, ...] = ()
    arrived: Callable[[], Sequence[Delta]] = tuple
    fallback: bool = False


@dataclass(slots=True)
class RawReply:
    """A reply that is forwarded unread: any status, filtered headers, body as it comes."""

    status: int
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]


@runtime_checkable
class Upstream(Protocol):
    """Something that answers chat requests."""

    @property
    def name(self) -> str: ...

    def send(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamReply]: ...

    def forward(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, authorization: str | None
    ) -> AbstractAsyncContextManager[RawReply]:
        """Pass a request of another kind through. Upstreams that cannot raise `RequestError` naming the path."""
        ...

    async def aopen(self) -> None: ...

    async def aclose(self) -> None: ...

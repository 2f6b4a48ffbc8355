"""A request that a pool passes on unread: the next member is asked only while the request has not left.

What passes unread may change something at an upstream, so it is never sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from gateway.errors import UpstreamError, UpstreamUnreachableError
from gateway.upstream.base import RawReply
from gateway.upstream.breaker import Breaker


class PoolForward:
    """Context of one such request; `calls` are those of the members, in order, none of them entered."""

    __slots__ = ("_calls", "_clock", "_entered")

    def __init__(
        self, calls: Sequence[tuple[Breaker, AbstractAsyncContextManager[RawReply]]], clock: Callable[[], float]
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._entered: AbstractAsyncContextManager[RawReply] | None = None

    async def __aenter__(self) -> RawReply:
        failure: UpstreamError | None = None
        for breaker, call in self._calls:
            if not breaker.admit(self._clock()):
                continue
            try:
                reply = await call.__aenter__()
            except UpstreamError as error:
                breaker.failed(self._clock())
                if not isinstance(error, UpstreamUnreachableError):
                    raise
                failure = error
            except BaseException:
                breaker.abandoned()
                raise
            else:
                breaker.succeeded()
                self._entered = call
                return reply
        raise failure or UpstreamUnreachableError("every upstream that could take this request is being tried out")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered is not None:
            await self._entered.__aexit__(kind, error, trace)

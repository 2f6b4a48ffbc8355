"""Runs an exchange over an ASGI connection and settles it: exactly one record, whatever happens.

The record is on local disk before the client gets its last byte. A client that goes away cancels the exchange, which
closes the upstream's connection; its record is handed over without waiting, since nothing can be awaited for long in a
cancelled task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol

from litestar.types import Receive, Send

from gateway.api.edge import Edge, Headers, PlainEdge, StreamEdge
from gateway.errors import (
    GatewayError,
    GroundingFailedError,
    RequestError,
    UpstreamError,
    UpstreamStatusError,
)
from gateway.exchange.account import Account
from gateway.exchange.decide import Decision
from gateway.exchange.path import Exchange, Head
from gateway.ledger.record import Outcome, Receipt
from gateway.wire.dialect import CHAT, Dialect

CLIENT_CLOSED = 499
"""The status of a client that had gone, as nginx writes it."""

WATCH_AFTER_S = 0.05


class Desk(Protocol):
    """What settling needs of the gateway."""

    def open(self, exchange: Exchange) -> Awaitable[Receipt]: ...

    def submit(self, exchange: Exchange, *, provisional: bool = False) -> Awaitable[Receipt]: ...

    def admit(self, receipt: Receipt) -> None:
        """Raises `OverloadedError` for an exchange that could not be recorded, where the configuration refuses that."""
        ...

    def later(self, exchange: Exchange) -> None:
        """Run the check of a detached exchange, and record its verdict."""
        ...

    def crashed(self, exchange: Exchange, error: Exception) -> None:
        """An error of ours: to be logged with all it carries."""
        ...


def outcome_of(error: GatewayError) -> tuple[Outcome, int]:
    """How an error is recorded: outcome and the status that the client sees."""
    if isinstance(error, UpstreamStatusError):
        return Outcome.UPSTREAM_ERROR, error.upstream_status
    if isinstance(error, UpstreamError):
        return Outcome.UPSTREAM_ERROR, error.status
    if isinstance(error, GroundingFailedError):
        return Outcome.BLOCKED, error.status
    if isinstance(error, RequestError):
        return Outcome.REQUEST_ERROR, error.status
    return Outcome.INTERNAL_ERROR, error.status


def _headers(account: Account) -> Headers:
    headers: Headers = [(b"x-grounding-exchange", account.call.id.encode())]
    if account.verdicts:
        headers.append((b"x-grounding-status", account.check_status[0].encode()))
    if by := account.answered_by:
        headers.append((b"x-grounding-upstream", by[0].encode()))
    if account.call.grant is not None:
        headers += [(name.encode(), value.encode()) for name, value in account.call.grant.headers.items()]
    if account.call.request_id:
        headers.append((b"x-request-id", account.call.request_id.encode()))
    return headers


async def _ready(desk: Desk, opening: Awaitable[Receipt]) -> None:
    desk.admit(await opening)


class Settlement:
    """One exchange on one connection."""

    def __init__(self, exchange: Exchange, desk: Desk, send: Send, dialect: Dialect = CHAT, *, grace: float) -> None:
        self._exchange = exchange
        self._desk = desk
        self._submitted = False
        self._gone = False
        opening = desk.open(exchange)
        account = exchange.account
        # No method of ours: the edge would hold us as we hold it, and all that an exchange leaves would wait for the
        # garbage collector, which takes a tenth of the time of serving then.
        headers = partial(_headers, account)
        held = exchange.held
        self._edge: Edge
        if account.request.stream:
            writer = dialect.stream(held=held, include_usage=account.request.include_usage)
            self._edge = StreamEdge(send, headers, partial(_ready, desk, opening), writer, dialect, grace=grace)
        else:
            self._edge = PlainEdge(send, headers, dialect, held=held)

    async def run(self, receive: Receive) -> None:
        """Serve the exchange to its end. Returns normally also when the client has gone."""
        task = asyncio.current_task()
        assert task is not None
        watch = _ClientWatch(receive, task)
        try:
            await self._serve()
        except asyncio.CancelledError:
            self._gone = watch.gone
            self._cut_off()
            if not self._gone:
                raise  # the server is stopping
            task.uncancel()
        finally:
            watch.stop()
            self._edge.stop()

    async def _serve(self) -> None:
        try:
            await self._relay()
        except GatewayError as error:
            await self._fail(error)
        except Exception as error:
            self._desk.crashed(self._exchange, error)
            await self._fail(GatewayError("an error inside the gateway; its log names it by the exchange's id"))

    async def _relay(self) -> None:
        exchange, edge = self._exchange, self._edge
        account = exchange.account
        async with aclosing(exchange.events()) as events:
            async for event in events:
                if isinstance(event, Head):
                    account.http_status = event.status
                    edge.head(event.status, event.headers)
                else:
                    await edge.out(event)
        blocked = account.decision is Decision.BLOCK
        account.ended(Outcome.BLOCKED if blocked else Outcome.COMPLETED, account.http_status)
        await self._record(provisional=exchange.detached)
        await edge.end()
        if exchange.detached:
            self._desk.later(exchange)

    async def _record(self, *, provisional: bool = False) -> None:
        self._submitted = True
        self._desk.admit(await self._desk.submit(self._exchange, provisional=provisional))

    async def _fail(self, error: GatewayError) -> None:
        outcome, status = outcome_of(error)
        if isinstance(error, UpstreamError):
            self._exchange.account.failed(error)
        self._exchange.account.ended(outcome, status, error.code, error.message)
        if not self._submitted:
            self._submitted = True
            await self._desk.submit(self._exchange)
        await self._edge.fail(error)

    def _cut_off(self) -> None:
        """The client has gone, or the server stops; the record is handed over without waiting for the disk."""
        if self._submitted:
            return
        self._submitted = True
        if self._gone:
            self._exchange.account.ended(Outcome.CLIENT_CLOSED, CLIENT_CLOSED, "client_closed")
        else:
            self._exchange.account.ended(Outcome.INTERRUPTED, 503, "shutting_down")
        self._desk.submit(self._exchange)


class _ClientWatch:
    """Cancels the task that serves a client when that client goes away. `gone` tells that it did.

    It begins to look only after `WATCH_AFTER_S`: a task beside each exchange costs as much as reading its request, and
    most of what a fast upstream answers is over by then. Who left earlier is found out at that moment.
    """

    __slots__ = ("_loop", "_receive", "_task", "_timer", "_watching", "gone")

    def __init__(self, receive: Receive, task: asyncio.Task[Any]) -> None:
        self.gone = False
        self._receive = receive
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._watching: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(WATCH_AFTER_S, self._begin)

    def _begin(self) -> None:
        self._watching = self._loop.create_task(disconnected(self._receive))
        self._watching.add_done_callback(self._ended)

    def _ended(self, watching: asyncio.Task[None]) -> None:
        if not watching.cancelled():
            self.gone = True
            self._task.cancel()

    def stop(self) -> None:
        """The exchange is over."""
        self._timer.cancel()
        if self._watching is not None:
            self._watching.remove_done_callback(self._ended)
            self._watching.cancel()


async def disconnected(receive: Receive) -> None:
    """Returns when the client has gone; only after its request was read whole."""
    while (await receive())["type"] != "http.disconnect":
        pass

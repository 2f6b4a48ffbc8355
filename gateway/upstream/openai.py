"""Model servers over aiohttp: OpenAI-compatible ones, and by a `Speech` of theirs those that speak another dialect.

One session with one pool of kept-alive connections per upstream. It sends what it is given and reads what comes; it
knows no route, no grounding and no check. Leaving a call early closes its connection, so that the model stops; a call
that was read to its end gives the connection back.
"""

from __future__ import annotations

import asyncio
import io
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType

import aiohttp
from yarl import URL

from gateway.errors import (
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
)
from gateway.upstream.base import Attempt, RawReply, UpstreamReply, UpstreamRequest
from gateway.upstream.headers import CREDENTIALS, credential, incoming, outgoing
from gateway.upstream.reading import BodyReader, DeltaReader, ReadingLimits, reading_error, without_secret
from gateway.upstream.retrying import FailedTry, delay_s
from gateway.upstream.settings import Addresses, OpenAISettings, UpstreamTimeouts, tls_context
from gateway.upstream.speech import OpenAISpeech, Speech

__all__ = ["OpenAISettings", "OpenAIUpstream", "UpstreamTimeouts"]

_LARGE_BODY = 2**20
_DRAIN_S = 1.0
_DRAIN_BYTES = 65_536


class OpenAIUpstream:
    """An `Upstream` over HTTP. `jitter` gives numbers in [0, 1) for the waits between tries."""

    def __init__(
        self,
        settings: OpenAISettings,
        name: str = "openai",
        *,
        speech: Speech | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._speech = speech or OpenAISpeech()
        self._settings = settings
        self._name = name
        self._jitter = jitter
        self._addresses = Addresses(settings)
        self._headers = settings.base_headers
        timeouts = settings.timeouts
        self._limits = ReadingLimits(
            max_response_bytes=settings.max_response_bytes,
            max_event_bytes=settings.max_event_bytes,
            first_byte_s=timeouts.first_byte_s,
            idle_s=timeouts.idle_s,
            total_s=timeouts.total_s,
            finish_ends_stream=settings.finish_ends_stream,
            secret=(settings.api_key or "").encode(),
        )
        self._timeout = self._timeout_of(timeouts.total_s)
        self._session: aiohttp.ClientSession | None = None
        self._draining: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"OpenAIUpstream({self._name!r}, {self._addresses.origin!r})"

    async def aopen(self) -> None:
        """Open the pool; reads the TLS files. Raises `ConfigError` for files that do not work."""
        settings = self._settings
        connector = aiohttp.TCPConnector(
            limit=settings.connections,
            keepalive_timeout=settings.keep_alive_s,
            ttl_dns_cache=60,
            ssl=tls_context(settings),
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            proxy=settings.proxy,
            trust_env=False,
        )

    async def aclose(self) -> None:
        """Close every connection."""
        for task in self._draining:
            task.cancel()
        await asyncio.gather(*self._draining, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
            self._session = None

    def send(self, request: UpstreamRequest) -> _Call:
        """Ask for a chat completion; the reply's deltas come from a JSON body or an event stream alike."""
        return _Call(self, request)

    def forward(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, authorization: str | None
    ) -> _Forward:
        """Pass a request through unread. `path` may have a query; any status comes back as a `RawReply`."""
        base = {name: value for name, value in self._headers.items() if name not in ("accept", "content-type")}
        sent = outgoing(base, headers, self._settings.pass_headers, forwarded=True)
        self._authorize(sent, authorization)
        data = body if body or method in ("POST", "PUT", "PATCH") else None
        url = self._addresses.url(self._speech.forwarded(path, body))
        return _Forward(self, _Outgoing(method, url, sent, data, unread=True))

    def _outgoing(self, request: UpstreamRequest) -> _Outgoing:
        headers = outgoing(self._headers, request.headers, self._settings.pass_headers)
        self._authorize(headers, request.authorization)
        path, body = self._speech.request(request)
        out = _Outgoing("POST", self._addresses.url(path), headers, body)
        out.once, out.limit_s = request.once, request.limit_s
        return out

    def _authorize(self, headers: dict[str, str], authorization: str | None) -> None:
        if authorization is not None:
            for name in CREDENTIALS:
                headers.pop(name, None)
            if authorization:  # a caller who brings no key never gets ours
                name, value = credential(authorization, self._settings.api_key_header)
                headers[name] = value

    def _timeout_of(self, total_s: float) -> aiohttp.ClientTimeout:
        timeouts = self._settings.timeouts
        return aiohttp.ClientTimeout(
            total=total_s,
            connect=timeouts.connect_s,
            sock_connect=timeouts.connect_s,
            sock_read=timeouts.first_byte_s,
        )

    async def _open(self, out: _Outgoing) -> tuple[aiohttp.ClientResponse, tuple[Attempt, ...]]:
        """Try until there is an answer to hand on. Raises `UpstreamError` with its number of attempts."""
        started = time.perf_counter()
        attempts: list[Attempt] = []
        total_s = min(self._limits.total_s, out.limit_s or self._limits.total_s)
        timeout = self._timeout if total_s == self._limits.total_s else self._timeout_of(total_s)
        while True:
            began = time.perf_counter()
            response, failure, again = await self._try(out, timeout)
            now = time.perf_counter()
            status = response.status if response is not None else None
            code = "" if failure is None else failure.code
            attempts.append(Attempt(self._name, status, now - began, code))
            if failure is None:
                assert response is not None
                return response, tuple(attempts)
            failure.attempts = len(attempts)
            failure.tries = tuple((self._name, attempt.status, attempt.seconds, attempt.error) for attempt in attempts)
            remaining_s = total_s - (now - started)
            delay = None
            if again and not out.once:
                headers = failure.headers if isinstance(failure, UpstreamStatusError) else {}
                failed = FailedTry(
                    number=len(attempts),
                    status=status,
                    remaining_s=remaining_s,
                    now=time.time(),
                    jitter=self._jitter(),
                    headers=headers,
                )
                delay = delay_s(self._settings.retries, failed)
            if delay is None:
                raise failure
            await asyncio.sleep(delay)
            timeout = self._timeout_of(remaining_s - delay)

    async def _try(
        self, out: _Outgoing, limits: aiohttp.ClientTimeout
    ) -> tuple[aiohttp.ClientResponse | None, UpstreamError | None, bool]:
        """One try: (response, what is wrong with it, whether another try may help).

        Failures are returned, so that none keeps the client's exception, which shows proxy and headers, as its context.
        """
        assert self._session is not None, "aopen() was not awaited"
        data = out.body
        try:
            response = await self._session.request(
                out.method,
                out.url,
                headers=out.headers,
                # aiohttp warns about larger bytes; wrapping shares them and lets it write in pieces
                data=data if data is None or len(data) <= _LARGE_BODY else io.BytesIO(data),
                timeout=limits,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            return None, self._unreached(exc), _may_try_again(exc, unread=out.unread)
        if out.unread or 200 <= response.status < 300:
            return response, None, False
        try:
            return response, await self._refusal(response), True
        finally:
            response.close()

    async def _refusal(self, response: aiohttp.ClientResponse) -> UpstreamError:
        """An answer that is no success: with its body, as much as fits `max_error_bytes`."""
        if response.status < 400:
            return UpstreamProtocolError(
                f"upstream {self._name!r} answered with status {response.status}; it is not asked again elsewhere: "
                "set base_url to the address that answers itself"
            )
        body = bytearray()
        limit = self._settings.max_error_bytes
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            while len(body) < limit and (piece := await response.content.readany()):
                body += piece
        told = self._speech.refusal(without_secret(bytes(body[:limit]), self._limits.secret))
        return UpstreamStatusError(response.status, told, incoming(response.headers.items()))

    def _unreached(self, exc: BaseException) -> UpstreamError:
        """No headers came: what the client's exception means, without anything secret it may show."""
        where = f"upstream {self._name!r} at {self._addresses.origin}"
        timeouts = self._settings.timeouts
        if isinstance(exc, aiohttp.ConnectionTimeoutError):
            return UpstreamTimeoutError(
                f"{where} gave no connection within {timeouts.connect_s:g} s (timeouts.connect)"
            )
        if isinstance(exc, TimeoutError):
            return reading_error(self._name, exc, self._limits, begun=False)
        if isinstance(exc, aiohttp.ClientConnectorCertificateError):
            return UpstreamUnreachableError(
                f"{where}: its certificate is not trusted ({exc.certificate_error}); "
                "set tls.ca_bundle to the authority that issued it"
            )
        if isinstance(exc, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
            return UpstreamUnreachableError(f"{where}: the proxy gave no connection ({type(exc).__name__})")
        if isinstance(exc, aiohttp.ClientConnectorError):
            return UpstreamUnreachableError(f"{where}: no connection ({exc.os_error.strerror or type(exc).__name__})")
        if isinstance(exc, aiohttp.ClientResponseError):
            return UpstreamProtocolError(f"{where} answered with something that is not HTTP")
        return UpstreamProtocolError(
            f"{where} closed the connection before it answered ({type(exc).__name__})", code="upstream_cut"
        )

    def _finish(self, response: aiohttp.ClientResponse, *, complete: bool) -> None:
        """End a call: give the connection back if the answer was read to its end, else close it at once."""
        if response.closed:
            return
        if not complete:
            response.close()
            return
        # After [DONE] only the end of the HTTP body is missing. The client need not wait for it, the connection must.
        task = asyncio.create_task(_drain(response))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)


async def _drain(response: aiohttp.ClientResponse) -> None:
    read = 0
    try:
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with asyncio.timeout(_DRAIN_S):
                while read < _DRAIN_BYTES and (piece := await response.content.readany()):
                    read += len(piece)
    finally:
        response.close()


def _may_try_again(exc: BaseException, *, unread: bool) -> bool:
    """True if another try may help: no connection, or one that ended before its first byte.

    A server that is silent is still working, and would be paid twice; a certificate does not get better. What goes
    through unread may change something at the upstream, so it is sent again only if it never left.
    """
    if isinstance(exc, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return False
    if isinstance(exc, aiohttp.ConnectionTimeoutError | aiohttp.ClientConnectorError):
        return True
    return not unread and isinstance(exc, aiohttp.ClientOSError | aiohttp.ServerDisconnectedError)


class _Outgoing:
    """A request as it leaves: `unread` ones come back whatever their status."""

    __slots__ = ("body", "headers", "limit_s", "method", "once", "unread", "url")

    def __init__(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None, *, unread: bool = False
    ) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.unread = unread
        self.once = False
        self.limit_s: float | None = None


class _Call:
    """Context of one chat request."""

    __slots__ = ("_deltas", "_request", "_response", "_upstream")

    def __init__(self, upstream: OpenAIUpstream, request: UpstreamRequest) -> None:
        self._upstream = upstream
        self._request = request
        self._response: aiohttp.ClientResponse | None = None
        self._deltas: DeltaReader | None = None

    async def __aenter__(self) -> UpstreamReply:
        upstream = self._upstream
        response, attempts = await upstream._open(upstream._outgoing(self._request))
        self._response = response
        self._deltas = DeltaReader(response, upstream._limits, upstream.name, upstream._speech.translation())
        headers = incoming(response.headers.items())
        return UpstreamReply(response.status, headers, self._deltas, attempts, self._deltas.arrived)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None and self._deltas is not None:
            self._upstream._finish(self._response, complete=self._deltas.complete)


class _Forward:
    """Context of one request that is passed through unread."""

    __slots__ = ("_body", "_out", "_response", "_upstream")

    def __init__(self, upstream: OpenAIUpstream, out: _Outgoing) -> None:
        self._upstream = upstream
        self._out = out
        self._response: aiohttp.ClientResponse | None = None
        self._body: BodyReader | None = None

    async def __aenter__(self) -> RawReply:
        upstream = self._upstream
        response, _ = await upstream._open(self._out)
        self._response = response
        self._body = BodyReader(response, upstream._limits, upstream.name, bounded=False)
        headers = incoming(response.headers.items(), forwarded=True)
        return RawReply(response.status, headers, self._body)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None and self._body is not None:
            self._upstream._finish(self._response, complete=self._body.ended)

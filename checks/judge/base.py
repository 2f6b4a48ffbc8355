"""What every vendor's judge shares: settings, one call with its deadline, the record of it. Knows no vendor.

A judge asks in the richest form of structured output it knows (its *dialect*), falls back to a plainer one when the
server refuses it, and remembers what worked. Retries of failed connections, 429 and 5xx (with `retry-after`) are the
SDK's; the deadline bounds them all. A reply that cannot be used is `judge_reply_invalid`, never a default.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from checks.judge.reply import ReplyError, conform, load_strict, parse_reply
from checks.types import JudgeCall, JudgePrompt, JudgeReply, Reason

_MOST_DIALECTS = 6
_LONGEST_ERROR = 500
_REFUSED_FORM = frozenset({400, 415, 422, 501})
_TOO_LONG = ("context_length_exceeded", "context length", "maximum context", "prompt is too long", "context window")
_NO_TOKENS = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """How to reach and use one judge. Times in seconds, prices in USD per million tokens (None: cost unknown)."""

    name: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    timeout_s: float = 60.0
    attempts: int = 3
    concurrency: int = 8
    temperature: float | None = 0.0
    max_tokens: int = 1024
    input_price: float | None = None
    output_price: float | None = None
    proxy: str | None = field(default=None, repr=False)
    ca_bundle: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    def tls(self) -> ssl.SSLContext | bool:
        """What the HTTP client takes as `verify`; reads the certificate files."""
        if self.ca_bundle is None and self.client_certificate is None:
            return True
        context = ssl.create_default_context(cafile=str(self.ca_bundle) if self.ca_bundle else None)
        if self.client_certificate is not None:
            context.load_cert_chain(self.client_certificate, self.client_key)
        return context


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a request asks for JSON: `form` is the vendor's name for it; the rest is left out when a server objects."""

    form: str
    tokens_field: str = "max_tokens"
    temperature: bool = True


@dataclass(frozen=True, slots=True)
class VendorReply:
    """What a vendor's body said: its text, or its ready-made objects; `unusable` says why neither may be read."""

    model: str
    text: str = ""
    objects: tuple[Any, ...] = ()
    unusable: str = ""
    tokens: tuple[int, int] = _NO_TOKENS


@dataclass(frozen=True, slots=True)
class CallError:
    """A failed call: the reason it becomes, the provider's words, the HTTP status if there was one."""

    reason: Reason
    message: str
    status: int | None = None


class VendorJudge(ABC):
    """A judge behind a vendor's SDK. Open it as an async context manager, or let the first call open it."""

    def __init__(self, settings: JudgeSettings, dialect: Dialect, *, clock: Callable[[], float] = time.perf_counter):
        self._settings = settings
        self._dialect = dialect
        self._clock = clock
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._client: Any = None

    @property
    def name(self) -> str:
        return self._settings.name

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. A later call would open new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def judge(self, prompt: JudgePrompt, schema: Mapping[str, Any]) -> JudgeReply:
        """One question, one object that meets `schema`, or a reason. Only cancellation is raised."""
        async with self._slots:
            started = self._clock()
            request: dict[str, Any] = {}
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    request, outcome = await self._ask(prompt, schema)
            except TimeoutError:
                outcome = CallError(Reason.TIMEOUT, f"no reply within {self._settings.timeout_s:g} s")
            seconds = self._clock() - started
        request = request or self._request(prompt, schema, self._dialect)
        return self._reply(prompt, schema, request, outcome, seconds)

    async def _ask(self, prompt: JudgePrompt, schema: Mapping[str, Any]) -> tuple[dict[str, Any], str | CallError]:
        """Try dialects until the server takes one: the request made, and the body or the failure."""
        dialect = self._dialect
        for _ in range(_MOST_DIALECTS):
            request = self._request(prompt, schema, dialect)
            try:
                body = await self._send(request)
            except Exception as error:
                failure = self._failure(error)
                plainer = self._plainer(dialect, failure) if failure.status in _REFUSED_FORM else None
                if plainer is None or failure.reason is Reason.TOO_LONG:
                    return request, failure
                dialect = plainer
                continue
            self._dialect = dialect
            return request, body
        return request, failure

    def _reply(
        self,
        prompt: JudgePrompt,
        schema: Mapping[str, Any],
        request: dict[str, Any],
        outcome: str | CallError,
        seconds: float,
    ) -> JudgeReply:
        value, reason, error, said = None, None, "", VendorReply(self._settings.model)
        if isinstance(outcome, CallError):
            reason, error = outcome.reason, outcome.message
        else:
            try:
                said = self._read(load_strict(outcome))
                value = _usable(said, schema)
            except ReplyError as unusable:
                reason, error = Reason.JUDGE_REPLY_INVALID, str(unusable)
        call = JudgeCall(
            judge=self.name,
            model=said.model,
            purpose=prompt.purpose,
            request=json.dumps(request, ensure_ascii=False),
            reply="" if isinstance(outcome, CallError) else outcome,
            prompt_tokens=said.tokens[0],
            completion_tokens=said.tokens[1],
            cost_usd=self._cost(said.tokens),
            seconds=seconds,
            error=self._without_key(error),
        )
        return JudgeReply(value=value, call=call, reason=reason)

    def _cost(self, tokens: tuple[int, int]) -> float | None:
        prices = self._settings.input_price, self._settings.output_price
        if tokens == _NO_TOKENS or prices == (None, None):
            return None
        return (tokens[0] * (prices[0] or 0.0) + tokens[1] * (prices[1] or 0.0)) / 1e6

    def _failure(self, error: Exception) -> CallError:
        """An SDK's exception as a reason. Both SDKs carry `status_code` and `body` on errors of the server."""
        status = getattr(error, "status_code", None)
        body = getattr(error, "body", None)
        message = f"{type(error).__name__}: {error} {json.dumps(body, default=str) if body else ''}"
        if any(sign in message.casefold() for sign in _TOO_LONG):
            reason = Reason.TOO_LONG
        elif isinstance(error, TimeoutError) or type(error).__name__ == "APITimeoutError":
            reason = Reason.TIMEOUT
        else:
            reason = Reason.JUDGE_UNAVAILABLE
        return CallError(reason, message.strip(), status)

    def _without_key(self, text: str) -> str:
        key = self._settings.api_key
        return (text.replace(key, "[key]") if key else text)[:_LONGEST_ERROR]

    def _tokens_allowed(self, prompt: JudgePrompt) -> int:
        return max(prompt.max_tokens, self._settings.max_tokens)

    @abstractmethod
    def _open(self) -> Any:
        """The SDK's client, made on first use."""

    @abstractmethod
    def _request(self, prompt: JudgePrompt, schema: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
        """The request body, which is also what the record keeps: no credentials in it."""

    @abstractmethod
    async def _send(self, request: dict[str, Any]) -> str:
        """The raw body of a 2xx reply; raises the SDK's errors."""

    @abstractmethod
    def _read(self, body: Any) -> VendorReply:
        """The vendor's body taken apart; raises `ReplyError` when it is not of the vendor's shape."""

    @abstractmethod
    def _plainer(self, dialect: Dialect, failure: CallError) -> Dialect | None:
        """The next dialect to try after the server refused this one, None when there is none."""


def in_words(schema: Mapping[str, Any]) -> str:
    """The schema for a judge that cannot be held to it by its server."""
    text = json.dumps(schema, ensure_ascii=False)
    return f"\n\nAnswer with exactly one JSON object and nothing else. It must meet this JSON Schema:\n{text}"


def count(value: Any) -> int:
    """A token count as reported, 0 when it is not a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _usable(said: VendorReply, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if said.unusable:
        raise ReplyError(said.unusable)
    if not said.objects:
        return parse_reply(said.text, schema)
    if any(other != said.objects[0] for other in said.objects[1:]):
        raise ReplyError("the reply has more than one object, and they differ")
    return conform(said.objects[0], schema)

"""Limits of keys at the edge: what a request is taken for before it is answered, and what it has used after.

Tokens before an answer are a guess: four bytes of the request are one, and of the answer as many are taken as it may be
long. An upstream that does not say what was used is settled by the same rule on what it answered.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.access.keys import Principal
from gateway.access.limiter import Grant, Limiter
from gateway.access.prices import PriceTable
from gateway.ledger.record import ExchangeRecord
from gateway.quota import Ask, Style
from gateway.telemetry.views import tokens
from gateway.wire.types import ChatRequest

BYTES_PER_TOKEN: Final = 4
ANSWER_TOKENS: Final = 512
"""What an answer is taken for whose length the request does not bound."""
_LIMITS: Final = ("max_completion_tokens", "max_tokens")


class Admission:
    """One request at the door. `model` is what it will be asked of, for the price."""

    def __init__(self, limiter: Limiter, prices: PriceTable, principal: Principal) -> None:
        self._limiter = limiter
        self._prices = prices
        self._principal = principal

    async def chat(self, request: ChatRequest, size: int, *, added: int, model: str | None, style: Style) -> Grant:
        """Let a question of `size` bytes in; grounding adds up to `added` tokens. Raises `RateLimitedError`."""
        prompt = size // BYTES_PER_TOKEN + added
        answer = request.n * _longest(request)
        return await self._let(Ask(prompt + answer, self._prices.usd(model, prompt, answer)), style)

    async def other(self, size: int, *, style: Style = Style.OPENAI) -> Grant:
        """Let a request in that is not read. Raises `RateLimitedError`."""
        return await self._let(Ask(size // BYTES_PER_TOKEN, self._prices.usd(None, size // BYTES_PER_TOKEN, 0)), style)

    async def _let(self, ask: Ask, style: Style) -> Grant:
        quota, key_id = self._principal.quota, self._principal.key_id
        assert quota is not None
        assert key_id is not None
        return await self._limiter.admit(key_id, quota, ask, style)


def used(record: ExchangeRecord, prices: PriceTable, size: int) -> Ask:
    """What an exchange has used, by the upstream's own count, else by what was said; nothing where nothing was."""
    prompt, cached, completion = tokens(record.usage)
    if not prompt and not completion:
        said = sum(len(text.encode()) for text in record.answer.values())
        if not said and record.outcome != "completed":
            return Ask()
        prompt, completion = size // BYTES_PER_TOKEN, -(-said // BYTES_PER_TOKEN)
    return Ask(prompt + completion, prices.usd(record.upstream_model or record.model, prompt, completion, cached))


def _longest(request: ChatRequest) -> int:
    """Tokens that one choice of the answer may have, if the request says so in a usable way."""
    for name in _LIMITS:
        given = request.fields.get(name)
        if given is not None:
            try:
                value = msgspec.json.decode(given)
            except msgspec.DecodeError:
                continue
            if type(value) is int and value > 0:
                return min(value, 10_000_000)
    return ANSWER_TOKENS

"""What tokens cost, by the configuration's table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ANY_MODEL: Final = "*"
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens; `cached` are prompt tokens that the upstream's cache held."""

    prompt: float
    completion: float
    cached: float


class PriceTable:
    """Prices by model. A name stands for all that begin with it; the longest that fits counts, then `*`."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)
        self._names = sorted((name for name in prices if name != ANY_MODEL), key=len, reverse=True)

    def usd(self, model: str | None, prompt: int, completion: int, cached: int = 0) -> float:
        """Cost of so many tokens; `cached` of the prompt's are billed as such. 0 without a price."""
        price = self._of(model or "")
        if price is None:
            return 0.0
        cached = min(cached, prompt)
        fresh = (prompt - cached) * price.prompt
        return (fresh + cached * price.cached + completion * price.completion) / _MILLION

    def _of(self, model: str) -> Price | None:
        for name in self._names:
            if model.startswith(name):
                return self._prices[name]
        return self._prices.get(ANY_MODEL)

"""The section about how many requests a route serves at once. Knows nothing of routes. Times are seconds."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from gateway.config.base import Conflict, Strict, impossible


class LoadConfig(Strict):
    """Places of a route in each worker, and the line before them."""

    concurrency: int | None = Field(default=None, ge=1)
    """Requests served at once; without it only the places of the whole gateway bound a route."""
    queue: int = Field(default=100, ge=0, le=100_000)
    """Requests that may wait for a place; more get 503 at once."""
    wait: float = Field(default=10.0, gt=0)
    """Seconds after which one that waits gets 503."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        idle = sorted({"queue", "wait"} & self.model_fields_set)
        if self.concurrency is None and idle:
            why = f"without concurrency nobody waits, so {idle[0]} has no effect; add concurrency, or drop {idle[0]}"
            raise impossible(Conflict(why, tuple(idle)))
        return self

"""Sections about who may use what and how much: keys, limits, budgets, prices. Of routes it knows names only."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import AwareDatetime, Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.base import AnyPath, Conflict, Name, Strict, by_default, impossible


class RateLimits(Strict):
    """What a key may use in a minute, over all workers and replicas."""

    requests_per_minute: int | None = Field(default=None, ge=1, le=10_000_000)
    tokens_per_minute: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Of prompts and answers together."""


class Budget(Strict):
    """What a key may use in all; the request that crosses it is still served."""

    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0)
    """By `prices`."""
    per: Literal["day", "month", "total"] = "month"
    """Days and months in UTC."""


class KeyConfig(Strict):
    """A key that clients send as bearer token. Only its SHA-256 stands here: `grounding-gateway keys hash`."""

    id: Name
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    routes: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ()
    expires: AwareDatetime | None = None
    """With a time zone, e.g. `2027-01-31T00:00:00Z`."""
    limits: RateLimits = by_default(RateLimits)
    budget: Budget = by_default(Budget)
    audit: bool = False
    """May read recorded exchanges of its routes (`GET /v1/exchanges`)."""


class PriceConfig(Strict):
    """What a model's tokens cost, in USD per million."""

    prompt: float = Field(ge=0)
    completion: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    """Prompt tokens that the upstream's cache held; as `prompt` by default."""


class AccessConfig(Strict):
    """Keys in the ledger's database, beside those in `keys`."""

    stored_keys: bool = False
    """Keys made by `grounding-gateway keys create` are taken too."""
    refresh: float = Field(default=2.0, ge=0.2, le=300)
    """Seconds between two looks at them: so soon a revocation is known everywhere."""
    counters: Literal["postgres", "redis"] = "postgres"
    """Where the use of limited keys is counted: in the ledger's database, or in a Redis or Valkey."""
    redis_url: SecretStr | None = None
    """e.g. `redis://:password@host:6379/0`, `rediss://` for TLS."""
    redis_url_file: AnyPath | None = None
    """A file that holds the address, e.g. a mounted secret."""
    stale_for: float = Field(default=3_600.0, ge=1)
    """Seconds that known keys go on while the database is away; after that everybody gets 503."""

    @field_validator("redis_url")
    @classmethod
    def _address(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            why = "must begin with redis://, rediss:// or unix://"
            raise PydanticCustomError("unreadable", "{why}", {"why": why})
        return value

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if (self.counters == "redis") != (self.redis_url is not None):
            why = "counters: redis and redis_url go together: give both, or neither"
            raise impossible(Conflict(why, ("counters", "redis_url")))
        return self

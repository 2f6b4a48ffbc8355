"""API keys: who a request comes from, and what that caller may use.

Knows only SHA-256 digests of keys; a presented key is hashed, compared and forgotten. Knows nothing of HTTP frameworks:
headers come as a mapping with lower-case names.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.config.model import KeyConfig
from gateway.errors import AuthenticationError, OverloadedError
from gateway.quota import Period, Quota

KEY_PREFIX: Final = "gg-"
_KEY_BYTES: Final = 32
MIN_KEY_LENGTH: Final = 20

# Up to so many keys all are compared, in a time that does not depend on which one matches (about 0.1 us each).
_MANY: Final = 64

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_HOW: Final = "send it as `Authorization: Bearer <key>` or in the header `x-api-key`"


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request. `routes` None stands for all; `audit` lets it read recorded exchanges of its routes.

    A caller without a valid key is one too, with `refusal` saying what is wrong: it may use pass-through routes only.
    """

    key_id: str | None = None
    routes: frozenset[str] | None = None
    groups: frozenset[str] = frozenset()
    audit: bool = False
    anonymous: bool = False
    refusal: str = ""
    quota: Quota | None = None
    """What the key may use; None does not limit."""
    unavailable: bool = False
    """Nobody can tell whether the key is a valid one."""

    def may_use(self, route: str, *, passthrough: bool = False) -> bool:
        """Whether the caller may use a route. A pass-through route is guarded by its upstream, so anybody may."""
        return passthrough or self.routes is None or route in self.routes

    def may_audit(self, route: str) -> bool:
        """Whether the caller may read what was recorded of a route."""
        return self.audit and (self.routes is None or route in self.routes)

    def require_known(self) -> None:
        """Raises `AuthenticationError` for a caller without a valid key, `OverloadedError` if nobody can tell."""
        if self.unavailable:
            raise OverloadedError(self.refusal, code="keys_unavailable", retry_after=5)
        if self.refusal:
            raise AuthenticationError(self.refusal)


_LOCAL: Final = Principal(audit=True, anonymous=True)
_KEYLESS: Final = Principal(
    routes=frozenset(), anonymous=True, refusal="this gateway has no keys, so only its pass-through routes can be used"
)
_MISSING: Final = Principal(routes=frozenset(), anonymous=True, refusal=f"no API key was given; {_HOW}")
_FOREIGN: Final = Principal(
    routes=frozenset(),
    anonymous=True,
    refusal="this gateway has no keys and serves its own machine only: ask it as localhost or 127.0.0.1, and not from "
    "a web page of another site; or configure keys",
)
_UNKNOWN: Final = Principal(
    routes=frozenset(), anonymous=True, refusal=f"the API key is not one of this gateway's; {_HOW}"
)


_UNTOLD: Final = Principal(
    routes=frozenset(),
    anonymous=True,
    unavailable=True,
    refusal="the database that holds the keys cannot be read, so nobody can tell whether this key is valid; try again",
)
_ENDED: Final = Principal(
    routes=frozenset(), anonymous=True, refusal="the API key has expired or was replaced; ask for a new one"
)


@dataclass(frozen=True, slots=True)
class Known:
    """Who shows a key, and until when (Unix seconds)."""

    principal: Principal
    ends_at: float | None = None


class Stored(Protocol):
    """Keys that stand in a database."""

    @property
    def usable(self) -> bool: ...

    def find(self, digest: bytes) -> Known | None: ...


def principal_of(key: KeyConfig) -> Principal:
    """Who shows this key."""
    limits, budget = key.limits, key.budget
    quota = Quota(
        requests_per_minute=limits.requests_per_minute,
        tokens_per_minute=limits.tokens_per_minute,
        budget_tokens=budget.tokens,
        budget_usd=budget.usd,
        per=Period(budget.per),
    )
    return Principal(
        key_id=key.id,
        routes=None if "*" in key.routes else frozenset(key.routes),
        groups=frozenset(key.groups),
        audit=key.audit,
        quota=None if quota.unlimited else quota,
    )


class Keyring:
    """The keys of a configuration, and those in a database where `stored` has them.

    `loopback` tells that the gateway can only be reached from its own machine; then, and only without any keys, every
    caller is an anonymous one that may use and read all. A browser is on this machine too: what it sends for a page of
    another site (a foreign `Origin`, or a `Host` that was made to resolve to loopback) is refused. `hosts` are further
    names that this gateway goes by. `now` gives Unix seconds.
    """

    def __init__(
        self,
        keys: Iterable[KeyConfig],
        *,
        loopback: bool,
        hosts: Iterable[str] = (),
        stored: Stored | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._hosts = frozenset(hosts)
        self._stored = stored
        self._now = now
        self._principals = {
            bytes.fromhex(key.sha256): Known(principal_of(key), key.expires.timestamp() if key.expires else None)
            for key in keys
        }
        self._without_keys = None
        if not self._principals and stored is None:
            self._without_keys = _LOCAL if loopback else _KEYLESS

    def identify(self, headers: Mapping[str, str]) -> Principal:
        """The caller of a request. Never raises: an unknown caller may still use a pass-through route."""
        if self._without_keys is not None:
            return self._without_keys if self._is_local(headers) else _FOREIGN
        token = presented_key(headers)
        if token is None:
            return _MISSING
        digest = _digest(token)
        # Looking a digest up takes a time that depends on the digest, not on the key. To gain from that, one would have
        # to choose keys by the first bytes of their SHA-256, and would then know parts of a digest, not of a key. The
        # whole ring is compared nonetheless while that costs nothing next to the hash itself: see `_MANY`.
        found = None
        if len(self._principals) > _MANY:
            found = self._principals.get(digest)
        else:
            for own, known in self._principals.items():
                if hmac.compare_digest(own, digest):
                    found = known
        if found is None and self._stored is not None:
            if not self._stored.usable:
                return _UNTOLD
            found = self._stored.find(digest)
        if found is None:
            return _UNKNOWN
        return _ENDED if found.ends_at is not None and found.ends_at <= self._now() else found.principal

    def has(self, token: str) -> bool:
        """Whether a text is a key of this gateway, wherever it was found."""
        digest = _digest(token)
        return digest in self._principals or (self._stored is not None and self._stored.find(digest) is not None)

    def _is_local(self, headers: Mapping[str, str]) -> bool:
        """Whether a request names this machine, and comes from no page of another one."""
        origin = headers.get("origin")
        names = [headers.get("host", "localhost")]
        if origin is not None:
            names.append(origin.partition("://")[2])
        return all(self._names_us(name) for name in names)

    def _names_us(self, authority: str) -> bool:
        host = authority.rpartition("]")[0].lstrip("[") if authority.startswith("[") else authority.partition(":")[0]
        return host in _LOOPBACK_NAMES or host in self._hosts or host.endswith(".localhost")


def presented_key(headers: Mapping[str, str]) -> str | None:
    """The key in `Authorization: Bearer ...`, else in `x-api-key`, else in `api-key`; names are lower-case."""
    authorization = headers.get("authorization")
    if authorization:
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() == "bearer" and token:
            return token
    return headers.get("x-api-key") or headers.get("api-key") or None


def key_digest(key: str) -> str:
    """What the configuration keeps of a key: the SHA-256 of its UTF-8 bytes, in hexadecimal."""
    return _digest(key).hex()


def new_key() -> str:
    """A fresh key, `gg-` and 256 random bits."""
    return KEY_PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def _digest(key: str) -> bytes:
    # Header values come from the wire as any characters at all; half a surrogate pair must not raise.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()

"""Keys that stand in the database: a copy in this process, refreshed every few seconds.

A revocation therefore takes effect within `refresh_s` everywhere. While the database is away the copy goes on for
`stale_for_s`; after that, and before the first copy, nobody can be told from a stranger, which is said as such. Knows
digests of keys only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from gateway.access.keys import Known, principal_of
from gateway.config.model import KeyConfig
from gateway.errors import GatewayError


class StoredKey(Protocol):
    """One key as the database has it. `settings` is the JSON of a `keys` entry; `ends_at` is Unix seconds."""

    @property
    def sha256(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, object]: ...
    @property
    def ends_at(self) -> float | None: ...


class KeySource(Protocol):
    """Where they are read. Raises `GatewayError`."""

    async def revision(self) -> object:
        """Something that differs whenever the keys do."""
        ...

    async def current(self) -> Sequence[StoredKey]:
        """Every key that has not ended."""
        ...


@dataclass(frozen=True, slots=True)
class Copy:
    """What was read: keys by digest."""

    keys: Mapping[bytes, Known]
    revision: object


class StoredKeys:
    """The copy. `clock` is monotonic seconds; `problem` may be set, and is told when the database cannot be read."""

    def __init__(
        self,
        source: KeySource,
        *,
        refresh_s: float,
        stale_for_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._refresh_s = refresh_s
        self._stale_for_s = stale_for_s
        self._clock = clock
        self.problem: Callable[[str, BaseException], None] = lambda event, error: None
        self._copy = Copy({}, None)
        self._read_at: float | None = None

    @property
    def usable(self) -> bool:
        """Whether the copy still says who a caller is."""
        return self._read_at is not None and self._clock() - self._read_at <= self._stale_for_s

    def find(self, digest: bytes) -> Known | None:
        """The key with this digest, as last read; it may have ended since."""
        return self._copy.keys.get(digest)

    async def refresh(self) -> None:
        """Read what has changed."""
        began = self._clock()
        try:
            revision = await self._source.revision()
            if revision != self._copy.revision or self._read_at is None:
                known = {bytes.fromhex(key.sha256): self._known(key) for key in await self._source.current()}
                self._copy = Copy({digest: key for digest, key in known.items() if key is not None}, revision)
            self._read_at = began
        except (GatewayError, TimeoutError) as error:
            self.problem("keys_unavailable", error)

    def _known(self, key: StoredKey) -> Known | None:
        """A key of a newer release, with settings that this one does not know, is not let in."""
        try:
            config = KeyConfig.model_validate({**key.settings, "id": key.id, "sha256": key.sha256})
        except ValidationError as error:
            self.problem("key_not_understood", error)
            return None
        return Known(principal_of(config), key.ends_at)

    async def run(self) -> None:
        """Refresh until cancelled."""
        while True:
            await asyncio.sleep(self._refresh_s)
            await self.refresh()

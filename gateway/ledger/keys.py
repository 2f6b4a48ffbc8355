"""Keys and their use in Postgres: every statement about them. Knows digests, never keys.

Rows about keys are only ever added: a revoked key is one with a row that says since when it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from sqlalchemy import text

from gateway.errors import NotFoundError, RequestError
from gateway.ledger.store import PostgresStore, translated
from gateway.quota import Ask, Correction, Quota, Standing, Use, token_seconds

_REVISION: Final = text(
    "SELECT (SELECT coalesce(max(seq), 0) FROM ledger.api_key), (SELECT coalesce(max(seq), 0) FROM ledger.api_key_end)"
)
_COLUMNS: Final = "sha256, id, prefix, owner, settings::text, created_at, ends_at FROM ledger.api_keys"
_CURRENT: Final = text(f"SELECT {_COLUMNS} WHERE ends_at IS NULL OR ends_at > clock_timestamp() ORDER BY created_at")
_LISTED: Final = text(f"SELECT {_COLUMNS} ORDER BY id, created_at")
# Numbers are given out before a transaction ends: without this a reader could see the second of two and miss the first.
_LOCK: Final = text("SELECT pg_advisory_xact_lock(1735552613)")
_INSERT: Final = text(
    "INSERT INTO ledger.api_key (sha256, id, prefix, owner, settings, expires_at) "
    "VALUES (:sha256, :id, :prefix, :owner, CAST(:settings AS jsonb), :expires_at)"
)
_END: Final = text(
    "INSERT INTO ledger.api_key_end (sha256, ends_at, why) "
    "SELECT sha256, greatest(coalesce(CAST(:ends_at AS timestamptz), clock_timestamp()), clock_timestamp()), :why "
    "FROM ledger.api_keys WHERE id = :id AND sha256 <> :but AND (ends_at IS NULL OR ends_at > clock_timestamp())"
)
_ADMIT: Final = text(
    "SELECT ledger.admit_use(:key, :request_s, :token_s, :tokens, :usd, :budget_tokens, :budget_usd, :per)"
)
_CORRECT: Final = text("SELECT ledger.correct_use(CAST(:corrections AS jsonb))")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """A key as it stands in the database. `settings` has routes, groups, limits and so on; `ends_at` Unix seconds."""

    sha256: str = field(repr=False)
    id: str
    prefix: str
    owner: str = ""
    settings: dict[str, Any]
    created_at: float = 0.0
    ends_at: float | None = None


class PostgresKeys:
    """The keys of one database."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def revision(self) -> object:
        """Two numbers that grow with every key and every end."""
        async with translated(), self._store.engine.connect() as connection:
            return tuple((await connection.execute(_REVISION)).one())

    async def current(self) -> list[KeyRow]:
        """Keys that have not ended; some of them will."""
        return await self._read(_CURRENT)

    async def listed(self) -> list[KeyRow]:
        """All keys there ever were."""
        return await self._read(_LISTED)

    async def add(self, row: KeyRow, *, replaces_until: float | None = None) -> None:
        """Add a key. With `replaces_until` it takes the place of those of its id, which end then.

        Raises `RequestError` for an id that is in use, or, for a replacement, that is not.
        """
        async with translated(), self._store.engine.begin() as connection:
            await connection.execute(_LOCK)
            known = [found for found in _rows((await connection.execute(_CURRENT)).all()) if found.id == row.id]
            if replaces_until is None and known:
                raise RequestError(f"there is a key '{row.id}' already; rotate it, or choose another id", param="id")
            if replaces_until is not None and not known:
                raise NotFoundError(f"there is no key '{row.id}' in use", code="key_not_found")
            values = {
                "sha256": row.sha256,
                "id": row.id,
                "prefix": row.prefix,
                "owner": row.owner,
                "settings": msgspec.json.encode(row.settings).decode(),
                "expires_at": _time(row.ends_at),
            }
            await connection.execute(_INSERT, values)
            if replaces_until is not None:
                ended = {"id": row.id, "but": row.sha256, "ends_at": _time(replaces_until), "why": "rotated"}
                await connection.execute(_END, ended)

    async def revoke(self, key_id: str) -> int:
        """End every key of an id at once; how many there were. Raises `NotFoundError` for none."""
        async with translated(), self._store.engine.begin() as connection:
            await connection.execute(_LOCK)
            values = {"id": key_id, "but": "", "ends_at": None, "why": "revoked"}
            count = int((await connection.execute(_END, values)).rowcount)
        if count == 0:
            raise NotFoundError(f"there is no key '{key_id}' in use", code="key_not_found")
        return count

    async def _read(self, statement: Any) -> list[KeyRow]:
        async with translated(), self._store.engine.connect() as connection:
            return _rows((await connection.execute(statement)).all())


class PostgresUse:
    """What keys have used, for all workers and replicas of a database."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def admit(self, key_id: str, quota: Quota, ask: Ask) -> Standing:
        """Take a request's place, if there is one: one call, one row."""
        values = {
            "key": key_id,
            "request_s": 0.0 if quota.requests_per_minute is None else 60.0 / quota.requests_per_minute,
            "token_s": token_seconds(ask.tokens, quota),
            "tokens": float(ask.tokens),
            "usd": ask.usd,
            "budget_tokens": None if quota.budget_tokens is None else float(quota.budget_tokens),
            "budget_usd": quota.budget_usd,
            "per": quota.per.value,
        }
        async with translated(), self._store.engine.begin() as connection:
            found = (await connection.execute(_ADMIT, values)).scalar_one()
        return Standing(granted=bool(found[0]), now=found[1], use=Use(*found[2:]))

    async def correct(self, corrections: Sequence[Correction]) -> None:
        """Settle several keys at once."""
        values = {"corrections": msgspec.json.encode(corrections).decode()}
        async with translated(), self._store.engine.begin() as connection:
            await connection.execute(_CORRECT, values)


def _rows(found: Sequence[Any]) -> list[KeyRow]:
    return [
        KeyRow(
            sha256=row[0],
            id=row[1],
            prefix=row[2],
            owner=row[3],
            settings=msgspec.json.decode(row[4]),
            created_at=row[5].timestamp(),
            ends_at=None if row[6] is None else row[6].timestamp(),
        )
        for row in found
    ]


def _time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)

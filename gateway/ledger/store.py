"""The ledger in Postgres: writing batches, listing and reading exchanges, erasure.

Reads give plain dicts ready for JSON (times are ISO 8601 in UTC). Translates what SQLAlchemy, asyncpg and the socket
raise into three errors: the database cannot be used now, it refuses these records, or the request was wrong. Knows
nothing of the spool.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

import msgspec
from sqlalchemy import TextClause, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from gateway.errors import LedgerUnavailableError, NotFoundError, RecordRefusedError, RequestError
from gateway.ledger import statements
from gateway.ledger.tables import BODY_TABLES, TABLES, next_month, partition_name

MAX_LIMIT: Final = 500
_INSERT: Final = text(statements.INSERT_BATCH)
_GET: Final = text(statements.GET_EXCHANGE)
# SQLSTATE classes: data exception, integrity violation, program limit exceeded, internal error (huge allocations).
_REFUSED_CLASSES: Final = frozenset({"22", "23", "54"})
_PAGE_DECODER = msgspec.json.Decoder(tuple[datetime, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeFilter:
    """What to list; None does not restrict. Times are inclusive below and exclusive above.

    `routes` are those whose exchanges the reader may see.
    """

    route: str | None = None
    routes: tuple[str, ...] | None = None
    check_status: str | None = None
    reason: str | None = None
    outcome: str | None = None
    key_id: str | None = None
    model: str | None = None
    request_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page, newest first. `cursor` asks for the next one; None at the end."""

    items: list[dict[str, Any]]
    cursor: str | None


def database_url(url: str) -> URL:
    """A user's Postgres URL (`postgres://`, `postgresql://`, libpq's `sslmode`) for asyncpg."""
    target = make_url(url.replace("postgres://", "postgresql://", 1) if url.startswith("postgres://") else url)
    target = target.set(drivername="postgresql+asyncpg")
    if "sslmode" in target.query:
        mode = target.query["sslmode"]
        target = target.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    return target


class PostgresStore:
    """Every statement of the ledger but those of the migrations. Connects on first use; `aclose` ends the pool."""

    def __init__(self, url: str, *, pool_size: int = 4, timeout_s: float = 30.0) -> None:
        self._url = url
        self._pool_size = pool_size
        self._timeout_s = timeout_s
        self._engine = self._engine_for(url)

    def _engine_for(self, url: str) -> AsyncEngine:
        timeout_s = self._timeout_s
        return create_async_engine(
            database_url(url),
            pool_size=self._pool_size,
            max_overflow=2,
            pool_timeout=timeout_s,
            pool_recycle=1800,
            connect_args={
                "timeout": min(timeout_s, 10.0),
                "command_timeout": timeout_s,
                # Compiling the batch statement would take longer than running it.
                "server_settings": {"timezone": "UTC", "jit": "off", "application_name": "grounding-gateway"},
            },
        )

    async def move_to(self, url: str) -> None:
        """Use the database at another address from now on; does nothing for the one in use."""
        if url != self._url:
            self._url, old, self._engine = url, self._engine, self._engine_for(url)
            await old.dispose()

    @property
    def engine(self) -> AsyncEngine:
        """For `retention`, which needs connections outside transactions."""
        return self._engine

    async def aclose(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    async def ping(self) -> None:
        """Raise `LedgerUnavailableError` unless the database answers."""
        await self.rows(text(statements.PING), {})

    async def write(self, records: bytes) -> int:
        """Insert stored records (comma-joined) in one transaction; how many were new.

        Raises `RecordRefusedError` when the database will never take one of them, `LedgerUnavailableError` otherwise.
        """
        rows = await self.rows(_INSERT, {"records": "[" + records.decode() + "]"}, write=True)
        return int(rows[0][0])

    async def list_exchanges(
        self, filters: ExchangeFilter = ExchangeFilter(), *, cursor: str | None = None, limit: int = 50
    ) -> Page:
        """A page of exchanges, newest first. Raises `RequestError` for a cursor that is none of ours."""
        limit = max(1, min(limit, MAX_LIMIT))
        where, values = where_clauses(filters)
        if cursor is not None:
            values["after_time"], values["after_id"] = decode_cursor(cursor)
            where.append("(created_at, id) < (:after_time, :after_id)")
        statement = text(statements.LIST_EXCHANGES.replace("{where}", " AND ".join(where) or "true"))
        rows = await self.rows(statement, {**values, "limit": limit + 1})
        items = [msgspec.json.decode(row[0]) for row in rows[:limit]]
        more = len(rows) > limit
        return Page(items, encode_cursor(rows[limit - 1][1], rows[limit - 1][2]) if more else None)

    async def get_exchange(self, exchange_id: str) -> dict[str, Any]:
        """Everything about one exchange; `body` is None when it was dropped or erased. Raises `NotFoundError`."""
        rows = await self.rows(_GET, {"id": plain(exchange_id)})
        if not rows:
            raise no_exchange(exchange_id)
        found: dict[str, Any] = msgspec.json.decode(rows[0][0])
        return found

    async def whole_exchanges(
        self, filters: ExchangeFilter = ExchangeFilter(), *, cursor: str | None = None, limit: int = 200
    ) -> Page:
        """Everything about the next exchanges, oldest first; the page's `cursor` asks for those after it.

        That cursor is None only where there is nothing to go on from: another call finds what comes later. Raises
        `RequestError` for a cursor that is none of ours.
        """
        where, values = where_clauses(filters)
        if cursor is not None:
            values["after_time"], values["after_id"] = decode_cursor(cursor)
            where.append("(created_at, id) > (:after_time, :after_id)")
        statement = text(statements.WHOLE_EXCHANGES.replace("{where}", " AND ".join(where) or "true"))
        rows = await self.rows(statement, {**values, "limit": limit})
        items = [msgspec.json.decode(row[0]) for row in rows]
        return Page(items, encode_cursor(rows[-1][1], rows[-1][2]) if rows else cursor)

    async def erase_bodies(self, exchange_id: str) -> None:
        """Delete the conversation's text; verdict, labels and offsets stay. Raises `NotFoundError`."""
        values = {"id": plain(exchange_id)}
        async with translated(), self._engine.begin() as connection:
            row = (await connection.execute(text(statements.EXCHANGE_TIME), values)).first()
            if row is None:
                raise no_exchange(exchange_id)
            for table in BODY_TABLES:
                statement = text(statements.ERASE_BODY.format(table=table))
                await connection.execute(statement, {**values, "created_at": row[0]})

    async def ensure_partitions(self, months: Sequence[date]) -> bool:
        """Create the partitions of these months; False when all were there. Safe among several processes."""
        created = False
        async with translated(), self._engine.connect() as connection:
            await connection.execute(text(statements.LOCK_PARTITIONS))
            await connection.commit()
            try:
                rows = (await connection.execute(text(statements.LIST_PARTITIONS))).all()
                attached = {row[0] for row in rows if row[1]}
                for month in months:
                    for table in TABLES:
                        name = partition_name(table, month)
                        if name in attached:
                            continue
                        values = {"table": table, "name": name, "start": month, "end": next_month(month)}
                        await connection.execute(text(statements.CREATE_PARTITION.format(**values)))
                        await connection.execute(text(statements.ATTACH_PARTITION.format(**values)))
                        created = True
                await connection.commit()
                return created
            finally:
                await connection.rollback()
                await connection.execute(text(statements.UNLOCK_PARTITIONS))
                await connection.commit()

    async def execute(self, statement: TextClause, values: dict[str, Any]) -> int:
        """Run a statement that returns no rows, in a transaction; how many it touched. Raises what `write` raises."""
        async with translated(), self._engine.begin() as connection:
            return int((await connection.execute(statement, values)).rowcount)

    async def rows(self, statement: TextClause, values: dict[str, Any], *, write: bool = False) -> Sequence[Any]:
        """The rows of one statement, in a transaction when it writes. Raises what `write` raises."""
        async with translated(), self._engine.begin() if write else self._engine.connect() as connection:
            return (await connection.execute(statement, values)).all()


class translated:
    """Turns driver errors into the ledger's."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error is None or isinstance(error, asyncio.CancelledError):
            return
        if isinstance(error, DBAPIError):
            state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None) or ""
            message = re.sub(r"^<class '[^']*'>: ", "", str(error.orig))
            if state[:2] in _REFUSED_CLASSES or (not state and type(error).__name__ == "DataError"):
                raise RecordRefusedError(message, sqlstate=state) from error
            hint = " (run `grounding-gateway migrate`)" if state in {"42P01", "3F000", "42703"} else ""
            raise LedgerUnavailableError(f"the ledger's database: {message}{hint}", sqlstate=state) from error
        if isinstance(error, SQLAlchemyError | OSError | TimeoutError):
            raise LedgerUnavailableError(f"the ledger's database cannot be reached: {error}") from error


def encode_cursor(created_at: datetime, exchange_id: str) -> str:
    """An opaque position in a list."""
    return base64.urlsafe_b64encode(msgspec.json.encode((created_at, exchange_id))).decode().rstrip("=")


def decode_cursor(cursor: str) -> tuple[datetime, str]:
    """The position again. Raises `RequestError`."""
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        created_at, exchange_id = _PAGE_DECODER.decode(data)
        if created_at.tzinfo is None:
            raise ValueError("no time zone")
    except (binascii.Error, msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise RequestError(
            "the cursor is not one this gateway gave out: take `cursor` from the page before, or leave it out",
            code="invalid_cursor",
            param="cursor",
        ) from error
    return created_at.astimezone(UTC), plain(exchange_id)


def where_clauses(filters: ExchangeFilter) -> tuple[list[str], dict[str, Any]]:
    """Conditions over `ledger.exchange` with their values."""
    equal = {
        "route": filters.route,
        "check_status": filters.check_status,
        "check_reason": filters.reason,
        "outcome": filters.outcome,
        "key_id": filters.key_id,
        "model": filters.model,
        "request_id": filters.request_id,
    }
    values: dict[str, Any] = {column: plain(value) for column, value in equal.items() if value is not None}
    where = [f"{column} = :{column}" for column in values]
    # Written out, so that the partial indexes apply whatever the plan cache does.
    if filters.check_status == "failed":
        where.append("check_status = 'failed'")
    if filters.outcome is not None and filters.outcome != "completed":
        where.append("outcome <> 'completed'")
    if filters.routes is not None:
        where.append("route = ANY(:routes)")
        values["routes"] = list(filters.routes)
    if filters.since is not None:
        where.append("created_at >= :since")
        values["since"] = filters.since
    if filters.until is not None:
        where.append("created_at < :until")
        values["until"] = filters.until
    return where, values


def plain(value: str) -> str:
    """Postgres text has no NUL; an id with one names nothing."""
    return value.replace("\x00", "\ufffd")


def no_exchange(exchange_id: str) -> NotFoundError:
    return NotFoundError(f"no exchange {exchange_id!r} in the ledger", code="exchange_not_found")

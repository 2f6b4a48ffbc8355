"""What `keys create|list|revoke|rotate` do: keys in the ledger's database. A key is shown once, when it is made."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from gateway.access.keys import key_digest, new_key
from gateway.app.serving import open_database
from gateway.cli.output import USAGE, emit, fail, note
from gateway.config.load import load
from gateway.config.model import GatewayConfig, KeyConfig
from gateway.config.problems import listed, suggestion
from gateway.ledger.keys import KeyRow, PostgresKeys
from gateway.ledger.store import PostgresStore

T = TypeVar("T")

SHOWN: Final = 8
"""So many characters of a key are kept, to tell it from others by what somebody has in hand."""
_ADVICE: Final = (
    "set access: {stored_keys: true} in the configuration, so that the gateway takes keys from the database"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A key to be made. `settings` are those of a `keys` entry; `lasts_s` is None for good."""

    id: str
    owner: str = ""
    lasts_s: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def create(config_path: Path, wanted: Wanted, *, as_json: bool) -> None:
    """Make a key."""
    config = load(config_path, os.environ)
    _require_possible(config, wanted)
    key = new_key()
    now = time.time()
    row = KeyRow(
        sha256=key_digest(key),
        id=wanted.id,
        prefix=key[:SHOWN],
        owner=wanted.owner,
        settings=wanted.settings,
        ends_at=None if wanted.lasts_s is None else now + wanted.lasts_s,
    )
    _run(config, lambda keys: keys.add(row))
    _show_new(config, key, row, as_json=as_json)


def rotate(config_path: Path, key_id: str, *, grace_s: float, as_json: bool) -> None:
    """Make a new key in place of one with the same settings; the old one goes on for `grace_s`."""
    config = load(config_path, os.environ)
    key = new_key()

    async def replace(keys: PostgresKeys) -> KeyRow:
        old = [row for row in await keys.current() if row.id == key_id]
        newest = max(old, key=lambda row: row.created_at, default=None)
        row = KeyRow(
            sha256=key_digest(key),
            id=key_id,
            prefix=key[:SHOWN],
            owner=newest.owner if newest else "",
            settings=newest.settings if newest else {},
            ends_at=newest.ends_at if newest else None,
        )
        await keys.add(row, replaces_until=time.time() + grace_s)
        return row

    row = _run(config, replace)
    _show_new(config, key, row, as_json=as_json)
    note(f"the old key ends {'at once' if grace_s <= 0 else f'in {grace_s:.0f} s'}; {_delay(config)}")


def revoke(config_path: Path, key_id: str, *, as_json: bool) -> None:
    """End a key at once."""
    config = load(config_path, os.environ)
    count = _run(config, lambda keys: keys.revoke(key_id))
    emit({"id": key_id, "revoked": count}, as_json=as_json, text=f"revoked '{key_id}'; {_delay(config)}")


def listing(config_path: Path, *, ended: bool, as_json: bool) -> None:
    """Every key with its owner, limits and end; never the key itself."""
    config = load(config_path, os.environ)
    rows = _run(config, lambda keys: keys.listed() if ended else keys.current())
    table = [
        (row.id, f"{row.prefix}...", row.owner, _routes(row), _limits(row), _date(row.created_at), _date(row.ends_at))
        for row in rows
    ]
    columns = ("id", "key", "owner", "routes", "limits", "created", "ends")
    emit({"data": [_public(row) for row in rows]}, as_json=as_json, table=(columns, table))


def _require_possible(config: GatewayConfig, wanted: Wanted) -> None:
    """What the configuration would refuse of an entry of its own."""
    try:
        entry = KeyConfig.model_validate({**wanted.settings, "id": wanted.id, "sha256": "0" * 64})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        fail(f"{where}: {first['msg']}", "ids: lower-case letters, digits, `.`, `_` and `-`", USAGE)
    for route in entry.routes:
        if route != "*" and route not in config.routes:
            known = listed(config.routes)
            fail(f"there is no route '{route}'{suggestion(route, config.routes)}", f"known: {known}", USAGE)
    if any(key.id == wanted.id for key in config.keys):
        fail(f"the configuration has a key '{wanted.id}' already", "choose another id", USAGE)
    if entry.budget.usd is not None and "*" not in config.prices:
        fail(
            "a budget in USD needs the price of every model",
            'add prices: {"*": {prompt: ..., completion: ...}} to the configuration, or limit tokens',
            USAGE,
        )


def _run(config: GatewayConfig, work: Callable[[PostgresKeys], Awaitable[T]]) -> T:
    async def run() -> T:
        async with AsyncExitStack() as stack:
            url, _ = await open_database(config, stack)
            store = PostgresStore(url)
            stack.push_async_callback(store.aclose)
            return await work(PostgresKeys(store))

    return asyncio.run(run())


def _show_new(config: GatewayConfig, key: str, row: KeyRow, *, as_json: bool) -> None:
    told = f"{key}\n\nThis key is shown once and kept nowhere; '{row.id}' is its name in records."
    emit({"key": key, **_public(row)}, as_json=as_json, text=told)
    if not config.access.stored_keys:
        note(f"warning: running gateways do not look at it; {_ADVICE}")


def _delay(config: GatewayConfig) -> str:
    if not config.access.stored_keys:
        return _ADVICE
    return f"every gateway over this database knows within {config.access.refresh:g} s"


def _public(row: KeyRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "prefix": row.prefix,
        "owner": row.owner,
        **row.settings,
        "created_at": _date(row.created_at),
        "ends_at": _date(row.ends_at),
    }


def _routes(row: KeyRow) -> str:
    return ", ".join(row.settings.get("routes", ["*"]))


def _limits(row: KeyRow) -> str:
    limits, budget = row.settings.get("limits", {}), row.settings.get("budget", {})
    parts = [f"{limits[key]} {what}/min" for key, what in _RATES if key in limits]
    parts += [f"{budget[key]:g} {key}/{budget.get('per', 'month')}" for key in ("tokens", "usd") if key in budget]
    return ", ".join(parts)


_RATES: Final = (("requests_per_minute", "requests"), ("tokens_per_minute", "tokens"))


def _date(at: float | None) -> str | None:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else None

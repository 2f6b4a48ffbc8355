"""Keys in the database: made, rotated, revoked, and known or not known while the database is away."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.access.keys import Keyring, Principal, key_digest, new_key
from gateway.access.stored import StoredKeys
from gateway.config.model import KeyConfig
from gateway.errors import (
    AuthenticationError,
    LedgerUnavailableError,
    NotFoundError,
    OverloadedError,
    RequestError,
)
from gateway.ledger.keys import KeyRow, PostgresKeys
from gateway.ledger.store import PostgresStore
from gateway.quota import Quota


class Desk:
    """Keys of one database as one worker sees them."""

    def __init__(self, store: PostgresStore, **settings: Any) -> None:
        self.keys = PostgresKeys(store)
        self.now = 1_000.0
        self.stored = StoredKeys(self.keys, refresh_s=2.0, stale_for_s=60.0, clock=lambda: self.now)
        self.ring = Keyring([], loopback=True, stored=self.stored, **settings)

    def caller(self, key: str) -> Principal:
        return self.ring.identify({"authorization": f"Bearer {key}"})

    async def made(self, key_id: str = "alice", **fields: Any) -> str:
        key = new_key()
        row = KeyRow(sha256=key_digest(key), id=key_id, prefix=key[:8], settings=fields.pop("settings", {}), **fields)
        await self.keys.add(row)
        await self.stored.refresh()
        return key


@pytest.fixture
async def store(fresh_postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(fresh_postgres_url)
    yield store
    await store.aclose()


@pytest.fixture
async def desk(store: PostgresStore) -> Desk:
    desk = Desk(store)
    await desk.stored.refresh()
    return desk


async def test_a_key_made_in_the_database_opens_what_it_was_made_for(desk: Desk) -> None:
    settings = {"routes": ["support"], "groups": ["staff"], "audit": True, "limits": {"requests_per_minute": 9}}
    key = await desk.made(settings=settings, owner="Alice")
    assert desk.caller(key) == Principal(
        key_id="alice",
        routes=frozenset({"support"}),
        groups=frozenset({"staff"}),
        audit=True,
        quota=Quota(requests_per_minute=9),
    )
    with pytest.raises(AuthenticationError):
        desk.caller(key + "x").require_known()
    with pytest.raises(AuthenticationError):
        desk.ring.identify({}).require_known()


async def test_a_revoked_key_opens_nothing_after_the_next_look(desk: Desk) -> None:
    key = await desk.made()
    assert await desk.keys.revoke("alice") == 1
    await desk.stored.refresh()
    with pytest.raises(AuthenticationError):
        desk.caller(key).require_known()
    with pytest.raises(NotFoundError):
        await desk.keys.revoke("alice")


async def test_a_rotated_key_goes_on_for_its_grace_and_the_new_one_has_its_name(desk: Desk) -> None:
    old, key = await desk.made(), new_key()
    row = KeyRow(sha256=key_digest(key), id="alice", prefix=key[:8], settings={})
    await desk.keys.add(row, replaces_until=time.time() + 3_600)
    await desk.stored.refresh()
    assert desk.caller(old).key_id == desk.caller(key).key_id == "alice"
    later = Keyring([], loopback=True, stored=desk.stored, now=lambda: time.time() + 4_000)
    with pytest.raises(AuthenticationError, match="expired or was replaced"):
        later.identify({"x-api-key": old}).require_known()
    assert later.identify({"x-api-key": key}).key_id == "alice"


async def test_an_expired_key_opens_nothing_even_before_the_next_look(desk: Desk) -> None:
    key = await desk.made(ends_at=time.time() + 3_600)
    later = Keyring([], loopback=True, stored=desk.stored, now=lambda: time.time() + 3_601)
    with pytest.raises(AuthenticationError):
        later.identify({"x-api-key": key}).require_known()


async def test_two_keys_of_one_name_are_refused_and_a_used_name_can_be_given_again(desk: Desk) -> None:
    await desk.made()
    with pytest.raises(RequestError, match="rotate it"):
        await desk.made()
    await desk.keys.revoke("alice")
    key = await desk.made()
    assert desk.caller(key).key_id == "alice"
    assert len(await desk.keys.listed()) == 2
    with pytest.raises(NotFoundError):
        await desk.keys.add(KeyRow(sha256="0" * 64, id="bob", prefix="gg-", settings={}), replaces_until=time.time())


async def test_known_keys_go_on_for_a_while_without_the_database_and_strangers_are_not_told_they_are_none(
    desk: Desk, store: PostgresStore
) -> None:
    key = await desk.made()
    await store.move_to("postgresql://nobody@127.0.0.1:9/none")
    told: list[BaseException] = []
    desk.stored.problem = lambda event, error: told.append(error)
    desk.now += 59
    await desk.stored.refresh()
    assert isinstance(told[0], LedgerUnavailableError)
    assert desk.caller(key).key_id == "alice"
    desk.now += 2
    with pytest.raises(OverloadedError) as error:
        desk.caller(key).require_known()
    assert (error.value.status, error.value.code) == (503, "keys_unavailable")


async def test_before_the_first_look_nobody_is_refused_for_good(store: PostgresStore) -> None:
    with pytest.raises(OverloadedError):
        Desk(store).caller("gg-anything-at-all-0123456789").require_known()


async def test_a_key_with_settings_of_a_newer_release_is_not_let_in_and_told_of(desk: Desk) -> None:
    told: list[str] = []
    desk.stored.problem = lambda event, error: told.append(event)
    key = await desk.made(settings={"may_not": ["everything"]})
    with pytest.raises(AuthenticationError):
        desk.caller(key).require_known()
    assert told == ["key_not_understood"]


async def test_keys_of_the_configuration_go_on_beside_those_of_the_database(store: PostgresStore) -> None:
    own = "gg-of-the-file-0123456789abcdef"
    entry = KeyConfig.model_validate(
        {"id": "file", "sha256": key_digest(own), "expires": "2027-01-01T00:00:00Z", "budget": {"tokens": 5}}
    )
    stored = Desk(store).stored
    ring = Keyring([entry], loopback=True, stored=stored, now=lambda: 0.0)
    assert ring.identify({"x-api-key": own}).quota == Quota(budget_tokens=5)
    ended = Keyring([entry], loopback=True, stored=stored, now=lambda: 1_900_000_000.0)
    with pytest.raises(AuthenticationError, match="expired"):
        ended.identify({"x-api-key": own}).require_known()

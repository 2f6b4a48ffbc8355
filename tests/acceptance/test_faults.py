"""Whatever is killed or away: nothing finished is lost, nothing doubled, counted against the clients' own list."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import httpx
import pytest

from gateway.ledger.embedded import EmbeddedPostgres
from tests.acceptance.asking import body
from tests.acceptance.process import GatewayProcess, alive, serving, write
from tests.acceptance.settings import lean
from tests.acceptance.test_operation import postgres_of
from tests.servers.upstream import UpstreamServer, chat_events, completion, json_reply, sse_reply

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

ANSWER = "It weighs 3 kg, it flies 40 km."


@pytest.fixture(name="upstream")
def fresh_upstream(session_upstream: UpstreamServer) -> UpstreamServer:
    session_upstream.forget()
    session_upstream.on_model("whole", json_reply(completion(ANSWER)))
    session_upstream.on_model("stream", sse_reply(chat_events(ANSWER)))
    return session_upstream


@dataclass
class Load:
    """Clients that ask again and again, and their own list of what came of it."""

    finished: set[str] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)
    """Exchanges whose name the client learned."""
    refused: list[int] = field(default_factory=list)
    running: bool = True

    async def run(self, base_url: Callable[[], str], lanes: int = 8) -> None:
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks:
            for lane in range(lanes):
                tasks.create_task(self._lane(session, base_url, stream=lane % 2 == 0))

    async def _lane(self, session: aiohttp.ClientSession, base_url: Callable[[], str], *, stream: bool) -> None:
        sent = {**body(stream=stream), "model": "stream" if stream else "whole"}
        while self.running:
            try:
                async with session.post(f"{base_url()}/v1/chat/completions", json=sent) as response:
                    exchange = response.headers.get("x-grounding-exchange", "")
                    if response.status == 200:
                        self.begun.add(exchange)
                    content = await response.read()
            except (aiohttp.ClientError, OSError):
                await asyncio.sleep(0.01)
                continue
            if response.status != 200:
                self.refused.append(response.status)
            elif content.endswith(b"data: [DONE]\n\n") if stream else ANSWER.encode() in content:
                self.finished.add(exchange)

    async def until(self, finished: int) -> None:
        async with asyncio.timeout(90):
            while len(self.finished) < finished:
                await asyncio.sleep(0.01)


async def recorded(database: str) -> dict[str, str]:
    """Every exchange in Postgres with its outcome; fails if one is there twice."""
    connection = await asyncpg.connect(database)
    try:
        rows = await connection.fetch("SELECT id, outcome FROM ledger.exchange")
        orphans = await connection.fetchval(
            "SELECT count(*) FROM ledger.attempt a WHERE NOT EXISTS (SELECT 1 FROM ledger.exchange e "
            "WHERE e.id = a.exchange_id)"
        )
    finally:
        await connection.close()
    assert Counter(row["id"] for row in rows).most_common(1)[0][1] == 1
    assert orphans == 0  # BerriAI/litellm #29342: rows of exchanges that are not there
    return {row["id"]: row["outcome"] for row in rows}


async def settled(gateway: GatewayProcess) -> None:
    """Everything that was spooled is in Postgres."""
    async with httpx.AsyncClient(verify=False) as http, asyncio.timeout(90):
        while True:
            stats = (await http.get(f"{gateway.base_url}/readyz")).json()["ledger"]
            if stats["postgres_up"] and not stats["spool_depth"] and not stats["open"]:
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def under_load(gateway: GatewayProcess) -> AsyncGenerator[Load, None]:
    load = Load()
    running = asyncio.create_task(load.run(lambda: gateway.base_url))
    try:
        yield load
    finally:
        load.running = False
        await running


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_gateway_killed_under_load_loses_and_doubles_nothing(
    tmp_path: Path, upstream: UpstreamServer, fresh_postgres_url: str, workers: int
) -> None:
    path = tmp_path / "gateway.yaml"
    gate = asyncio.Event()
    upstream.on_model("endless", sse_reply(chat_events(ANSWER), gates={3: gate}))
    write(path, lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url, workers=workers))
    total = Load()
    unfinished: set[str] = set()
    for least in (60, 150) if workers == 1 else (150,):
        gateway = GatewayProcess(path)
        await gateway.start()
        async with httpx.AsyncClient(verify=False) as http:
            place = f"{gateway.base_url}/v1/chat/completions"
            sent = {**body(stream=True), "model": "endless"}
            async with http.stream("POST", place, json=sent) as response, under_load(gateway) as load:
                unfinished.add(response.headers["x-grounding-exchange"])
                await load.until(least)
                await gateway.kill()
                load.running = False
        total.finished |= load.finished
        total.begun |= load.begun
    last = lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url)
    async with serving(path, last) as gateway:
        await settled(gateway)
    gate.set()
    kept = await recorded(fresh_postgres_url)
    assert {name for name in total.finished if kept.get(name) != "completed"} == set()
    assert {kept[name] for name in unfinished} == {"interrupted"}
    assert total.begun <= set(kept)
    assert set(kept.values()) <= {"completed", "interrupted"}
    # What the client never saw finished was cut within its answer, or between the record and the last byte.
    assert len(kept) <= len(total.finished) + 2 * (8 + 1)


async def test_its_own_postgres_killed_under_load_costs_no_answer_and_no_record(
    tmp_path: Path, upstream: UpstreamServer
) -> None:
    path = tmp_path / "gateway.yaml"
    async with serving(path, lean(tmp_path, upstream=upstream.base_url)) as gateway:
        async with under_load(gateway) as load:
            for least in (40, 150):
                await load.until(least)
                postmaster = postgres_of(tmp_path)
                assert postmaster is not None
                os.kill(postmaster, signal.SIGKILL)
                async with asyncio.timeout(90):
                    while postgres_of(tmp_path) in (postmaster, None):
                        await asyncio.sleep(0.02)
            await load.until(250)
        assert load.refused == []
        await settled(gateway)
        listed = await _all_listed(gateway)
        assert Counter(listed.values()) == {"completed": len(load.finished)}
        assert set(listed) == load.finished
        last = postgres_of(tmp_path)
    assert last is not None
    assert not alive(last)


async def _all_listed(gateway: GatewayProcess) -> dict[str, str]:
    found: list[tuple[str, str]] = []
    async with httpx.AsyncClient(base_url=gateway.base_url, verify=False, timeout=30) as http:
        params: dict[str, Any] = {"limit": 500}
        while True:
            page = (await http.get("/v1/exchanges", params=params)).json()
            found += [(item["id"], item["outcome"]) for item in page["data"]]
            if page["next"] is None:
                break
            params["cursor"] = page["next"]
    assert len(dict(found)) == len(found)
    return dict(found)


async def test_a_gateway_killed_with_its_own_postgres_running_finds_it_and_its_records_again(
    tmp_path: Path, upstream: UpstreamServer
) -> None:
    path = tmp_path / "gateway.yaml"
    write(path, lean(tmp_path, upstream=upstream.base_url))
    gateway = GatewayProcess(path)
    await gateway.start()
    async with under_load(gateway) as load:
        await load.until(60)
        await gateway.kill()
        load.running = False
    left = postgres_of(tmp_path)
    async with serving(path) as gateway:
        await settled(gateway)
        listed = await _all_listed(gateway)
        assert {name for name in load.finished if listed.get(name) != "completed"} == set()
        last = postgres_of(tmp_path)
    assert last is not None
    assert left is not None
    assert not alive(last)
    assert not alive(left)


@asynccontextmanager
async def own_postgres(folder: Path) -> AsyncGenerator[tuple[EmbeddedPostgres, str], None]:
    """A database of the test's, which it can stop and start."""
    postgres = EmbeddedPostgres(folder, settings={"fsync": "off"})
    url = await postgres.start()
    try:
        yield postgres, url
    finally:
        await postgres.stop()


async def test_serving_goes_on_while_the_ledger_is_away_and_its_records_follow(
    tmp_path: Path, upstream: UpstreamServer
) -> None:
    async with own_postgres(tmp_path / "pg") as (postgres, url):
        config = lean(tmp_path, upstream=upstream.base_url, database=url)
        async with serving(tmp_path / "gateway.yaml", config) as gateway:
            async with under_load(gateway) as load:
                await load.until(30)
                await postgres.stop()
                await load.until(len(load.finished) + 100)
                async with httpx.AsyncClient(base_url=gateway.base_url, verify=False, timeout=60) as http:
                    ready = await http.get("/readyz")
                    assert ready.status_code == 200
                    assert ready.json()["ledger"]["spool_depth"] > 0
                    metrics = (await http.get("/metrics")).text
                    assert "grounding_ledger_spool_depth" in metrics
                    # Reading needs the database, and says that it is away.
                    reading = await http.get("/v1/exchanges")
                    assert (reading.status_code, reading.json()["error"]["code"]) == (503, "ledger_unavailable")
                assert await postgres.start() == url
                await load.until(len(load.finished) + 30)
            assert load.refused == []
            await settled(gateway)
        kept = await recorded(url)
        assert kept == dict.fromkeys(load.finished, "completed")


async def test_a_gateway_restarted_while_the_ledger_is_away_brings_the_records_of_before(
    tmp_path: Path, upstream: UpstreamServer
) -> None:
    """A gateway that is stopped in an outage leaves its spool to the next one."""
    path = tmp_path / "gateway.yaml"
    async with own_postgres(tmp_path / "pg") as (postgres, url):
        async with serving(path, lean(tmp_path, upstream=upstream.base_url, database=url)) as gateway:
            await settled(gateway)
            await postgres.stop()
            async with under_load(gateway) as load:
                await load.until(20)
            assert await gateway.stop() == 0
        assert await postgres.start() == url
        async with serving(path) as gateway:
            await settled(gateway)
        assert await recorded(url) == dict.fromkeys(load.finished, "completed")


@pytest.mark.parametrize("when_full", ["refuse", "serve_unrecorded"])
async def test_past_the_spools_bound_the_declared_rule_holds(
    tmp_path: Path, upstream: UpstreamServer, when_full: str
) -> None:
    async with own_postgres(tmp_path / "pg") as (postgres, url):
        config = lean(tmp_path, upstream=upstream.base_url, database=url)
        config["ledger"]["spool"] = {"max_bytes": 1_000_000, "when_full": when_full}
        async with serving(tmp_path / "gateway.yaml", config) as gateway:
            await settled(gateway)
            await postgres.stop()
            served, refused = 0, None
            async with httpx.AsyncClient(base_url=gateway.base_url, verify=False, timeout=30) as http:
                for number in range(40):
                    noise = "".join(chr(33 + (number * 7919 + place * place * 31) % 90) for place in range(100_000))
                    sent = {**body(noise), "model": "whole"}
                    response = await http.post("/v1/chat/completions", json=sent)
                    if response.status_code != 200:
                        refused = response
                        break
                    served += 1
                ready = await http.get("/readyz")
                if when_full == "refuse":
                    assert refused is not None
                    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "ledger_unavailable")
                    assert refused.headers["retry-after"]
                    assert ready.status_code == 503
                else:
                    assert (served, ready.status_code) == (40, 200)
                await postgres.start()
                await settled(gateway)
                again = await http.post("/v1/chat/completions", json={**body(), "model": "whole"})
                assert again.status_code == 200
        kept = await recorded(url)
        if when_full == "refuse":
            assert len([name for name, outcome in kept.items() if outcome == "completed"]) == served + 1
        else:
            assert 0 < len(kept) < 41

"""One gateway process, one scriptable upstream and one judge for the whole session, each as new for every test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from tests.acceptance.judging import WordingJudge, wording_judge
from tests.acceptance.process import GatewayProcess, serving
from tests.acceptance.settings import KEY, house
from tests.servers.upstream import UpstreamServer

_RECORDED_S = 20.0


@dataclass
class House:
    """The shared gateway with what stands around it, as one client with a key for everything sees it."""

    gateway: GatewayProcess
    upstream: UpstreamServer
    judge: WordingJudge
    http: httpx.AsyncClient = field(repr=False)
    openai: AsyncOpenAI = field(repr=False)

    @property
    def base_url(self) -> str:
        return self.gateway.base_url

    def client(self, route: str | None = None, *, key: str = KEY, max_retries: int = 0) -> AsyncOpenAI:
        """The official SDK at a route's own base URL, or at `/v1`."""
        place = f"/r/{route}/v1" if route else "/v1"
        return self.openai.with_options(base_url=self.base_url + place, api_key=key, max_retries=max_retries)

    async def record(self, exchange: str) -> dict[str, Any]:
        """What was recorded of an exchange, once it has reached Postgres."""
        async with asyncio.timeout(_RECORDED_S):
            while True:
                response = await self.http.get(f"/v1/exchanges/{exchange}")
                if response.status_code == 200:
                    return dict(response.json())
                assert response.status_code == 404, response.text
                await asyncio.sleep(0.02)

    async def latest(self, **filters: str) -> dict[str, Any]:
        """The newest recorded exchange that fits, once there is one; `request_id` may be among the filters."""
        wanted = filters.pop("request_id", None)
        async with asyncio.timeout(_RECORDED_S):
            while True:
                response = await self.http.get("/v1/exchanges", params=filters)
                response.raise_for_status()
                for item in response.json()["data"]:
                    if wanted is None or item["request_id"] == wanted:
                        return dict(item)
                await asyncio.sleep(0.02)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def session_upstream() -> AsyncGenerator[UpstreamServer, None]:
    async with UpstreamServer() as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def session_judge() -> AsyncGenerator[WordingJudge, None]:
    async with wording_judge() as judge:
        yield judge


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def session_database(postgres_server: str) -> str:
    """The ledger's database of the shared gateway."""
    connection = await asyncpg.connect(postgres_server)
    try:
        await connection.execute("CREATE DATABASE acceptance TEMPLATE migrated")
    finally:
        await connection.close()
    return f"{postgres_server.rpartition('/')[0]}/acceptance"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def session_house(
    tmp_path_factory: pytest.TempPathFactory,
    session_upstream: UpstreamServer,
    session_judge: WordingJudge,
    session_database: str,
) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("house")
    config = house(folder, upstream=session_upstream.base_url, judge=session_judge.base_url, database=session_database)
    async with (
        serving(folder / "gateway.yaml", config) as gateway,
        httpx.AsyncClient(base_url=gateway.base_url, timeout=30, headers={"authorization": f"Bearer {KEY}"}) as http,
        AsyncOpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY, max_retries=0, timeout=30) as client,
    ):
        yield House(gateway, session_upstream, session_judge, http, client)


@pytest.fixture(name="house")
def fresh_house(session_house: House) -> House:
    """The shared gateway; upstream and judge have forgotten what other tests did."""
    session_house.upstream.forget()
    session_house.judge.forget()
    return session_house

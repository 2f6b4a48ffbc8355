"""Whose task the ledger's schema is: the gateway's own, or that of a job around a rollout."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

from migrations import current, missing
from tests.acceptance.asking import body
from tests.acceptance.process import serving, write
from tests.acceptance.settings import lean
from tests.acceptance.test_operation import run_command
from tests.servers.upstream import UpstreamServer

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(name="upstream")
def fresh_upstream(session_upstream: UpstreamServer) -> UpstreamServer:
    session_upstream.forget()
    return session_upstream


async def test_a_gateway_that_may_not_migrate_says_so_instead_of_losing_records_later(
    tmp_path: Path, upstream: UpstreamServer, empty_postgres_url: str
) -> None:
    path = tmp_path / "gateway.yaml"
    config = lean(tmp_path, upstream=upstream.base_url)
    write(path, {**config, "ledger": {"database_url": empty_postgres_url, "migrate": "never"}})
    code, output = await run_command("serve", "--config", str(path))
    assert code == 3
    assert "missing: 0001" in output
    assert "migrate --phase pre" in output
    assert await current(empty_postgres_url) is None
    # The job does it, with the same file; then it serves and records.
    code, output = await run_command("migrate", "--phase", "pre", "--config", str(path))
    assert code == 0, output
    assert await missing(empty_postgres_url) == []
    async with serving(path) as gateway, httpx.AsyncClient(verify=False) as http:
        answer = await http.post(f"{gateway.base_url}/v1/chat/completions", json=body())
        assert answer.status_code == 200


async def test_a_restart_while_postgres_is_away_serves_all_the_same(tmp_path: Path, upstream: UpstreamServer) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"postgresql://gateway:secret-word-1@127.0.0.1:{closed.getsockname()[1]}/ledger"
        path = tmp_path / "gateway.yaml"
        config = lean(tmp_path, upstream=upstream.base_url)
        write(path, {**config, "ledger": {"database_url": address, "migrate": "never"}})
        async with serving(path) as gateway, httpx.AsyncClient(verify=False) as http:
            answer = await http.post(f"{gateway.base_url}/v1/chat/completions", json=body())
            assert answer.status_code == 200
            ledger = (await http.get(f"{gateway.base_url}/readyz")).json()["ledger"]
            assert ledger["postgres_up"] == 0
            assert ledger["spool_depth"] == 1
            assert "Postgres cannot be reached" in gateway.output
            assert "secret-word-1" not in gateway.output


async def test_a_gateway_with_its_own_postgres_cannot_leave_the_schema_to_others(
    tmp_path: Path, upstream: UpstreamServer
) -> None:
    path = tmp_path / "gateway.yaml"
    write(path, {**lean(tmp_path, upstream=upstream.base_url), "ledger": {"migrate": "never"}})
    code, output = await run_command("config", "check", str(path))
    assert code == 2
    assert "migrate: never" in output
    assert "database_url" in output

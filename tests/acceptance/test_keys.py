"""Keys made from the shell, over one database and two gateways: known, limited and revoked on both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from typer.testing import CliRunner

from gateway.cli import app
from gateway.cli.output import exit_code
from gateway.errors import GatewayError
from tests.acceptance.asking import body
from tests.acceptance.process import GatewayProcess, serving
from tests.acceptance.settings import lean
from tests.servers.upstream import UpstreamServer

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

_KNOWN_S = 30.0  # far more than `refresh`, on a machine that runs much else


@dataclass
class Replicas:
    """Two gateways over one database."""

    gateways: list[GatewayProcess]
    path: Path
    http: httpx.AsyncClient = field(repr=False)

    async def command(self, *arguments: str) -> tuple[int, str, str]:
        """`grounding-gateway keys ...`: exit code, output, what it said beside it."""
        result = await asyncio.to_thread(CliRunner().invoke, app, ["keys", *arguments, "--config", str(self.path)])
        error = result.exception
        if isinstance(error, GatewayError):  # which `main` tells and turns into a code
            return exit_code(error), result.stdout, error.message
        return result.exit_code, result.stdout, result.stderr

    async def made(self, *arguments: str) -> str:
        code, out, err = await self.command("create", *arguments, "--json")
        assert code == 0, err
        return str(json.loads(out)["key"])

    async def ask(self, number: int, key: str) -> httpx.Response:
        url = f"{self.gateways[number].base_url}/v1/chat/completions"
        return await self.http.post(url, json=body(), headers={"authorization": f"Bearer {key}"})

    async def until(self, number: int, key: str, status: int) -> httpx.Response:
        """Ask until the answer has this status."""
        async with asyncio.timeout(_KNOWN_S):
            while (answer := await self.ask(number, key)).status_code != status:
                await asyncio.sleep(0.05)
            return answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replicas(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> AsyncGenerator[Replicas, None]:
    async with UpstreamServer() as upstream, httpx.AsyncClient(timeout=30) as http:
        configs: list[tuple[Path, dict[str, Any]]] = []
        for name in ("a", "b"):
            folder = tmp_path_factory.mktemp(name)
            config = lean(folder, upstream=upstream.base_url, database=postgres_url)
            config["access"] = {"stored_keys": True, "refresh": 0.2}
            configs.append((folder / "gateway.yaml", config))
        async with serving(*configs[0]) as first, serving(*configs[1]) as second:
            yield Replicas([first, second], configs[0][0], http)


async def test_a_key_from_the_shell_is_known_to_every_replica_and_a_revoked_one_to_none(replicas: Replicas) -> None:
    assert (await replicas.ask(0, "gg-nobody-0123456789abcdefgh")).status_code == 401
    key = await replicas.made("alice", "--owner", "Alice", "--route", "plain", "--expires", "90d")
    for number in (0, 1):
        assert (await replicas.until(number, key, 200)).headers["x-grounding-exchange"]
    code, out, _ = await replicas.command("list")
    assert code == 0
    assert key not in out
    assert "alice" in out
    assert key[:8] in out
    code, _, err = await replicas.command("create", "alice")
    assert code == 2
    assert "rotate it" in err
    assert (await replicas.command("revoke", "alice"))[0] == 0
    for number in (0, 1):
        await replicas.until(number, key, 401)
    assert (await replicas.command("revoke", "alice"))[0] == 1
    assert key not in replicas.gateways[0].output + replicas.gateways[1].output


async def test_a_limit_is_one_for_both_replicas(replicas: Replicas) -> None:
    key = await replicas.made("limited", "--requests-per-minute", "4", "--budget-tokens", "100000")
    for number in (0, 1):
        await replicas.until(number, key, 200)  # two of the four, one at each
    answers = await asyncio.gather(*(replicas.ask(number % 2, key) for number in range(10)))
    assert 2 <= [answer.status_code for answer in answers].count(200) <= 4  # a slow machine lets one or two come back
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"


async def test_a_rotated_key_has_the_rights_of_the_old_one(replicas: Replicas) -> None:
    old = await replicas.made("robot", "--route", "plain")
    await replicas.until(1, old, 200)
    code, out, err = await replicas.command("rotate", "robot", "--json")
    assert code == 0, err
    new = json.loads(out)
    assert new["routes"] == ["plain"]
    await replicas.until(1, new["key"], 200)
    answer = await replicas.until(1, old, 401)
    assert answer.json()["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    ("arguments", "holds"),
    [
        (["Upper"], "ids: lower-case letters"),
        (["x", "--route", "plane"], "did you mean `plain`?"),
        (["x", "--budget-usd", "5"], "needs the price of every model"),
        (["x", "--expires", "soon"], "is no span of time"),
    ],
)
async def test_a_key_that_could_not_work_is_not_made(replicas: Replicas, arguments: list[str], holds: str) -> None:
    code, _, err = await replicas.command("create", *arguments)
    assert code == 2
    assert holds in err

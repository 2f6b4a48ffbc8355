"""Being operated: health, metrics, drain, reload, several workers, and ends without orphans."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psutil  # type: ignore[import-untyped]
import pytest
import pytest_asyncio
import trustme
import yaml
from openai import AsyncOpenAI

from tests.acceptance.asking import ask, body, user
from tests.acceptance.conftest import House
from tests.acceptance.judging import WordingJudge
from tests.acceptance.process import ROOT, GatewayProcess, alive, environment, serving, write
from tests.acceptance.settings import KEY, LIMITED_KEY, digest, lean
from tests.servers.upstream import UpstreamServer, chat_events, completion, json_reply, sse_reply

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

GATED = "It weighs 3 kg, it flies 40 km."


@pytest.fixture(name="upstream")
def fresh_upstream(session_upstream: UpstreamServer) -> UpstreamServer:
    session_upstream.forget()
    return session_upstream


@pytest.fixture(name="judge")
def fresh_judge(session_judge: WordingJudge) -> WordingJudge:
    session_judge.forget()
    return session_judge


async def outcomes(database: str) -> dict[str, str]:
    connection = await asyncpg.connect(database)
    try:
        rows = await connection.fetch("SELECT id, outcome FROM ledger.exchange")
    finally:
        await connection.close()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["outcome"] for row in rows}


async def until_refused(base_url: str) -> None:
    """The gateway takes no new connections any more."""
    async with asyncio.timeout(90):
        while True:
            try:
                async with httpx.AsyncClient(verify=False) as http:
                    await http.get(f"{base_url}/healthz")
            except httpx.TransportError:
                return


async def until_logged(gateway: GatewayProcess, text: str, times: int = 1) -> None:
    try:
        async with asyncio.timeout(90):
            while gateway.output.count(text) < times:
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{text!r} does not stand {times} times in\n{gateway.output}") from None


async def models(gateway: GatewayProcess) -> set[str]:
    async with httpx.AsyncClient(verify=False) as http:
        found = (await http.get(f"{gateway.base_url}/v1/models")).json()
    return {model["id"] for model in found["data"]}


# -- health and metrics ------------------------------------------------------------------------------------------------


async def test_health_and_readiness_need_no_key_and_tell_what_is_the_matter(house: House) -> None:
    async with httpx.AsyncClient(base_url=house.base_url) as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        async with asyncio.timeout(90):
            while not (ready := await http.get("/readyz")).json()["ledger"]["postgres_up"]:
                assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert ready.json()["config"]


async def until_postgres_is_up(house: House) -> None:
    async with asyncio.timeout(90):
        while not (await house.http.get("/readyz")).json()["ledger"]["postgres_up"]:
            await asyncio.sleep(0.02)


async def test_metrics_count_what_was_served(house: House) -> None:
    await until_postgres_is_up(house)

    async def value(line: str) -> float:
        text = (await house.http.get("/metrics")).text
        return next((float(row.rpartition(" ")[2]) for row in text.splitlines() if row.startswith(line + " ")), 0.0)

    completed = 'grounding_exchanges_total{outcome="completed",route="held-annotate",status="200"}'
    failed = 'grounding_verdicts_total{kind="fact_check",route="held-annotate",status="failed"}'
    label = 'grounding_facts_total{kind="fact_check",label="false",route="held-annotate",status="failed"}'
    before = [await value(line) for line in (completed, failed, label)]
    house.upstream.enqueue(json_reply(completion("Its wrong range is 90 km.")))
    await ask(house.client("held-annotate"), stream=False)
    assert [await value(line) for line in (completed, failed, label)] == [count + 1 for count in before]
    refused = 'grounding_upstream_errors_total{code="upstream_unreachable",upstream="away"}'
    before_error = await value(refused)
    assert (await house.http.post("/r/away/v1/chat/completions", json=body())).status_code == 502
    assert await value(refused) == before_error + 1
    text = (await house.http.get("/metrics")).text
    for name in (
        'grounding_stage_seconds_bucket{le="0.1",route="held-annotate",stage="check"}',
        "grounding_ledger_spool_depth",
        "grounding_ledger_postgres_up 1.0",
        'grounding_tokens_total{kind="prompt",route="held-annotate"}',
        "grounding_cached_token_share_count",
        'grounding_judge_calls_total{judge="wording",outcome="ok",purpose="classify"}',
    ):
        assert name in text


async def test_each_exchange_leaves_one_line_in_the_log_and_no_text_of_it(house: House) -> None:
    house.upstream.enqueue(json_reply(completion("a very particular answer of 3 kg")))
    said = await ask(house.client("held-annotate"), stream=False, messages=user("a very particular question"))
    await until_logged(house.gateway, f'"{said.exchange}"')
    lines = [json.loads(line) for line in house.gateway.output.splitlines() if f'"{said.exchange}"' in line]
    assert len(lines) == 1
    assert (lines[0]["event"], lines[0]["route"], lines[0]["outcome"]) == ("exchange", "held-annotate", "completed")
    assert "total_ms" in lines[0]
    assert "particular" not in house.gateway.output


# -- drain -------------------------------------------------------------------------------------------------------------


async def test_running_streams_and_detached_verdicts_are_finished_when_the_gateway_is_stopped(
    tmp_path: Path, upstream: UpstreamServer, judge: WordingJudge, fresh_postgres_url: str
) -> None:
    gate = asyncio.Event()
    upstream.enqueue(json_reply(completion("Its stalling wrong weight is 3 kg.")))
    upstream.enqueue(sse_reply(chat_events(GATED), gates={2: gate}))
    config = lean(tmp_path, upstream=upstream.base_url, judge=judge.base_url, database=fresh_postgres_url)
    async with serving(tmp_path / "gateway.yaml", config) as gateway:
        detached = AsyncOpenAI(base_url=f"{gateway.base_url}/r/detached-annotate/v1", api_key="none")
        client = AsyncOpenAI(base_url=f"{gateway.base_url}/v1", api_key="none")
        async with detached, client:
            served = await ask(detached, stream=False)
            await judge.asked.wait()
            asking = asyncio.create_task(ask(client, stream=True))
            await upstream.request(1)
            gateway.signal(signal.SIGTERM)
            await until_refused(gateway.base_url)
            assert not asking.done()
            gate.set()
            said = await asking
        assert (said.text, said.finishes) == (GATED, {0: "stop"})
        # Only once no client is left does the gateway wait for what it owes to the ledger.
        await until_logged(gateway, "Waiting for application shutdown")
        judge.let_go.set()
        await gateway.process.wait()
    assert gateway.process.returncode == 0
    connection = await asyncpg.connect(fresh_postgres_url)
    try:
        rows = await connection.fetch("SELECT id, outcome, check_status FROM ledger.exchange ORDER BY created_at")
    finally:
        await connection.close()
    assert [tuple(row) for row in rows] == [
        (served.exchange, "completed", "failed"),
        (said.exchange, "completed", "not_checked"),
    ]


async def test_what_does_not_end_in_time_is_cut_and_recorded_as_interrupted(
    tmp_path: Path, upstream: UpstreamServer, fresh_postgres_url: str
) -> None:
    never = asyncio.Event()
    upstream.enqueue(sse_reply(chat_events(GATED), gates={2: never}), json_reply(completion(GATED), gate=never))
    config = lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url, drain_seconds=1)
    async with serving(tmp_path / "gateway.yaml", config) as gateway, httpx.AsyncClient(verify=False) as http:
        place = f"{gateway.base_url}/v1/chat/completions"
        asking = []
        for number, stream in enumerate((True, False)):
            asking.append(asyncio.create_task(http.post(place, json=body(stream=stream), timeout=30)))
            await upstream.request(number)
        assert await gateway.stop() == 0
        for received in upstream.requests:
            await received.closed.wait()
        for outcome in await asyncio.gather(*asking, return_exceptions=True):
            # However the connection ended, it was no clean end.
            cut = isinstance(outcome, httpx.TransportError)
            assert cut or outcome.status_code >= 500 or b"[DONE]" not in outcome.content  # type: ignore[union-attr]
    assert list((await outcomes(fresh_postgres_url)).values()) == ["interrupted"] * 2


# -- reload ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_changed_configuration_is_taken_into_use_and_a_broken_one_is_not(
    tmp_path: Path, upstream: UpstreamServer, fresh_postgres_url: str, workers: int
) -> None:
    """BerriAI/litellm #30772: a file that changes and is not read; and one that breaks a running gateway."""
    path = tmp_path / "gateway.yaml"
    config = lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url, workers=workers)
    async with serving(path, config) as gateway:
        await until_logged(gateway, "Application startup complete", workers)
        gate = asyncio.Event()
        upstream.on_model("slow", sse_reply(chat_events(GATED), gates={2: gate}))
        client = AsyncOpenAI(base_url=f"{gateway.base_url}/r/grounded/v1", api_key="none")
        asking = asyncio.create_task(ask(client, stream=True, model="slow"))
        await upstream.request(0)
        # On a change of the file: a route goes, another comes; the running request of the first one stays.
        changed = {**config, "routes": {**config["routes"], "later": {"upstream": "main", "model": "m"}}}
        del changed["routes"]["grounded"]
        write(path, changed)
        await until_logged(gateway, "configuration reloaded", workers)
        assert {"later", "plain"} == await models(gateway)
        # A broken one is refused with its place, and the one in force stays.
        path.write_text(yaml.safe_dump({**changed, "routs": {}}))
        await until_logged(gateway, "not reloaded", workers)
        assert "routs" in gateway.output
        assert {"later", "plain"} == await models(gateway)
        # SIGHUP reads it as well, at once.
        write(path, {**config, "routes": {"plain": config["routes"]["plain"]}})
        gateway.signal(signal.SIGHUP)
        async with asyncio.timeout(90):
            while any([await models(gateway) != {"plain"} for _ in range(6 * workers)]):
                await asyncio.sleep(0.05)
        gate.set()
        said = await asking
        assert said.text == GATED
        async with httpx.AsyncClient(verify=False) as http:
            text = (await http.get(f"{gateway.base_url}/metrics")).text
        assert 'grounding_config_reloads_total{result="refused"}' in text
        await client.close()


async def test_a_key_that_was_taken_out_of_the_file_opens_nothing_any_more(
    tmp_path: Path, upstream: UpstreamServer, fresh_postgres_url: str
) -> None:
    path = tmp_path / "gateway.yaml"
    config = lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url)
    keys = [{"id": "one", "sha256": digest(KEY)}, {"id": "two", "sha256": digest(LIMITED_KEY)}]
    async with serving(path, {**config, "keys": keys}) as gateway, httpx.AsyncClient(verify=False) as http:
        place, headers = f"{gateway.base_url}/v1/chat/completions", {"authorization": f"Bearer {LIMITED_KEY}"}
        assert (await http.post(place, json=body(), headers=headers)).status_code == 200
        write(path, {**config, "keys": keys[:1]})
        await until_logged(gateway, "configuration reloaded")
        assert (await http.post(place, json=body(), headers=headers)).status_code == 401


# -- workers -----------------------------------------------------------------------------------------------------------


async def run_command(*arguments: str) -> tuple[int, str]:
    """A command line beside the running gateway."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT, env=environment(),
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def grounded_answers(gateway: GatewayProcess, upstream: UpstreamServer, count: int) -> list[str]:
    """What the model was sent, over as many connections, so that every worker has a turn."""
    upstream.forget()
    place = f"{gateway.base_url}/r/grounded/v1/chat/completions"
    for _ in range(count):
        async with httpx.AsyncClient(verify=False) as http:
            response = await http.post(place, json=body("How heavy is the Falcon drone?"))
        assert response.status_code == 200, response.text
    return [request.body.decode() + json.dumps(response.json()["grounding"]) for request in upstream.requests]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair(
    tmp_path_factory: pytest.TempPathFactory, session_upstream: UpstreamServer, postgres_url: str
) -> AsyncGenerator[GatewayProcess, None]:
    """A gateway of two workers."""
    folder = tmp_path_factory.mktemp("pair")
    config = lean(folder, upstream=session_upstream.base_url, database=postgres_url, workers=2)
    async with serving(folder / "gateway.yaml", config) as gateway:
        yield gateway


async def test_a_deleted_document_never_comes_back_in_an_answer_of_any_worker(
    pair: GatewayProcess, upstream: UpstreamServer
) -> None:
    docs = pair.path.parent / "docs"
    assert all("weighs 3 kg" in text for text in await grounded_answers(pair, upstream, 12))
    (docs / "falcon.md").unlink()
    code, output = await run_command("ingest", "--config", str(pair.path))
    assert code == 0, output
    assert not any("weighs 3 kg" in text for text in await grounded_answers(pair, upstream, 24))
    (docs / "falcon.md").write_text("# Falcon drone\n\nThe Falcon drone weighs 5 kg now.\n")
    code, output = await run_command("ingest", "--config", str(pair.path))
    assert code == 0, output
    assert all("weighs 5 kg now" in text for text in await grounded_answers(pair, upstream, 12))


async def test_a_worker_that_dies_is_replaced_and_the_metrics_of_all_are_added_up(
    pair: GatewayProcess, upstream: UpstreamServer, postgres_url: str
) -> None:
    async def served() -> float:
        async with httpx.AsyncClient(verify=False) as http:
            text = (await http.get(f"{pair.base_url}/metrics")).text
        start = 'grounding_exchanges_total{outcome="completed",route="grounded",status="200"} '
        return sum(float(line.removeprefix(start)) for line in text.splitlines() if line.startswith(start))

    await until_logged(pair, "Application startup complete", 2)
    before = await served()
    await grounded_answers(pair, upstream, 20)
    assert await served() == before + 20
    workers = [child for child in pair.children() if "spawn_main" in " ".join(child.cmdline())]
    assert len(workers) == 2
    workers[0].kill()
    await until_logged(pair, "died")
    await until_logged(pair, "Application startup complete", 3)
    await grounded_answers(pair, upstream, 10)
    assert await served() == before + 30
    found: dict[str, str] = {}
    try:
        async with asyncio.timeout(90):
            while len(found := await outcomes(postgres_url)) < before + 30:
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{len(found)} records instead of {before + 30}\n{pair.output}") from None
    assert set(found.values()) == {"completed"}


def workers_of(gateway: GatewayProcess) -> list[psutil.Process]:
    return [child for child in gateway.children() if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.parametrize("broken", ["is no YAML", "cannot be applied", "is gone"])
async def test_workers_that_die_while_the_file_is_broken_cost_neither_the_gateway_nor_what_was_in_force(
    tmp_path: Path, upstream: UpstreamServer, fresh_postgres_url: str, broken: str
) -> None:
    path = tmp_path / "gateway.yaml"
    config = lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url, workers=2)
    async with serving(path, config) as gateway:
        config["routes"]["added"] = {"upstream": "main"}
        write(path, config)
        await until_every_worker_has(gateway, "added")
        if broken == "is no YAML":
            path.write_text("broken: [")
        elif broken == "is gone":
            path.unlink()
        else:
            certificate = tmp_path / "ca.pem"
            certificate.write_text("no certificate")
            upstreams = {"main": {**config["upstreams"]["main"], "tls": {"ca_bundle": str(certificate)}}}
            write(path, {**config, "upstreams": upstreams})
        for worker in workers_of(gateway):
            died = gateway.output.count("died")
            started = gateway.output.count("Application startup complete")
            worker.kill()
            await until_logged(gateway, "died", died + 1)
            await until_logged(gateway, "Application startup complete", started + 1)
        for _ in range(8):
            assert {"plain", "grounded", "added"} <= await models(gateway)


async def until_every_worker_has(gateway: GatewayProcess, route: str) -> None:
    """Many connections in a row, which the workers take as it comes, find the route."""
    found = 0
    async with asyncio.timeout(90):
        while found < 12:
            found = found + 1 if route in await models(gateway) else 0


# -- start and end -----------------------------------------------------------------------------------------------------


def postgres_of(folder: Path) -> int | None:
    """The process id of the gateway's own Postgres."""
    file = folder / "data" / "postgres" / "cluster" / "postmaster.pid"
    return int(file.read_text().split()[0]) if file.exists() else None


async def test_workers_do_not_outlive_a_gateway_that_was_killed_and_its_port_is_free_again(
    tmp_path: Path, upstream: UpstreamServer, fresh_postgres_url: str
) -> None:
    path = tmp_path / "gateway.yaml"
    write(path, lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url, workers=2))
    gateway = GatewayProcess(path)
    await gateway.start()
    workers = workers_of(gateway)
    assert len(workers) == 2
    gateway.process.kill()
    await gateway.process.wait()
    _, left = await asyncio.to_thread(psutil.wait_procs, workers, timeout=20)
    for worker in left:
        worker.kill()
    assert left == []
    port = int(gateway.base_url.rpartition(":")[2])
    write(path, lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url, workers=2, port=port))
    async with serving(path) as again:
        assert "plain" in await models(again)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_stopping_the_gateway_stops_everything_that_it_started_and_keeps_the_data(
    tmp_path: Path, upstream: UpstreamServer, number: signal.Signals
) -> None:
    path = tmp_path / "gateway.yaml"
    config = lean(tmp_path, upstream=upstream.base_url)
    async with serving(path, config) as gateway, httpx.AsyncClient(verify=False) as http:
        exchange = (await http.post(f"{gateway.base_url}/v1/chat/completions", json=body())).headers[
            "x-grounding-exchange"
        ]
        postmaster = postgres_of(tmp_path)
        assert postmaster is not None
        gateway.signal(number)
        await gateway.process.wait()
        assert gateway.process.returncode == 0, gateway.output[-2000:]
        assert not alive(postmaster)
        assert "stopped" in gateway.output
    if number is signal.SIGTERM:
        async with serving(path) as gateway, httpx.AsyncClient(verify=False) as http:
            found = (await http.get(f"{gateway.base_url}/v1/exchanges/{exchange}")).json()
            assert found["outcome"] == "completed"
            postmaster = postgres_of(tmp_path)
        assert postmaster is not None
        assert not alive(postmaster)


async def test_a_stop_in_the_middle_of_the_start_leaves_nothing_running(
    tmp_path: Path, upstream: UpstreamServer
) -> None:
    path = tmp_path / "gateway.yaml"
    write(path, lean(tmp_path, upstream=upstream.base_url))
    gateway = GatewayProcess(path)
    starting = asyncio.create_task(gateway.start())
    async with asyncio.timeout(90):
        while postgres_of(tmp_path) is None:
            await asyncio.sleep(0.005)
    postmaster = postgres_of(tmp_path)
    gateway.signal(signal.SIGTERM)
    await gateway.process.wait()
    await asyncio.gather(starting, return_exceptions=True)
    assert postmaster is not None
    assert not alive(postmaster), gateway.output


async def test_a_taken_port_is_explained(tmp_path: Path, upstream: UpstreamServer, fresh_postgres_url: str) -> None:
    path = tmp_path / "gateway.yaml"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config: dict[str, Any] = lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url, port=port)
        write(path, config)
        code, output = await run_command("serve", "--config", str(path))
        assert code != 0
        assert f"port {port}" in output
        assert "hint" in output
        assert "Traceback" not in output


async def test_without_keys_only_this_machine_is_served(tmp_path: Path, upstream: UpstreamServer) -> None:
    write(tmp_path / "gateway.yaml", lean(tmp_path, upstream=upstream.base_url, host="0.0.0.0"))
    code, output = await run_command("config", "check", str(tmp_path / "gateway.yaml"))
    assert code == 2
    assert "keys" in output


async def test_a_flood_is_turned_away_with_a_hint_that_the_sdk_obeys(
    tmp_path: Path, upstream: UpstreamServer, fresh_postgres_url: str
) -> None:
    gate = asyncio.Event()
    upstream.enqueue(json_reply(completion(GATED), gate=gate))
    config = lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url, max_concurrent_requests=1)
    async with serving(tmp_path / "gateway.yaml", config) as gateway, httpx.AsyncClient(verify=False) as http:
        client = AsyncOpenAI(base_url=f"{gateway.base_url}/v1", api_key="none", max_retries=3)
        first = asyncio.create_task(ask(client, stream=False))
        await upstream.request(0)
        refused = await http.post(f"{gateway.base_url}/v1/chat/completions", json=body())
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        assert (refused.headers["retry-after"], refused.headers["x-should-retry"]) == ("1", "true")
        second = asyncio.create_task(ask(client, stream=False))
        gate.set()
        assert (await first).text == GATED
        assert (await second).text == "Hello there."
        await client.close()


async def test_https_with_client_certificates_serves_those_who_have_one(
    tmp_path: Path, upstream: UpstreamServer, fresh_postgres_url: str
) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    server, client = ours.issue_cert("127.0.0.1"), theirs.issue_cert("client@example.com")
    server.cert_chain_pems[0].write_to_path(tmp_path / "server.crt")
    server.private_key_pem.write_to_path(tmp_path / "server.key")
    theirs.cert_pem.write_to_path(tmp_path / "clients.crt")
    trusting, known = ssl.create_default_context(), ssl.create_default_context()
    ours.configure_trust(trusting)
    ours.configure_trust(known)
    client.configure_cert(known)
    tls = {"certificate": "server.crt", "key": "server.key", "client_ca": "clients.crt"}
    config = lean(tmp_path, upstream=upstream.base_url, database=fresh_postgres_url, tls=tls)
    async with serving(tmp_path / "gateway.yaml", config, known) as gateway:
        assert gateway.base_url.startswith("https://")
        async with httpx.AsyncClient(verify=known) as http:
            response = await http.post(f"{gateway.base_url}/v1/chat/completions", json=body())
            assert response.status_code == 200
        async with httpx.AsyncClient(verify=trusting) as http:
            with pytest.raises(httpx.TransportError):
                await http.get(f"{gateway.base_url}/healthz")

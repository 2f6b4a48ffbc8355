"""Two gateways over one Postgres, as the chart would run them: an upgrade under load loses no answer and no record."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.acceptance.settings import KEY, digest
from tests.chart.helm import Helm, Manifest, one
from tests.chart.pod import Pod
from tests.servers.upstream import UpstreamServer, chat_events, completion, json_reply, sse_reply

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ADDRESSES = ("127.0.0.61", "127.0.0.62")
CLIENTS = 6
# How long proxies may go on sending to a pod that is leaving: less than its preStop hook.
BEHIND_S = 0.5
TEXT = "It weighs 3 kg, it flies 40 km."


def free_port() -> int:
    """A port that is free on both addresses."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind((ADDRESSES[0], 0))
            port = int(first.getsockname()[1])
            try:
                second.bind((ADDRESSES[1], port))
            except OSError:
                continue
            return port


def values(upstream: str, port: int, **routes: Any) -> dict[str, Any]:
    plain = {"upstream": "main", "default": True}
    return {
        "config": {
            "server": {"host": "${POD_IP}", "drain_seconds": 15},
            "upstreams": {
                "main": {
                    "kind": "openai",
                    "base_url": upstream,
                    "api_key": "${UPSTREAM_KEY}",
                    "retries": {"attempts": 1},
                }
            },
            "routes": {"plain": plain, **routes},
            "keys": [{"id": "app", "sha256": digest(KEY), "audit": True}],
        },
        "containerPort": port,
        "preStopSeconds": 1,
        "database": {"existingSecret": "ledger"},
        "serverSecret": {"existingSecret": "fences"},
        "extraEnv": [
            {"name": "UPSTREAM_KEY", "valueFrom": {"secretKeyRef": {"name": "openai", "key": "api-key"}}},
        ],
    }


class Cluster:
    """What Kubernetes does with our objects: runs hooks, keeps a StatefulSet's pods, sends a Service's requests."""

    def __init__(self, folder: Path, secrets: dict[str, dict[str, str]]) -> None:
        self._folder = folder
        self._secrets = secrets
        self.pods: list[Pod] = []
        self.endpoints: list[Pod] = []
        self._turn: Iterator[int] = itertools.count()

    async def hook(self, manifests: list[Manifest], event: str) -> str:
        """Run the job of a hook and give its output."""
        (job,) = (
            m
            for m in manifests
            if m["kind"] == "Job" and event in m["metadata"]["annotations"]["helm.sh/hook"].split(",")
        )
        name = job["metadata"]["name"]
        pod = Pod(name, ADDRESSES[0], job["spec"]["template"], manifests, self._secrets, self._folder)
        assert await pod.run_to_end() == 0, pod.output
        return pod.output

    async def install(self, manifests: list[Manifest]) -> None:
        await self.hook(manifests, "pre-install")
        stateful = one(manifests, "StatefulSet")
        assert stateful["spec"]["podManagementPolicy"] == "Parallel"
        for ordinal in range(stateful["spec"]["replicas"]):
            self.pods.append(self._pod(manifests, ordinal))
        await asyncio.gather(*(pod.start() for pod in self.pods))
        self.endpoints = list(self.pods)
        await self.hook(manifests, "post-install")

    async def upgrade(self, manifests: list[Manifest]) -> None:
        """Pod by pod from the last, each only once the one before is ready."""
        await self.hook(manifests, "pre-upgrade")
        for ordinal in reversed(range(len(self.pods))):
            await self.remove(ordinal)
            self.pods[ordinal] = self._pod(manifests, ordinal)
            await self.pods[ordinal].start()
            self.endpoints.append(self.pods[ordinal])
        await self.hook(manifests, "post-upgrade")

    async def remove(self, ordinal: int) -> None:
        """Proxies learn of it a little later than the pod does."""
        pod = self.pods[ordinal]

        async def forget() -> None:
            await asyncio.sleep(BEHIND_S)
            self.endpoints.remove(pod)

        await asyncio.gather(pod.pre_stop(), forget())
        assert await pod.stop() == 0, pod.output[-3000:]

    def _pod(self, manifests: list[Manifest], ordinal: int) -> Pod:
        stateful = one(manifests, "StatefulSet")
        name = f"{stateful['metadata']['name']}-{ordinal}"
        template = stateful["spec"]["template"]
        return Pod(name, ADDRESSES[ordinal], template, manifests, self._secrets, self._folder)

    def address(self) -> str:
        """Where the Service sends the next request."""
        return self.endpoints[next(self._turn) % len(self.endpoints)].base_url


@asynccontextmanager
async def cluster_in(folder: Path, database: str) -> AsyncGenerator[Cluster, None]:
    secrets = {"ledger": {"url": database}, "fences": {"secret": "of-both"}, "openai": {"api-key": "sk-upstream-1"}}
    cluster = Cluster(folder, secrets)
    try:
        yield cluster
    finally:
        for pod in cluster.pods:
            if pod.running:
                await pod.stop()
            pod.kill()


@dataclass
class Load:
    """Clients that ask again and again, without ever trying twice."""

    cluster: Cluster
    answered: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    stopping: bool = False

    async def run(self, client: int) -> None:
        async with httpx.AsyncClient(timeout=30, headers={"authorization": f"Bearer {KEY}"}) as http:
            for number in itertools.count(client):
                if self.stopping:
                    return
                await self.ask(http, stream=number % 2 == 0)

    async def ask(self, http: httpx.AsyncClient, *, stream: bool, model: str | None = None) -> None:
        model = model or ("streamed" if stream else "m")
        body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": "How heavy is it?"}]}
        try:
            response = await http.post(f"{self.cluster.address()}/v1/chat/completions", json=body)
        except httpx.TransportError as error:
            self.failures.append(repr(error))
            return
        whole = response.text.rstrip().endswith("data: [DONE]") if stream else TEXT in response.text
        if response.status_code == 200 and whole:
            self.answered.append(response.headers["x-grounding-exchange"])
        else:
            self.failures.append(f"{response.status_code} {response.text[-300:]}")


async def recorded(database: str) -> list[tuple[str, str]]:
    connection = await asyncpg.connect(database)
    try:
        return [
            (row["id"], row["outcome"]) for row in await connection.fetch("SELECT id, outcome FROM ledger.exchange")
        ]
    finally:
        await connection.close()


async def test_an_upgrade_under_load_loses_no_answer_and_no_record(
    helm: Helm, tmp_path: Path, empty_postgres_url: str
) -> None:
    port = free_port()
    async with UpstreamServer() as upstream, cluster_in(tmp_path, empty_postgres_url) as cluster:
        upstream.default = json_reply(completion(TEXT))
        upstream.on_model("streamed", sse_reply(chat_events(TEXT)))
        gate = asyncio.Event()
        upstream.on_model("slow", sse_reply(chat_events(TEXT), gates={2: gate}))
        before = helm.template(values(upstream.base_url, port))
        await cluster.install(before)
        versions = [await version(pod) for pod in cluster.pods]
        load = Load(cluster)
        async with (
            asyncio.TaskGroup() as tasks,
            httpx.AsyncClient(timeout=60, headers={"authorization": f"Bearer {KEY}"}) as http,
        ):
            # An answer on each pod that is still being written when the pod is told to stop.
            slow = [tasks.create_task(load.ask(http, stream=True, model="slow")) for _ in cluster.pods]
            await upstream.request(len(slow) - 1)
            clients = [tasks.create_task(load.run(number)) for number in range(CLIENTS)]
            after = helm.template(values(upstream.base_url, port, later={"upstream": "main", "model": "m"}))
            upgrading = tasks.create_task(cluster.upgrade(after))
            async with asyncio.timeout(300):
                while "Shutting down" not in cluster.pods[-1].output:
                    await asyncio.sleep(0.05)
            gate.set()
            await upgrading
            seen = len(load.answered)
            async with asyncio.timeout(120):
                while len(load.answered) < seen + 20:  # the new pods serve
                    await asyncio.sleep(0.05)
            load.stopping = True
            await asyncio.gather(*clients, *slow)
        assert load.failures == []
        assert len(load.answered) == len(set(load.answered)) > 100
        assert all([await version(pod) not in versions for pod in cluster.pods])
        for ordinal in reversed(range(len(cluster.pods))):
            await cluster.remove(ordinal)  # writes what its spool still holds
        rows = await recorded(empty_postgres_url)
        assert len(rows) == len(dict(rows))
        assert {exchange: dict(rows).get(exchange) for exchange in load.answered} == dict.fromkeys(
            load.answered, "completed"
        )
        assert len(rows) == len(load.answered)


async def version(pod: Pod) -> str:
    async with httpx.AsyncClient() as http:
        return str((await http.get(f"{pod.base_url}/readyz")).json()["config"])


async def test_a_wrong_configuration_stops_the_upgrade_before_any_pod_changes(
    helm: Helm, tmp_path: Path, empty_postgres_url: str
) -> None:
    wrong = values("http://127.0.0.1:9/v1", free_port(), chat={"upstream": "mian"})
    async with cluster_in(tmp_path, empty_postgres_url) as cluster:
        with pytest.raises(AssertionError, match="did you mean") as refused:
            await cluster.hook(helm.template(wrong), "pre-upgrade")
        assert "mian" in str(refused.value)

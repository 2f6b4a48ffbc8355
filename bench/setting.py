"""The servers of one run: the stand-in for a model server, the bare relay, the gateway with its Postgres."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench.corpus import bodies, write_documents
from bench.load import Target
from bench.measuring import Contender, Ledger, settled
from bench.processes import ROOT, Server, family_cpu_s, free_port, postmaster_under
from gateway.ledger.embedded import EmbeddedPostgres

CHAT = "/v1/chat/completions"
CHECK = {"kind": "facts"}


def configuration(*, data: Path, documents: Path, upstream_port: int, port: int, checking: bool) -> dict[str, Any]:
    """The gateway's configuration: everything at its default but what the routes are about."""
    retrieval = {"collections": ["records"]}
    routes: dict[str, Any] = {
        "plain": {"upstream": "model", "client_model": True},
        "grounded": {"upstream": "model", "client_model": True, "retrieval": retrieval},
    }
    if checking:
        routes["checked"] = {**routes["grounded"], "check": CHECK}
        routes["detached"] = {**routes["checked"], "release": "detached"}
    return {
        "data_dir": str(data),
        "server": {"port": port, "log_format": "json"},
        "upstreams": {
            "model": {"kind": "openai", "base_url": f"http://127.0.0.1:{upstream_port}/v1", "api_key": "bench"}
        },
        "collections": {"records": {"paths": [str(documents)]}},
        "routes": {name: {"model": "bench", **route} for name, route in routes.items()},
    }


class Setting:
    """Running servers, and how to load them."""

    def __init__(self, relay: Server, relay_port: int, gateway: Server, gateway_port: int, data: Path) -> None:
        self.gateway = gateway
        self.gateway_port = gateway_port
        self._relay = relay
        self._relay_port = relay_port
        self._postgres = postmaster_under(data)
        self._all: list[Contender] = []
        self.ledger = Ledger("")

    def contenders(self, *names: str, stream: bool = False) -> list[Contender]:
        """The relay (`relay`) or routes of the gateway."""
        made = [self._contender(name, stream=stream) for name in names]
        self._all += made
        return made

    def _contender(self, name: str, *, stream: bool) -> Contender:
        if name == "relay":
            target = Target(port=self._relay_port, path=CHAT, bodies=bodies(stream=stream))
            return Contender(name, self._relay, target)
        target = Target(port=self.gateway_port, path=f"/r/{name}{CHAT}", bodies=bodies(stream=stream))
        return Contender(
            name,
            self.gateway,
            target,
            settle=partial(settled, self.gateway_port),
            beside=partial(family_cpu_s, self._postgres),
        )

    def made(self) -> int:
        """Requests sent to the gateway so far."""
        return sum(contender.made for contender in self._all if contender.server is self.gateway)


def _ingest(config: Path, log: Path) -> None:
    """Bring the collection up to date; make it anew when another release made it with other settings."""
    command = [sys.executable, "-m", "gateway", "ingest", "--config", str(config)]
    with log.open("wb") as out:
        for arguments in ([], ["--rebuild"]):
            if subprocess.run([*command, *arguments], check=False, cwd=ROOT, stdout=out, stderr=out).returncode == 0:
                return
    raise SystemExit(f"the collection could not be made:\n{log.read_text()[-3000:]}")


async def _stop_left_behind(data: Path) -> None:
    """Stop the Postgres of a run that was killed: whoever leaves last stops it."""
    if postmaster_under(data) is None:
        return
    left = EmbeddedPostgres(data / "postgres")
    await left.start()
    await left.stop()
    if postmaster_under(data) is not None:
        raise SystemExit(f"another run is using {data}; wait for it, or stop its gateway")


async def start(results: Path, *, passages: int, checking: bool, stack: AsyncExitStack) -> Setting:
    """Start everything; the collection is kept under `results`, the ledger begins anew."""
    data = results / "data"
    documents = results / "documents" / f"{passages}.jsonl"
    await _stop_left_behind(data)
    for part in ("postgres", "spool"):
        shutil.rmtree(data / part, ignore_errors=True)
    write_documents(documents, passages)
    upstream_port, relay_port, gateway_port = free_port(), free_port(), free_port()
    config = results / "gateway.yaml"
    config.write_text(
        json.dumps(  # JSON is YAML
            configuration(
                data=data, documents=documents, upstream_port=upstream_port, port=gateway_port, checking=checking
            )
        )
    )

    _ingest(config, results / "ingest.log")

    def serve(name: str, arguments: list[str], url: str) -> Server:
        server = Server(arguments, results / f"{name}.log", url)
        stack.callback(server.stop)
        return server

    upstream = f"http://127.0.0.1:{upstream_port}"
    serve("upstream", ["bench.servers.mock_upstream", "--port", str(upstream_port)], upstream)
    relay = serve(
        "relay",
        ["bench.servers.relay", "--port", str(relay_port), "--upstream", upstream],
        f"http://127.0.0.1:{relay_port}/",
    )
    gateway = serve("gateway", ["gateway", "serve", "--config", str(config)], f"http://127.0.0.1:{gateway_port}/readyz")
    setting = Setting(relay, relay_port, gateway, gateway_port, data)
    postgres = EmbeddedPostgres(data / "postgres")
    setting.ledger = Ledger(await postgres.start())
    stack.push_async_callback(postgres.stop)
    return setting

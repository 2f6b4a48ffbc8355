"""`serve`: everything from a configuration file to a listening gateway, and everything stopped again at the end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import shutil
import signal
import socket
import ssl
import time
from contextlib import AsyncExitStack
from pathlib import Path

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from gateway.app.collections import used_collections
from gateway.app.runtime import build_runtime
from gateway.app.serving import CONFIG_VARIABLE, KEPT_VARIABLE, open_database
from gateway.cli.banner import banner
from gateway.cli.collections import ingest_collections
from gateway.cli.connection import BoundedConnection
from gateway.cli.output import ENVIRONMENT, fail, note
from gateway.config.kept import KeptConfiguration
from gateway.config.load import read
from gateway.config.model import GatewayConfig, LedgerConfig, Server
from gateway.redact import redact
from gateway.telemetry import log
from gateway.telemetry.metrics import share_between_workers
from migrations.run import migrate, missing

LEAST_FREE_BYTES = 200_000_000
REPLACING_PAUSE_S = 2.0
"""Between two workers that are replaced: one that cannot start takes the time of a processor for each try."""

_log = logging.getLogger(__name__)


def serve(config_path: Path) -> None:
    """Serve until told to stop. Ends the process with a message when something of the machine is in the way."""
    config_path = config_path.absolute()
    reading = read(config_path, os.environ)
    config = reading.require()
    # SIGTERM ends this process as Ctrl-C does, through every `finally`: by default it would leave our Postgres behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _bind(config.server) as listener:
        _require_room(config.data_dir)
        port = listener.getsockname()[1]
        kept = KeptConfiguration(config.data_dir / "config" / str(port))
        os.environ[KEPT_VARIABLE] = str(config.data_dir / "config" / str(port))
        # Our own Postgres lives as long as this process, whatever becomes of the workers.
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()
            try:
                runner.run(_prepare(config, config_path, stack))
                kept.begin(reading.text)
                log.configure(config.server.log_format, config.server.log_level)
                note(banner(config, config_path, port))
                _run(config.server, listener)
            finally:
                kept.clear()
                runner.run(stack.aclose())
    note("stopped")


async def _prepare(config: GatewayConfig, path: Path, stack: AsyncExitStack) -> None:
    note("opening the ledger ...")
    database, _ = await open_database(config, stack)
    await _bring_up_to_date(database, config.ledger)
    await asyncio.to_thread(ingest_collections, config, tuple(used_collections(config)))
    # Whatever a worker would stumble over is said here, in one plain message and before anything listens.
    await (await build_runtime(config)).retire()
    os.environ[CONFIG_VARIABLE] = str(path)
    if config.server.workers > 1:
        share_between_workers(config.data_dir / "metrics")


async def _bring_up_to_date(database: str, ledger: LedgerConfig) -> None:
    """The schema as this release needs it. Left to others, it is only looked at; and records can wait for Postgres."""
    if ledger.migrate != "never":
        await migrate(database, phase=ledger.migrate)
        return
    try:
        behind = await missing(database)
    except ConnectionError as error:
        note(f"Postgres cannot be reached ({redact(str(error))}); records wait in the spool until it can")
        return
    if behind:
        fail(
            f"the ledger's schema is older than this release; missing: {', '.join(behind)}",
            hint="run `grounding-gateway migrate --phase pre`, or drop ledger.migrate: never",
            code=ENVIRONMENT,
        )


def _run(server: Server, listener: socket.socket) -> None:
    settings = uvicorn.Config(
        "gateway.app.serving:serving_app",
        factory=True,
        workers=server.workers,
        loop="uvloop",
        http=BoundedConnection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(server.drain_seconds),
        timeout_keep_alive=75,
        backlog=4096,
        ssl_certfile=str(server.tls.certificate) if server.tls else None,
        ssl_keyfile=str(server.tls.key) if server.tls else None,
        ssl_ca_certs=str(server.tls.client_ca) if server.tls and server.tls.client_ca else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if server.tls and server.tls.client_ca else ssl.CERT_NONE,
    )
    if server.workers > 1:
        _Workers(settings, [listener]).run()
        return
    running = uvicorn.Server(settings)
    # uvicorn raises the signal that stopped it once more when it is done; for us that is a normal end.
    with contextlib.suppress(KeyboardInterrupt):
        running.run(sockets=[listener])
    if not running.started:
        fail("the gateway could not start; the log above says why", code=ENVIRONMENT)


class _Workers(Multiprocess):
    """Worker processes that each reload the configuration themselves: validated first, and without a restart.

    One that dies is replaced. As long as none has ever served, one that cannot start stops the gateway; later it is
    tried again and again, since the others serve on, and what stands in its way may go.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._served = False
        self._not_before = 0.0

    def keep_subprocess_alive(self) -> None:
        for place, process in enumerate(self.processes):
            if self.should_exit.is_set() or time.monotonic() < self._not_before:
                return
            if process.is_alive(timeout=self.config.timeout_worker_healthcheck):
                self._served = self._served or process.is_ready()
                continue
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE and not self._served:
                _log.error("worker %s could not start, so the gateway stops", process.pid)
                self.should_exit.set()
                return
            _log.error("worker %s died (exit code %s) and is replaced", process.pid, process.exitcode)
            self.processes[place] = Process(self.config, self.sockets)
            self.processes[place].start()
            self._not_before = time.monotonic() + REPLACING_PAUSE_S

    def handle_hup(self) -> None:
        for process in self.processes:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)


def _bind(server: Server) -> socket.socket:
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((server.host, server.port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            fail(
                f"port {server.port} on {server.host} is taken by another program (another gateway?)",
                hint="stop it, or choose another port: server.port in the configuration "
                f"(quickstart: GATEWAY_PORT={server.port + 1} make run)",
                code=ENVIRONMENT,
            )
        fail(f"cannot listen on {server.host}:{server.port}: {error.strerror}", code=ENVIRONMENT)
    listener.set_inheritable(True)
    return listener


def _require_room(data_dir: Path) -> None:
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(data_dir).free
    except OSError as error:
        fail(
            f"the data directory {data_dir} cannot be used: {error.strerror}",
            hint="mend its permissions, or set data_dir in the configuration",
            code=ENVIRONMENT,
        )
    if free < LEAST_FREE_BYTES:
        fail(
            f"the disk of {data_dir} has {free // 1_000_000} MB free; {LEAST_FREE_BYTES // 1_000_000} MB are needed",
            hint="free some room, or set data_dir in the configuration to a larger disk",
            code=ENVIRONMENT,
        )

"""The Postgres we start: one server per data directory, shared by all our processes on it.

Whoever comes first starts it, later ones find it running; whoever leaves last stops it. Who is there is told by shared
locks, which the kernel drops with a killed process: a server orphaned by `kill -9` is taken up by the next start and
stopped at that one's end. It listens on 127.0.0.1 only, with a random password in a file for its owner alone (a
socket's path would be too long in deep directories). Knows nothing of the ledger's tables.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import asyncpg
import structlog

from gateway.errors import EmbeddedPostgresError
from gateway.ledger.cluster import Cluster, Postmaster, choose_account

_log = structlog.get_logger(__name__)
_SUPERUSER: Final = "grounding"
_HOST: Final = "127.0.0.1"
_SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": _HOST,
    "unix_socket_directories": "",
    "shared_buffers": "128MB",
    "work_mem": "16MB",
    "max_connections": "100",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "1GB",
    "synchronous_commit": "on",
    "jit": "off",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
}
_START_TRIES: Final = 40
_RETRY_S: Final = 0.25
_LOG_LIMIT: Final = 16 * 1024 * 1024
_TRANSIENT: Final = ("pre-existing shared memory block", "lock file", "the database system is starting up")


class EmbeddedPostgres:
    """A Postgres under `directory`. `port` None or 0 takes a free one and keeps to it.

    `settings` are further server parameters. One object is one user of the server, however often it calls `start`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        database: str = "ledger",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = directory.absolute()
        self._port = port or 0
        self._database = database
        self._settings = {**_SETTINGS, **(settings or {})}
        self._log_path = self._directory / "log" / "server.log"
        self._cluster = Cluster(self._directory / "cluster", self._log_path)
        self._users: int | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """`postgresql://...`, once started. Holds the password: not for logs."""
        return self._url

    @property
    def log_path(self) -> Path:
        """The server's log."""
        return self._log_path

    async def start(self) -> str:
        """Start the server, or find it running; its URL. Raises `EmbeddedPostgresError`."""
        try:
            port, password = await asyncio.to_thread(self._start)
        except OSError as error:
            raise EmbeddedPostgresError(f"the ledger's database under {self._directory}: {error}") from error
        address = _address(port, password)
        await self._create_database(address)
        self._url = f"{address}/{self._database}"
        return self._url

    async def ensure_running(self) -> str:
        """Start it again if it died; where it is now. For whoever finds it away.

        Its port may be another one: a killed server's children hold the old one for as long as they take to end, and
        another process may have started it again meanwhile.
        """
        running = await asyncio.to_thread(self._cluster.postmaster)
        if running is None:
            _log.warning("embedded_postgres_restarting", log=str(self._log_path))
            return await self.start()
        self._url = f"{_address(running.port, await asyncio.to_thread(self._read_password))}/{self._database}"
        return self._url

    async def stop(self) -> None:
        """Leave; the last of all processes stops the server. Does nothing before `start`."""
        await asyncio.to_thread(self._stop)

    async def _create_database(self, address: str) -> None:
        try:
            connection = await asyncpg.connect(f"{address}/postgres", timeout=30)
            try:
                if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", self._database):
                    with contextlib.suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
                        await connection.execute(f'CREATE DATABASE "{self._database}"')
            finally:
                await connection.close(timeout=10)
        except (OSError, asyncpg.PostgresError, TimeoutError) as error:
            raise EmbeddedPostgresError(
                f"the ledger's database runs but does not let us in: {error} (log: {self._log_path})"
            ) from error

    def _start(self) -> tuple[int, str]:
        self._prepare_directories()
        with self._starting():
            self._join()
            try:
                return self._find_or_start()
            except BaseException:
                self._leave()
                raise

    def _prepare_directories(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._log_path.parent.mkdir(exist_ok=True)
        account = choose_account(self._cluster.directory)
        if account is not None:
            os.chown(self._log_path.parent, account.uid, account.gid)

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """One process at a time starts or stops."""
        descriptor = os.open(self._directory / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _join(self) -> None:
        if self._users is None:
            self._users = os.open(self._directory / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._users, fcntl.LOCK_SH)
            atexit.register(self._stop)

    def _leave(self) -> bool:
        """Give up our place; True when nobody else has one."""
        if self._users is None:
            return False
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except BlockingIOError:
            alone = False
        os.close(self._users)
        self._users = None
        atexit.unregister(self._stop)
        return alone

    def _stop(self) -> None:
        if self._users is None:
            return
        with self._starting():
            if not self._leave() or self._cluster.postmaster() is None:
                return
            account = choose_account(self._cluster.directory)
            arguments = ("stop", "-D", str(self._cluster.directory), "-m", "fast", "-w", "-t", "60")
            done = self._cluster.run("pg_ctl", *arguments, account=account)
            if done.returncode and self._cluster.postmaster() is not None:
                raise self._cluster.failure("the ledger's database does not stop", done)

    def _find_or_start(self) -> tuple[int, str]:
        if not self._cluster.initialised():
            self._cluster.initialise(_SUPERUSER, self._new_password())
        password = self._read_password()
        running = self._wait_until_ready()
        if running is None:
            self._cluster.check_version()
            running = self._launch()
        return running.port, password

    def _wait_until_ready(self) -> Postmaster | None:
        """A server that another process has started, or one that is recovering."""
        deadline = time.monotonic() + 120
        while True:
            running = self._cluster.postmaster()
            if running is None or running.ready:
                return running
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"the ledger's database is not ready after 120 s (log: {self._log_path})")
            time.sleep(0.05)

    def _launch(self) -> Postmaster:
        if self._cluster.log_size() > _LOG_LIMIT:
            self._log_path.replace(self._log_path.with_suffix(".log.1"))
        account = choose_account(self._cluster.directory)
        taken = False
        for attempt in range(_START_TRIES):
            self._cluster.forget_dead_postmaster()
            port = self._choose_port(fresh=taken)
            options = " ".join(f"-c {name}='{value}'" for name, value in {**self._settings, "port": str(port)}.items())
            before = self._cluster.log_size()
            place = ("-D", str(self._cluster.directory), "-l", str(self._log_path))
            done = self._cluster.run("pg_ctl", "start", *place, "-w", "-t", "120", "-o", options, account=account)
            if done.returncode == 0 and (running := self._wait_until_ready()) is not None:
                return running
            log = self._cluster.log_since(before)
            taken = "could not bind" in log
            retry = any(sign in log for sign in _TRANSIENT) or (not self._port and taken)
            if not retry or attempt == _START_TRIES - 1:
                raise self._cluster.failure("the ledger's database does not start", done, log)
            time.sleep(_RETRY_S)  # a killed server's children need a moment to end
        raise AssertionError("unreachable")

    def _choose_port(self, *, fresh: bool) -> int:
        """The port asked for; else the one used before, so that pools find a restarted server; else a free one."""
        if self._port:
            return self._port
        remembered = self._directory / "port"
        with contextlib.suppress(FileNotFoundError, ValueError):
            port = int(remembered.read_text())
            if not fresh and _is_free(port):
                return port
        with socket.socket() as probe:
            probe.bind((_HOST, 0))
            port = int(probe.getsockname()[1])
        remembered.write_text(f"{port}\n")
        return port

    def _new_password(self) -> str:
        path = self._directory / "password"
        path.unlink(missing_ok=True)
        password = secrets.token_hex(24)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(password)
        return password

    def _read_password(self) -> str:
        path = self._directory / "password"
        try:
            return path.read_text().strip()
        except OSError as error:
            raise EmbeddedPostgresError(
                f"{path}, which lets the gateway into its own database, cannot be read ({error.strerror}): restore it "
                f"from a backup, or run as the user who made it"
            ) from error


def _address(port: int, password: str) -> str:
    return f"postgresql://{_SUPERUSER}:{password}@{_HOST}:{port}"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True

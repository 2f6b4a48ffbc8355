"""Takes a changed configuration into use while the gateway runs: on SIGHUP, and when its files change.

A new configuration is read and validated first, then handed over as a whole; whatever is wrong with it is logged, and
the one in force stays. Knows nothing of what a configuration is used for.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from watchfiles import awatch

from gateway.config.load import Reading, read
from gateway.config.model import GatewayConfig
from gateway.config.references import OPEN_TO_NETWORK, open_to_network

RESTART_ONLY: Final = (
    "data_dir",
    "server.host",
    "server.port",
    "server.workers",
    "server.tls",
    "server.secret",
    "server.log_format",
    "server.log_level",
    "access",
    "ledger",
    "telemetry",
)
"""Settings that are bound to sockets, processes and the database: changing them takes a restart."""

_DEBOUNCE_MS: Final = 400
_STEP_MS: Final = 50
_LOOK_MS: Final = 2_000

Apply = Callable[[GatewayConfig], Awaitable[None]]


class ConfigWatcher:
    """Keeps a running gateway's configuration up to date.

    `apply` puts a valid configuration in force; when it raises, the old one counts as still in force. `told` hears of
    every reload whether it was accepted, `keep` gets the text of what is in force from then on.
    """

    def __init__(
        self,
        path: Path,
        current: GatewayConfig,
        apply: Apply,
        *,
        environ: Mapping[str, str],
        log: logging.Logger | None = None,
        told: Callable[[bool], None] = lambda accepted: None,
        keep: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._path = path
        self._current = current
        self._apply = apply
        self._environ = environ
        self._log = log or logging.getLogger(__name__)
        self._told = told
        self._keep = keep
        self._files: tuple[Path, ...] = (path,)
        self._seen = b""
        self._turn = asyncio.Lock()

    @property
    def current(self) -> GatewayConfig:
        """The configuration in force."""
        return self._current

    async def run(self) -> None:
        """Watch until cancelled. SIGHUP always reloads; a change of the files does when their content differs."""
        async with self._turn:
            reading = await self._read()
            if reading.config is not None and with_running_settings(reading.config, self._current)[0] == self._current:
                await self._look(reading)
        asked = asyncio.Event()
        with _on_hangup(asked):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow_signal(asked))
                tasks.create_task(self._follow_files())

    async def reload(self) -> bool:
        """Read, validate and apply now. True when the new configuration is in force."""
        accepted = await self._reload()
        self._told(accepted)
        return accepted

    async def _reload(self) -> bool:
        async with self._turn:
            reading = await self._read()
            await self._look(reading)
            if reading.config is None:
                self._refuse([str(problem) for problem in reading.problems])
                return False
            config, kept = with_running_settings(reading.config, self._current)
            if open_to_network(config):
                self._refuse([f"{self._path}: server.host: {config.server.host} {OPEN_TO_NETWORK}; or restart"])
                return False
            try:
                await self._apply(config)
            except Exception as error:
                self._log.exception("configuration not applied, the old one stays in force: %s", error)
                return False
            self._current = config
            try:
                await asyncio.to_thread(self._keep, reading.text)
            except OSError as error:
                self._log.warning("configuration: no copy could be kept for workers that start later (%s)", error)
            for warning in reading.warnings:
                self._log.warning("configuration: %s", warning)
            if kept:
                self._log.warning("configuration: a restart is needed for the new value of %s", ", ".join(kept))
            self._log.info("configuration reloaded from %s", self._path)
            return True

    async def _read(self) -> Reading:
        return await asyncio.to_thread(read, self._path, self._environ)

    async def _look(self, reading: Reading) -> None:
        """Remember what was read, so that only another content counts as a change."""
        self._files, self._seen = reading.files, await asyncio.to_thread(_fingerprint, reading.files)

    def _refuse(self, problems: list[str]) -> None:
        text = "\n".join(problems)
        self._log.error("configuration not reloaded, the old one stays in force; problems: %d\n%s", len(problems), text)

    async def _follow_signal(self, asked: asyncio.Event) -> None:
        while True:
            await asked.wait()
            asked.clear()
            await self.reload()

    async def _follow_files(self) -> None:
        """Reload on changes; start over when the set of files has changed.

        Folders are watched, not files: editors and mounted Kubernetes volumes replace a file or a link above it.
        """
        while True:
            files = self._files
            folders = await asyncio.to_thread(_folders, files)
            try:
                # Looks by itself now and then, too: what changed before the watch stood is reported by nobody, and some
                # file systems report nothing at all.
                changes = awatch(
                    *folders,
                    watch_filter=None,
                    debounce=_DEBOUNCE_MS,
                    step=_STEP_MS,
                    rust_timeout=_LOOK_MS,
                    yield_on_timeout=True,
                    recursive=False,
                )
                async with contextlib.aclosing(changes):
                    async for _ in changes:
                        await self._reload_if_different()
                        if self._files != files:
                            break
            except OSError as error:
                self._log.warning("files cannot be watched (%s): reload the configuration with SIGHUP", error)
                return

    async def _reload_if_different(self) -> None:
        if await asyncio.to_thread(_fingerprint, self._files) != self._seen:
            await self.reload()


def with_running_settings(new: GatewayConfig, running: GatewayConfig) -> tuple[GatewayConfig, list[str]]:
    """The new configuration with the settings of the running one that need a restart, and which of them differed."""
    kept = [name for name in RESTART_ONLY if _get(new, name) != _get(running, name)]
    for name in kept:
        section, _, key = name.rpartition(".")
        value = _get(running, name)
        if section:
            inner = _get(new, section).model_copy(update={key: value})
            new = new.model_copy(update={section: inner})
        else:
            new = new.model_copy(update={key: value})
    return new, kept


def _get(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part)
    return config


def _folders(files: Iterable[Path]) -> list[str]:
    folders = {file.absolute().parent for file in files}
    return sorted(str(folder) for folder in folders if folder.is_dir())


def _fingerprint(files: Iterable[Path]) -> bytes:
    """A digest over the files' content; a file that cannot be read counts as empty."""
    digest = hashlib.sha256()
    for file in files:
        content = b""
        with contextlib.suppress(OSError):
            content = file.read_bytes()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.digest()


@contextlib.contextmanager
def _on_hangup(asked: asyncio.Event) -> Iterator[None]:
    """Set the event on SIGHUP. Only the main thread can; elsewhere nothing is installed."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGHUP, asked.set)
    except (RuntimeError, ValueError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)

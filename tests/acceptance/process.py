"""A real gateway process: `python -m gateway serve`, started on a free port, watched, stopped and killed.

Its output goes to a file, so that a test can read what was logged; whatever it starts counts as its children.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import ssl
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import yaml

ROOT = Path(__file__).parents[2]
_BASE = re.compile(r"base URL\s+(https?://[^\s/]+)/v1")
_START_S = 240.0  # no measure of speed: a machine that runs much else starts slowly
_STOP_S = 40.0


class GatewayProcess:
    """One `serve` over the configuration file `path`; `verify` is what a client of its HTTPS trusts."""

    def __init__(self, path: Path, verify: ssl.SSLContext | bool = False) -> None:
        self.path = path
        self.log = path.with_suffix(f".{os.urandom(3).hex()}.log")
        self.base_url = ""
        self._verify = verify
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    @property
    def output(self) -> str:
        """All that it has printed and logged so far."""
        return self.log.read_text(errors="replace")

    async def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway", "serve", "--config", str(self.path),
                cwd=ROOT, stdout=log, stderr=log, env=environment(),
            )  # fmt: skip
        try:
            async with asyncio.timeout(_START_S), httpx.AsyncClient(timeout=10, verify=self._verify) as http:
                while not await self._ready(http):
                    await asyncio.sleep(0.02)
        except BaseException:
            await self.kill()
            raise

    async def _ready(self, http: httpx.AsyncClient) -> bool:
        if self.process.returncode is not None:
            raise AssertionError(f"the gateway ended with {self.process.returncode}:\n{self.output}")
        found = _BASE.search(self.output)
        if found is None:
            return False
        self.base_url = found[1]
        with contextlib.suppress(httpx.TransportError):
            return (await http.get(f"{self.base_url}/readyz")).status_code == 200
        return False

    def children(self) -> list[psutil.Process]:
        """Everything that it has started and that lives."""
        try:
            return list(psutil.Process(self.process.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            return []

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def stop(self) -> int:
        """SIGTERM; the exit code. Fails when anything that it had started outlives it."""
        if self.process.returncode is None:
            family = self.children()
            self.signal(signal.SIGTERM)
            async with asyncio.timeout(_STOP_S):
                await self.process.wait()
            _, left = await asyncio.to_thread(psutil.wait_procs, family, timeout=5)
            assert left == [], f"still there after the gateway ended: {left}\n{self.output[-3000:]}"
        assert self.process.returncode is not None
        return self.process.returncode

    async def kill(self) -> None:
        """SIGKILL to the gateway and its workers, as a machine that runs out of memory would; never to Postgres."""
        if self._process is None or self._process.returncode is not None:
            return
        workers = [child for child in self.children() if "python" in child.name()]
        self.signal(signal.SIGKILL)
        for worker in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
        await self.process.wait()


@asynccontextmanager
async def serving(
    path: Path, config: Mapping[str, Any] | None = None, verify: ssl.SSLContext | bool = False
) -> AsyncGenerator[GatewayProcess, None]:
    """A running gateway. It is stopped at the end with SIGTERM, and has to end with code 0 and without orphans."""
    if config is not None:
        write(path, config)
    gateway = GatewayProcess(path, verify)
    await gateway.start()
    try:
        yield gateway
    except BaseException:
        await gateway.kill()
        raise
    code = await gateway.stop() if gateway.process.returncode is None else 0
    assert code == 0, f"the gateway ended with {code}:\n{gateway.output[-3000:]}"


def environment() -> dict[str, str]:
    """The environment of a command: this one, but compiled modules are kept, as on a user's machine."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not yet collected does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def write(path: Path, config: Mapping[str, Any]) -> None:
    """Put a configuration file in place in one step, as a careful editor does."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(yaml.safe_dump(dict(config), sort_keys=False))
    draft.replace(path)

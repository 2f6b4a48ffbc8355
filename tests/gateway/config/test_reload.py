"""Reloading: a valid change is taken into use, anything else leaves the gateway as it runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from gateway.config.load import load
from gateway.config.model import GatewayConfig
from gateway.config.reload import ConfigWatcher
from tests.gateway.config.files import MINIMAL

CHANGED = MINIMAL.replace("    model: m\n", "    model: changed\n")


class Bench:
    """A configuration file, its watcher, and what was applied."""

    def __init__(self, folder: Path, text: str, environ: Mapping[str, str] | None = None) -> None:
        self.path = folder / "gateway.yaml"
        self.path.write_text(text)
        self.applied: list[GatewayConfig] = []
        self.changed = asyncio.Event()
        self.failure: Exception | None = None
        first = load(self.path, environ or {})
        self.watcher = ConfigWatcher(self.path, first, self._apply, environ=environ or {})

    async def _apply(self, config: GatewayConfig) -> None:
        if self.failure is not None:
            raise self.failure
        self.applied.append(config)
        self.changed.set()

    async def next_change(self) -> GatewayConfig:
        await asyncio.wait_for(self.changed.wait(), 30)
        self.changed.clear()
        return self.applied[-1]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.watcher.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def model(config: GatewayConfig) -> str | None:
    return config.routes["support"].model


async def test_a_valid_change_is_applied_as_a_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MINIMAL)
    bench.path.write_text(CHANGED)
    assert await bench.watcher.reload()
    assert [model(config) for config in bench.applied] == ["changed"]
    assert bench.watcher.current is bench.applied[0]


async def test_a_broken_change_leaves_the_old_configuration_in_force_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path, MINIMAL)
    before = bench.watcher.current
    bench.path.write_text(MINIMAL.replace("upstream: real", "upstream: rael"))
    assert not await bench.watcher.reload()
    assert bench.applied == []
    assert bench.watcher.current is before
    assert "the old one stays in force" in caplog.text
    assert "gateway.yaml:10:5 routes.support.upstream" in caplog.text
    bench.path.unlink()
    assert not await bench.watcher.reload()
    assert bench.watcher.current is before


async def test_a_change_that_cannot_be_applied_leaves_the_old_configuration_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path, MINIMAL)
    before = bench.watcher.current
    bench.path.write_text(CHANGED)
    bench.failure = RuntimeError("the index is of another model")
    assert not await bench.watcher.reload()
    assert bench.watcher.current is before
    assert "the index is of another model" in caplog.text


async def test_settings_that_need_a_restart_keep_their_value_and_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path, MINIMAL)
    bench.path.write_text(
        CHANGED + "data_dir: elsewhere\nserver: {host: '::1', port: 1, workers: 3, max_messages: 7}\n"
        "ledger: {database_url: 'postgresql://u:hidden-password@h/d'}\n"
    )
    assert await bench.watcher.reload()
    now = bench.watcher.current
    assert model(now) == "changed"
    assert now.server.max_messages == 7
    assert (now.server.host, now.server.port, now.server.workers) == ("127.0.0.1", 8080, 1)
    assert now.data_dir == tmp_path / ".data"
    assert now.ledger.database_url is None
    (line,) = [line for line in caplog.messages if "a restart is needed" in line]
    assert line.endswith("data_dir, server.host, server.port, server.workers, ledger")
    assert "hidden-password" not in caplog.text


async def test_removing_the_keys_cannot_open_a_running_gateway_to_the_network(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = f"keys: [{{id: k, sha256: {'a' * 64}}}]\n"
    bench = Bench(tmp_path, MINIMAL + keys + "server: {host: 0.0.0.0}\n")
    bench.path.write_text(MINIMAL)
    assert not await bench.watcher.reload()
    assert bench.watcher.current.keys
    assert "no keys are configured" in caplog.text


async def test_saving_the_file_is_enough(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MINIMAL)
    async with bench.running():
        bench.path.write_text(CHANGED)
        assert model(await bench.next_change()) == "changed"


async def test_an_editor_that_replaces_the_file_is_noticed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MINIMAL)
    async with bench.running():
        for number in range(2):
            other = tmp_path / "saving.tmp"
            other.write_text(MINIMAL.replace("    model: m\n", f"    model: m{number}\n"))
            other.replace(bench.path)
            assert model(await bench.next_change()) == f"m{number}"


async def test_a_mounted_volume_that_swaps_a_link_is_noticed(tmp_path: Path) -> None:
    for name, text in (("one", MINIMAL), ("two", CHANGED)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "gateway.yaml").write_text(text)
    (tmp_path / "data").symlink_to("one")
    mounted = tmp_path / "mount"
    mounted.mkdir()
    (mounted / "..data").symlink_to(tmp_path / "one")
    path = mounted / "gateway.yaml"
    path.symlink_to("..data/gateway.yaml")
    applied: asyncio.Queue[GatewayConfig] = asyncio.Queue()
    watcher = ConfigWatcher(path, load(path, {}), applied.put, environ={})
    task = asyncio.create_task(watcher.run())
    (mounted / "..next").symlink_to(tmp_path / "two")
    (mounted / "..next").replace(mounted / "..data")
    assert model(await asyncio.wait_for(applied.get(), 30)) == "changed"
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_rotated_secret_file_is_noticed(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "key").write_text("first-secret")
    bench = Bench(tmp_path, MINIMAL.replace('9/v1"', '9/v1", api_key_file: secrets/key'))
    async with bench.running():
        (secrets / "key").write_text("second-secret")
        upstream = (await bench.next_change()).upstreams["real"]
    secret = getattr(upstream, "api_key", None)
    assert secret is not None
    assert secret.get_secret_value() == "second-secret"


async def test_a_change_between_start_and_watching_is_not_missed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MINIMAL)
    bench.path.write_text(CHANGED)
    async with bench.running():
        assert model(await bench.next_change()) == "changed"


async def test_sighup_reloads_and_a_start_does_not(tmp_path: Path) -> None:
    environ = {"MODEL": "m"}
    bench = Bench(tmp_path, MINIMAL.replace("    model: m\n", "    model: ${MODEL}\n"), environ)
    async with bench.running():
        await asyncio.to_thread(_wait_for_handler)
        assert bench.applied == []
        environ["MODEL"] = "other"
        os.kill(os.getpid(), signal.SIGHUP)
        assert model(await bench.next_change()) == "other"


def _wait_for_handler() -> None:
    """Until the watcher has installed its handler; the default one would end this process."""
    while signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        pass


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="gateway.config.reload")

"""Our own Postgres starts, is found, survives, and is gone when the last of us is."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from gateway.errors import EmbeddedPostgresError
from gateway.ledger.embedded import EmbeddedPostgres

pytestmark = pytest.mark.slow
FAST = {"fsync": "off"}
ROOT = Path(__file__).parents[2]

STARTER = """
import asyncio, sys
from pathlib import Path
from gateway.ledger.embedded import EmbeddedPostgres
async def main():
    await EmbeddedPostgres(Path(sys.argv[1])).start()
    sys.stdout.write("started\\n"); sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


def postmaster_pid(directory: Path) -> int | None:
    path = directory / "cluster" / "postmaster.pid"
    return int(path.read_text().split()[0]) if path.exists() else None


def kill_postmaster(pid: int) -> None:
    """Kill it and see it gone, or a zombie nobody has buried yet."""
    os.kill(pid, signal.SIGKILL)
    status = Path(f"/proc/{pid}/cmdline")
    while status.exists() and status.read_bytes():
        os.sched_yield()


def start_elsewhere(directory: Path) -> subprocess.Popen[str]:
    """Another process that uses the server until its stdin is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(directory)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait()
    process.stdout.close()


async def ask(url: str, statement: str = "SELECT 1") -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_data_and_address_survive_a_restart(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "a b", settings=FAST)
    url = await server.start()
    await ask(url, "CREATE TABLE kept AS SELECT 7 AS n")
    await server.stop()
    assert postmaster_pid(tmp_path / "a b") is None
    again = EmbeddedPostgres(tmp_path / "a b", settings=FAST)
    assert await again.start() == url
    assert await ask(url, "SELECT n FROM kept") == 7
    assert await ask(url, "SHOW listen_addresses") == "127.0.0.1"
    await again.stop()
    await again.stop()


async def test_the_password_is_for_its_owner_alone_and_is_needed(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path, settings=FAST)
    url = await server.start()
    assert stat.S_IMODE((tmp_path / "password").stat().st_mode) == 0o600
    assert not (tmp_path / "initdb-password").exists()
    password = (tmp_path / "password").read_text()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await ask(url.replace(password, "guess"))
    await server.stop()


async def test_a_second_process_finds_the_server_and_the_last_one_stops_it(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path, settings=FAST)
    url = await server.start()
    other = start_elsewhere(tmp_path)
    await server.stop()
    assert await ask(url) == 1
    end(other)  # leaves without calling stop: the exit hook does it
    assert postmaster_pid(tmp_path) is None


async def test_a_server_orphaned_by_kill_9_is_taken_up_and_stopped(tmp_path: Path) -> None:
    other = start_elsewhere(tmp_path)
    pid = postmaster_pid(tmp_path)
    other.send_signal(signal.SIGKILL)
    end(other)
    assert postmaster_pid(tmp_path) == pid
    server = EmbeddedPostgres(tmp_path)
    assert await ask(await server.start()) == 1
    assert postmaster_pid(tmp_path) == pid
    await server.stop()
    assert postmaster_pid(tmp_path) is None


async def test_a_killed_server_comes_back_and_says_where(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path)
    await server.start()
    await server.ensure_running()
    pid = postmaster_pid(tmp_path)
    assert pid is not None
    kill_postmaster(pid)
    url = await server.ensure_running()
    assert postmaster_pid(tmp_path) != pid
    assert server.url == url
    assert await ask(url) == 1
    await server.stop()


async def test_a_stale_pid_file_of_a_number_now_in_use_does_not_block_the_start(tmp_path: Path) -> None:
    """After a restart of the machine or the container the old number may be anybody's."""
    server = EmbeddedPostgres(tmp_path, settings=FAST)
    await server.start()
    held = (tmp_path / "cluster" / "postmaster.pid").read_text().split("\n")
    await server.stop()
    (tmp_path / "cluster" / "postmaster.pid").write_text("\n".join([str(os.getpid()), *held[1:]]))
    assert await ask(await server.start()) == 1
    await server.stop()


async def test_a_taken_port_is_said_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = EmbeddedPostgres(tmp_path, port=taken.getsockname()[1], settings=FAST)
        with pytest.raises(EmbeddedPostgresError, match=r"ledger\.port"):
            await server.start()
    await server.start()
    await server.stop()


async def test_a_remembered_port_that_is_taken_by_now_is_replaced(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path, settings=FAST)
    first = await server.start()
    await server.stop()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", int((tmp_path / "port").read_text())))
        taken.listen()
        second = await server.start()
        assert second != first
        assert await ask(second) == 1
        await server.stop()


async def test_data_of_another_major_version_is_not_touched(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path, settings=FAST)
    await server.start()
    await server.stop()
    (tmp_path / "cluster" / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedPostgresError, match="made by Postgres 14"):
        await server.start()


async def test_a_broken_setting_is_told_with_the_servers_own_words(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path, settings={"shared_buffers": "much"})
    with pytest.raises(EmbeddedPostgresError, match="shared_buffers"):
        await server.start()
    await server.stop()


async def test_a_creation_cut_short_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "cluster.new").mkdir()
    (tmp_path / "cluster.new" / "PG_VERSION").write_text("18\n")
    (tmp_path / "initdb-password").write_text("old")
    server = EmbeddedPostgres(tmp_path, settings=FAST)
    assert await ask(await server.start()) == 1
    await server.stop()


async def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedPostgresError, match="file"):
        await EmbeddedPostgres(tmp_path / "file").start()

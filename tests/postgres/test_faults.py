"""Whatever dies, nothing finished is lost, nothing is doubled, and what was cut off says so."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from gateway.ledger.embedded import EmbeddedPostgres
from gateway.ledger.encode import encode_opening, encode_record
from gateway.ledger.record import JudgeCallRecord, Receipt
from gateway.ledger.spool_file import SpoolFile, new_path, spool_paths
from gateway.ledger.store import PostgresStore
from gateway.ledger.writer import LedgerSettings, SpooledLedger
from migrations import migrate
from tests.gateway.ledger.records import opening, plain_record, rich_record

ROOT = Path(__file__).parents[2]


async def outcomes(url: str) -> list[tuple[str, str]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch("SELECT id, outcome FROM ledger.exchange ORDER BY id")]
    finally:
        await connection.close()


@asynccontextmanager
async def running(directory: Path, url: str, **changes: Any) -> AsyncIterator[SpooledLedger]:
    revive = changes.pop("revive", None)
    store = PostgresStore(url, timeout_s=10)
    ledger = SpooledLedger(LedgerSettings(directory=directory, **changes), store, revive=revive)
    await ledger.aopen()
    try:
        yield ledger
    finally:
        await ledger.aclose()
        await store.aclose()


def leave_behind(directory: Path, *records: Any, openings: tuple[Any, ...] = ()) -> Path:
    """A spool as a killed process leaves it."""
    file = SpoolFile(new_path(directory))
    assert file.open()
    for record in records:
        file.append([encode_record(record, hash_key=b"", max_bytes=1 << 20)], b"")
    for each in openings:
        file.append([], encode_opening(each))
    file.close()
    return file.path


def run_and_kill(directory: Path, url: str, prefix: str, lines: int) -> list[str]:
    """What a worker printed until it was killed after some lines."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.postgres.worker", str(directory), url, prefix],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    printed = []
    for line in worker.stdout:
        printed.append(line)
        if len(printed) == lines:
            worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert worker.returncode == -signal.SIGKILL
    return [line.strip() for line in printed if line.endswith("\n")]


@pytest.mark.slow
@pytest.mark.parametrize("lines", [40, 700, 2500])
async def test_a_gateway_killed_at_any_moment_loses_and_doubles_nothing(
    tmp_path: Path, fresh_postgres_url: str, lines: int
) -> None:
    printed = []
    for life in range(2):
        printed += await asyncio.to_thread(run_and_kill, tmp_path, fresh_postgres_url, f"life{life}", lines)
    opened = {line.split()[1] for line in printed if line.startswith("opened")}
    done = {line.split()[1] for line in printed if line.startswith("done")}
    async with running(tmp_path, fresh_postgres_url) as ledger:
        await ledger.flush()
    kept = await outcomes(fresh_postgres_url)
    assert max(Counter(name for name, _ in kept).values()) == 1
    states = dict(kept)
    assert {name for name in done if states.get(name) != "completed"} == set()
    assert opened <= set(states)
    # Ten in eleven of every lane were given a record; those that were not, and the cut ones, say so.
    interrupted = {name for name, state in states.items() if state == "interrupted"}
    assert interrupted
    assert interrupted.isdisjoint(done)
    assert spool_paths(tmp_path) == []


@pytest.mark.slow
async def test_postgres_killed_under_load_loses_and_doubles_nothing(tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    url = await postgres.start()
    try:
        await migrate(url)
        revive = postgres.ensure_running
        async with running(tmp_path / "spool", url, revive=revive, linger_s=0.005) as ledger:
            done: set[str] = set()

            async def load(lane: int) -> None:
                for number in range(250):
                    start = opening(f"x{lane}-{number}")
                    await ledger.open(start)
                    if await ledger.submit(rich_record(start.id, created_at=start.created_at)) is Receipt.SPOOLED:
                        done.add(start.id)
                    await asyncio.sleep(0.002)

            lanes = asyncio.gather(*(load(lane) for lane in range(8)))
            for least in (200, 900):
                async with asyncio.timeout(90):
                    while ledger.stats()["written_total"] < least:
                        await asyncio.sleep(0.005)
                running_one = (tmp_path / "postgres" / "cluster" / "postmaster.pid").read_text()
                os.kill(int(running_one.split()[0]), signal.SIGKILL)
            await lanes
            assert ledger.stats()["unrecorded_total"] == 0
            await ledger.flush()
            assert ledger.stats()["failed_total"] >= 1
        assert len(done) == 2000
        assert await outcomes(await postgres.ensure_running()) == [(name, "completed") for name in sorted(done)]
    finally:
        await postgres.stop()


@pytest.mark.slow
async def test_records_follow_a_killed_postgres_to_the_other_port_it_came_back_at(tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    url = await postgres.start()
    try:
        await migrate(url)
        async with running(tmp_path / "spool", url, revive=postgres.ensure_running, linger_s=0.005) as ledger:
            os.kill(int((tmp_path / "postgres" / "cluster" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
            port = make_url(url).port
            with socket.socket() as squatter:
                squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                async with asyncio.timeout(90):
                    while True:  # the killed server's children hold its port until they notice
                        try:
                            squatter.bind(("127.0.0.1", port))
                        except OSError:
                            await asyncio.sleep(0.005)
                        else:
                            break
                squatter.listen()
                start = opening("moved")
                await ledger.open(start)
                await ledger.submit(rich_record(start.id, created_at=start.created_at))
                async with asyncio.timeout(90):
                    await ledger.flush()
        moved = await postgres.ensure_running()
        assert moved != url
        assert await outcomes(moved) == [("moved", "completed")]
    finally:
        await postgres.stop()


@pytest.mark.slow
async def test_serving_goes_on_while_postgres_is_away_and_all_arrives_when_it_is_back(tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    url = await postgres.start()
    await migrate(url)
    await postgres.stop()
    try:
        async with running(tmp_path / "spool", url) as ledger:
            for number in range(300):
                assert await ledger.submit(plain_record(f"x{number:03}")) is Receipt.SPOOLED
            assert ledger.accepting()
            stats = ledger.stats()
            assert (stats["postgres_up"], stats["spool_depth"]) == (0, 300)
            assert await postgres.start() == url
            await ledger.flush()
            assert ledger.stats()["spool_depth"] == 0
        assert await outcomes(url) == [(f"x{number:03}", "completed") for number in range(300)]
    finally:
        await postgres.stop()


async def test_a_gateway_that_ends_while_postgres_is_away_leaves_its_records_for_the_next_start(
    tmp_path: Path, fresh_postgres_url: str
) -> None:
    away = "postgresql://nobody:nothing@127.0.0.1:1/none"
    async with running(tmp_path, away) as ledger:
        await ledger.open(opening("open"))
        await ledger.submit(plain_record("done"))
    assert len(spool_paths(tmp_path)) == 1
    async with running(tmp_path, fresh_postgres_url) as ledger:
        await ledger.flush()
    assert await outcomes(fresh_postgres_url) == [("done", "completed"), ("open", "interrupted")]
    assert spool_paths(tmp_path) == []


async def test_workers_that_find_a_dead_one_replay_it_once(tmp_path: Path, fresh_postgres_url: str) -> None:
    start = opening("cut")
    path = leave_behind(tmp_path, rich_record("done"), plain_record("late"), openings=(start, opening("late")))
    async with running(tmp_path, fresh_postgres_url) as first, running(tmp_path, fresh_postgres_url) as second:
        await first.flush()
        await second.flush()
        assert first.stats()["interrupted_total"] + second.stats()["interrupted_total"] == 1
    assert await outcomes(fresh_postgres_url) == [("cut", "interrupted"), ("done", "completed"), ("late", "completed")]
    assert not path.exists()


async def test_a_spool_that_was_half_written_to_postgres_is_finished(tmp_path: Path, fresh_postgres_url: str) -> None:
    records = [rich_record(f"x{number}") for number in range(10)]
    store = PostgresStore(fresh_postgres_url)
    async with running(tmp_path, fresh_postgres_url) as ledger:
        await ledger.flush()
    half = b",".join(encode_record(each, hash_key=b"", max_bytes=1 << 20) for each in records[:5])
    assert await store.write(half) == 5
    await store.aclose()
    leave_behind(tmp_path, *records, openings=tuple(opening(f"x{number}") for number in range(10)))
    async with running(tmp_path, fresh_postgres_url) as ledger:
        await ledger.flush()
        assert ledger.stats()["written_total"] == 5
    assert await outcomes(fresh_postgres_url) == [(f"x{number}", "completed") for number in range(10)]


async def test_one_bad_record_does_not_hold_up_the_others(tmp_path: Path, fresh_postgres_url: str) -> None:
    call = JudgeCallRecord("j", "m", "p", "", "", 2**63 + 5, 0, None, 0.1)  # more than a bigint
    rich = rich_record("bad")
    check = type(rich.checks[0])(0, "fact_check", "passed", "annotate", calls=[call])
    bad = rich_record("bad", checks=[check])
    timeless = plain_record("timeless", created_at=1e17)
    records = [plain_record(f"x{number}") for number in range(30)]
    async with running(tmp_path, fresh_postgres_url) as ledger:
        await asyncio.gather(*(ledger.submit(each) for each in [*records[:10], bad, *records[10:], timeless]))
        await ledger.flush()
        assert ledger.stats()["dead_letters"] == 2
        assert ledger.stats()["spool_depth"] == 0
        await ledger.submit(plain_record("x99"))
        await ledger.flush()
    names = {name for name, _ in await outcomes(fresh_postgres_url)}
    assert names == {each.id for each in records} | {"x99"}
    # They stay on disk, with the reason, and are tried again at the next start.
    (path,) = spool_paths(tmp_path)
    async with running(tmp_path, fresh_postgres_url) as ledger:
        await ledger.flush()
        assert ledger.stats()["dead_letters"] == 2
        assert not path.exists()
    file = SpoolFile(spool_paths(tmp_path)[0])
    assert file.open()
    assert ["out of range" in letter.error for letter in file.dead_letters()] == [True, True]
    file.close()


async def test_text_that_postgres_cannot_hold_is_stored_without_the_offending_characters(
    tmp_path: Path, fresh_postgres_url: str
) -> None:
    async with running(tmp_path, fresh_postgres_url) as ledger:
        await ledger.submit(plain_record("x1", query="a\x00b\ud800c", answer={"0": "\x00", "\x00": "\\u0000"}))
        await ledger.flush()
        assert ledger.stats()["dead_letters"] == 0
    store = PostgresStore(fresh_postgres_url)
    body = (await store.get_exchange("x1"))["body"]
    await store.aclose()
    assert body["query"] == "a\ufffdb\ufffdc"
    assert body["answers"] == {"0": "\ufffd", "\ufffd": "\\u0000"}


async def test_a_spool_from_long_ago_finds_its_months(tmp_path: Path, fresh_postgres_url: str) -> None:
    times = [datetime(year, 2, 28, tzinfo=UTC).timestamp() for year in (2019, 2024, 2026)]
    leave_behind(tmp_path, *(rich_record(f"x{at}", created_at=at) for at in times))
    async with running(tmp_path, fresh_postgres_url) as ledger:
        await ledger.flush()
        assert ledger.stats()["dead_letters"] == 0
    assert len(await outcomes(fresh_postgres_url)) == 3


async def test_records_wait_for_a_database_that_is_not_migrated_yet(tmp_path: Path, empty_postgres_url: str) -> None:
    async with running(tmp_path, empty_postgres_url) as ledger:
        await ledger.submit(plain_record("x1"))
        async with asyncio.timeout(90):
            while not ledger.stats()["failed_total"]:
                await asyncio.sleep(0.01)
        await migrate(empty_postgres_url)
        await ledger.flush()
        assert ledger.stats()["dead_letters"] == 0
    assert await outcomes(empty_postgres_url) == [("x1", "completed")]


async def test_a_damaged_spool_does_not_keep_the_gateway_from_starting(tmp_path: Path, fresh_postgres_url: str) -> None:
    path = leave_behind(tmp_path, plain_record("x1"))
    path.write_bytes(b"not a database" * 1000)
    async with running(tmp_path, fresh_postgres_url) as ledger:
        assert await ledger.submit(plain_record("x2")) is Receipt.SPOOLED
        await ledger.flush()
    assert await outcomes(fresh_postgres_url) == [("x2", "completed")]
    assert path.exists()


async def test_the_ledger_drops_what_is_past_its_retention(tmp_path: Path, fresh_postgres_url: str) -> None:
    store = PostgresStore(fresh_postgres_url)
    old = datetime(2020, 3, 5, tzinfo=UTC)
    await store.ensure_partitions([old.date().replace(day=1)])
    await store.write(encode_record(rich_record("old", created_at=old.timestamp()), hash_key=b"", max_bytes=1 << 20))
    await store.aclose()
    async with running(tmp_path, fresh_postgres_url, retention_days=30, body_retention_days=1) as ledger:
        await ledger.submit(rich_record("new"))
        await ledger.flush()
    assert await outcomes(fresh_postgres_url) == [("new", "completed")]

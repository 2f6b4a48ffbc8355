"""The local spool: what has a receipt is on disk; a full disk is told, not thrown; one owner per file."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.ledger.encode import encode_opening
from gateway.ledger.record import Receipt
from gateway.ledger.secret import FILE_NAME, load_hash_key
from gateway.ledger.spool import INLINE_BYTES, Spool
from gateway.ledger.spool_file import Fsync, SpoolFile, new_path, spool_paths

from .records import opening


def make(directory: Path, *, fsync: Fsync = "normal", max_bytes: int = 1 << 30, max_records: int = 1000) -> Spool:
    return Spool(SpoolFile(new_path(directory), fsync), fsync=fsync, max_bytes=max_bytes, max_records=max_records)


def on_disk(path: Path) -> tuple[int, int]:
    """(records, openings' rows) that another connection sees."""
    connection = sqlite3.connect(path)
    try:
        (records,) = connection.execute("SELECT coalesce(sum(n), 0) FROM record").fetchone()
        (openings,) = connection.execute("SELECT count(*) FROM opening").fetchone()
    finally:
        connection.close()
    return records, openings


@pytest.fixture(params=["off", "normal", "full"])
async def spool(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Spool]:
    spool = make(tmp_path, fsync=request.param)
    spool.start()
    yield spool
    await spool.stop()
    spool.close(remove=True)


async def test_a_receipt_means_that_it_is_on_disk(spool: Spool) -> None:
    assert await spool.add_opening(opening("x1")) is Receipt.SPOOLED
    assert on_disk(spool.file.path) == (0, 1)
    assert await spool.add_record("x1", b'{"id":"x1"}') is Receipt.SPOOLED
    assert on_disk(spool.file.path)[0] == 1
    assert (spool.records, spool.bytes, spool.open_count) == (1, 11, 0)


async def test_an_opening_that_nobody_awaits_reaches_the_disk_too(spool: Spool) -> None:
    receipt = spool.add_opening(opening("x1"))
    async with asyncio.timeout(5):
        while on_disk(spool.file.path) != (0, 1):
            await asyncio.sleep(0.001)
    assert await receipt is Receipt.SPOOLED


async def test_a_short_exchange_costs_one_row(spool: Spool) -> None:
    opened, recorded = spool.add_opening(opening("x1")), spool.add_record("x1", b'{"id":"x1"}')
    assert (await opened, await recorded) == (Receipt.SPOOLED, Receipt.SPOOLED)
    assert on_disk(spool.file.path) == (1, 0)


async def test_a_burst_is_one_commit(spool: Spool) -> None:
    receipts = [spool.add_record(f"x{n}", b'{"id":"x"}') for n in range(100)]
    assert {await receipt for receipt in receipts} == {Receipt.SPOOLED}
    assert len(await spool.read(0, 1000, 1 << 20)) == 1
    assert spool.records == 100


async def test_records_that_arrive_while_a_big_one_is_written_are_kept(spool: Spool) -> None:
    big = spool.add_record("big", b'"' + b"x" * (2 * INLINE_BYTES) + b'"')
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    small = [spool.add_record(f"x{n}", b"{}") for n in range(5)]
    assert [await each for each in [big, *small]] == [Receipt.SPOOLED] * 6
    assert on_disk(spool.file.path)[0] == 6


async def test_space_is_freed_for_what_has_arrived_and_kept_for_what_has_not(spool: Spool) -> None:
    for n in range(4):
        await spool.add_opening(opening(f"x{n}"))
    for n in range(3):
        await spool.add_record(f"x{n}", b"{}")
    groups = await spool.read(0, 2, 1 << 20)
    await spool.release(groups[-1].seq)
    assert on_disk(spool.file.path) == (1, 1)
    assert spool.records == 1
    # Emptied, then filled again: rows must go on counting, or the reader would skip the new ones.
    rest = await spool.read(groups[-1].seq, 10, 1 << 20)
    await spool.release(rest[-1].seq)
    await spool.add_record("x9", b"{}")
    assert [group.count for group in await spool.read(rest[-1].seq, 10, 1 << 20)] == [1]


async def test_past_its_bound_new_exchanges_are_refused_and_running_ones_recorded(tmp_path: Path) -> None:
    spool = make(tmp_path, max_records=2)
    spool.start()
    await spool.add_opening(opening("admitted"))
    await spool.add_record("x1", b"{}")
    await spool.add_record("x2", b"{}")
    assert not spool.accepting()
    assert await spool.add_opening(opening("late")) is Receipt.UNRECORDED
    assert await spool.add_record("late", b"{}") is Receipt.UNRECORDED
    assert await spool.add_record("admitted", b"{}") is Receipt.SPOOLED
    assert (spool.unrecorded_total, spool.records) == (2, 3)
    groups = await spool.read(0, 10, 1 << 20)
    await spool.release(groups[-1].seq)
    assert spool.accepting()
    await spool.stop()
    spool.close(remove=True)


async def test_the_bound_in_bytes_holds_too(tmp_path: Path) -> None:
    spool = make(tmp_path, max_bytes=100)
    spool.start()
    await spool.add_record("x1", b"x" * 100)
    assert not spool.accepting()
    await spool.stop()
    spool.close(remove=True)


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """No file of this process may grow past a size: writes fail as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_is_told_at_once_and_recording_goes_on_when_there_is_space(spool: Spool) -> None:
    await spool.add_record("kept", b'{"id":"kept"}')
    with disk_of(64 * 1024):
        receipts = [await spool.add_record(f"x{n}", b"x" * 30_000) for n in range(8)]
        assert Receipt.UNRECORDED in receipts
        assert not spool.accepting()
        assert await spool.add_opening(opening("new")) is Receipt.UNRECORDED
        await spool.maintain()
        assert not spool.accepting()
        told = receipts.count(Receipt.SPOOLED) + 1
        assert on_disk(spool.file.path)[0] == told
    await spool.maintain()
    assert spool.accepting()
    assert await spool.add_record("after", b"{}") is Receipt.SPOOLED
    assert on_disk(spool.file.path)[0] == told + 1


async def test_the_log_does_not_grow_for_ever(spool: Spool) -> None:
    for n in range(40):
        await spool.add_record(f"x{n}", b"x" * 100_000)
    assert spool.file.wal_bytes() > 4_000_000
    groups = await spool.read(0, 100, 1 << 30)
    await spool.release(groups[-1].seq)
    await spool.exclusively(spool.file.truncate_log)
    assert spool.file.wal_bytes() == 0


async def test_checkpoints_run_beside_readers_and_writers(spool: Spool) -> None:
    """A log that cannot be checkpointed under load would grow for ever."""
    written = asyncio.Event()

    async def write() -> None:
        for number in range(200):
            await spool.add_record(f"x{number}", b"x" * 5_000)
        written.set()

    async def read() -> None:
        while not written.is_set():
            await spool.read(0, 20, 1 << 20)

    async def checkpoint() -> None:
        while not written.is_set():
            await asyncio.to_thread(spool.file.checkpoint)

    await asyncio.gather(write(), read(), checkpoint())
    assert on_disk(spool.file.path)[0] == spool.records == 200


def test_only_one_process_owns_a_file_and_the_next_takes_it_over(tmp_path: Path) -> None:
    first = SpoolFile(new_path(tmp_path))
    assert first.open()
    first.append([b"{}"], encode_opening(opening("x1")))
    second = SpoolFile(first.path)
    assert not second.open()
    first.close()
    assert second.open()
    assert (second.depth().records, len(list(second.openings()))) == (1, 1)
    second.remove()
    assert list(tmp_path.iterdir()) == []
    assert spool_paths(tmp_path) == []


def test_nobody_else_on_the_machine_can_read_the_prompts(tmp_path: Path) -> None:
    file = SpoolFile(new_path(tmp_path))
    file.open()
    file.append([b"{}"], b"")
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    file.remove()


def test_dead_letters_are_kept_and_tried_again(tmp_path: Path) -> None:
    file = SpoolFile(new_path(tmp_path))
    file.open()
    file.bury([("refused", b'{"id":"x1"}')])
    assert [(letter.error, letter.data) for letter in file.dead_letters()] == [("refused", b'{"id":"x1"}')]
    assert file.exhume() == 1
    assert (file.depth().records, file.depth().dead) == (1, 0)
    file.remove()


def test_hashes_of_a_text_stay_comparable_across_workers_and_restarts(tmp_path: Path) -> None:
    key = load_hash_key(tmp_path)
    assert load_hash_key(tmp_path) == key
    assert len(key) == 32
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    (tmp_path / FILE_NAME).write_bytes(b"short")
    with pytest.raises(OSError, match="damaged"):
        load_hash_key(tmp_path)

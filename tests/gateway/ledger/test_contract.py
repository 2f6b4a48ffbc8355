"""What every ledger promises, the shipped double included."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.memory import MemoryLedger
from gateway.ledger.record import Ledger, Outcome, Receipt
from gateway.ledger.store import PostgresStore
from gateway.ledger.writer import LedgerSettings, SpooledLedger

from .records import opening, plain_record, rich_record

Outcomes = Callable[[], Awaitable[dict[str, tuple[str, int]]]]


class Subject:
    """A ledger with a way to read what it kept: id -> (outcome, status)."""

    def __init__(self, ledger: Ledger, outcomes: Outcomes) -> None:
        self.ledger = ledger
        self.outcomes = outcomes


@pytest.fixture(params=["memory", "spooled"])
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    if request.param == "memory":
        memory = MemoryLedger()

        async def kept() -> dict[str, tuple[str, int]]:
            return {record.id: (record.outcome.value, record.status) for record in memory.records}

        await memory.aopen()
        yield Subject(memory, kept)
        return
    store = PostgresStore(request.getfixturevalue("fresh_postgres_url"))
    ledger = SpooledLedger(LedgerSettings(directory=tmp_path), store)

    async def stored() -> dict[str, tuple[str, int]]:
        if ledger.stats()["accepting"]:
            await ledger.flush()
        return {item["id"]: (item["outcome"], item["status"]) for item in (await store.list_exchanges(limit=500)).items}

    await ledger.aopen()
    yield Subject(ledger, stored)
    await ledger.aclose()
    await store.aclose()


def test_both_are_ledgers(tmp_path: Path) -> None:
    store: Any = None
    assert isinstance(MemoryLedger(), Ledger)
    assert isinstance(SpooledLedger(LedgerSettings(directory=tmp_path), store), Ledger)


async def test_an_exchange_is_kept_once_its_receipt_is_given(subject: Subject) -> None:
    assert subject.ledger.accepting()
    assert await subject.ledger.open(opening("x1")) is Receipt.SPOOLED
    assert await subject.ledger.submit(rich_record("x1")) is Receipt.SPOOLED
    assert await subject.outcomes() == {"x1": ("completed", 200)}


async def test_work_goes_on_when_nobody_awaits_a_receipt(subject: Subject) -> None:
    for number in range(20):
        subject.ledger.open(opening(f"x{number}"))
        subject.ledger.submit(plain_record(f"x{number}"))
    assert await subject.ledger.submit(plain_record("last")) is Receipt.SPOOLED
    assert len(await subject.outcomes()) == 21


async def test_a_caller_that_is_cancelled_does_not_take_the_others_receipts_along(subject: Subject) -> None:
    async def exchange(number: int) -> Receipt:
        await subject.ledger.open(opening(f"x{number}"))
        return await subject.ledger.submit(plain_record(f"x{number}"))

    tasks = [asyncio.create_task(exchange(number)) for number in range(10)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each for number, each in enumerate(done) if number != 3] == [Receipt.SPOOLED] * 9


async def test_a_record_submitted_twice_is_kept_once(subject: Subject) -> None:
    record = plain_record("x1")
    await subject.ledger.submit(record)
    await subject.ledger.submit(record)
    await subject.ledger.submit(plain_record("x1", created_at=record.created_at, status=500))
    assert await subject.outcomes() == {"x1": ("completed", 200)}


async def test_a_detached_verdict_replaces_the_provisional_record(subject: Subject) -> None:
    created = opening("x1")
    await subject.ledger.open(created)
    first = plain_record("x1", created_at=created.created_at, status=202)
    assert await subject.ledger.submit(first, provisional=True) is Receipt.SPOOLED
    assert await subject.outcomes() == {}
    await subject.ledger.submit(rich_record("x1", created_at=created.created_at))
    assert await subject.outcomes() == {"x1": ("completed", 200)}


async def test_closing_records_what_was_provisional_and_what_was_open(subject: Subject) -> None:
    for name in ("done", "provisional", "open"):
        await subject.ledger.open(opening(name))
    await subject.ledger.submit(plain_record("provisional", status=202), provisional=True)
    await subject.ledger.submit(plain_record("done"))
    await subject.ledger.aclose()
    assert await subject.outcomes() == {
        "done": ("completed", 200),
        "provisional": ("completed", 202),
        "open": (Outcome.INTERRUPTED.value, 0),
    }


async def test_a_closed_ledger_says_unrecorded_and_never_raises(subject: Subject) -> None:
    await subject.ledger.aclose()
    await subject.ledger.aclose()
    assert not subject.ledger.accepting()
    assert await subject.ledger.open(opening("x1")) is Receipt.UNRECORDED
    assert await subject.ledger.submit(plain_record("x1")) is Receipt.UNRECORDED


async def test_metrics_have_the_same_names_everywhere(subject: Subject) -> None:
    await subject.ledger.open(opening("x1"))
    stats = subject.ledger.stats()
    names = {"accepting", "spool_depth", "spool_bytes", "oldest_seconds", "open", "written_total", "failed_total"}
    assert names | {"unrecorded_total", "dead_letters"} <= set(stats)
    assert stats["open"] == 1


async def test_a_refusing_double_behaves_like_a_full_spool() -> None:
    ledger = MemoryLedger()
    ledger.refuse()
    assert not ledger.accepting()
    assert await ledger.submit(plain_record("x1")) is Receipt.UNRECORDED
    ledger.recover()
    assert await ledger.submit(plain_record("x1")) is Receipt.SPOOLED
    assert ledger.stats()["unrecorded_total"] == 1

"""What is written can be read back, listed and erased."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from gateway.errors import LedgerUnavailableError, NotFoundError, RecordRefusedError, RequestError
from gateway.ledger.encode import encode_record
from gateway.ledger.record import CheckRecord, ExchangeRecord, FactRecord, Outcome
from gateway.ledger.store import ExchangeFilter, PostgresStore, database_url
from gateway.ledger.tables import month_of

from .records import plain_record, rich_record

KEY = b"k" * 32
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()


def stored(*records: ExchangeRecord) -> bytes:
    return b",".join(encode_record(record, hash_key=KEY, max_bytes=1 << 20) for record in records)


@pytest.fixture
async def store(fresh_postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(fresh_postgres_url)
    await store.ensure_partitions([month_of(NOON)])
    yield store
    await store.aclose()


async def test_every_field_of_a_verdict_is_there_when_it_is_audited(store: PostgresStore) -> None:
    record = rich_record("x1", created_at=NOON)
    assert await store.write(stored(record)) == 1
    found = await store.get_exchange("x1")

    assert found["created_at"] == "2026-11-15T12:00:00+00:00"
    same = (
        "id route path outcome status key_id request_id model upstream_model upstream stream release action "
        "config_version body_policy retrieval_status retrieval_detail check_status check_reason error_code "
        "error_message finish_reasons usage seconds"
    )
    for name in same.split():
        assert found[name] == getattr(record, name), name
    assert found["body"] == {
        "query": record.query,
        "request": record.request_body,
        "sent": record.sent_body,
        "answer": record.answer_body,
        "answers": record.answer,
    }
    assert [(a["upstream"], a["status"], a["error"]) for a in found["attempts"]] == [
        ("spare", 503, "upstream_status"),
        ("main", 200, ""),
    ]
    for source, kept in zip(record.sources, found["sources"], strict=True):
        assert kept == {name: getattr(source, name) for name in source.__struct_fields__}
    check, kept_check = record.checks[0], found["checks"][0]
    for name in [
        "choice",
        "kind",
        "status",
        "action",
        "reason",
        "rule",
        "score",
        "detail",
        "attempt",
        "versions",
        "seconds",
    ]:
        assert kept_check[name] == getattr(check, name), name
    for fact, kept_fact in zip(check.facts, kept_check["facts"], strict=True):
        plain = {name: getattr(fact, name) for name in fact.__struct_fields__ if name != "evidence"}
        assert {name: kept_fact[name] for name in plain} == plain
        for evidence, kept_evidence in zip(fact.evidence, kept_fact["evidence"], strict=True):
            assert kept_evidence == {name: getattr(evidence, name) for name in evidence.__struct_fields__}
    for call, kept_call in zip(check.calls, kept_check["calls"], strict=True):
        plain = {name: getattr(call, name) for name in call.__struct_fields__}
        assert {name: kept_call[name] for name in plain} == plain


async def test_a_batch_sent_twice_doubles_nothing(store: PostgresStore) -> None:
    batch = stored(rich_record("x1", created_at=NOON), plain_record("x2", created_at=NOON + 1))
    assert await store.write(batch) == 2
    before = await store.get_exchange("x1")
    assert await store.write(batch) == 0
    assert await store.write(stored(plain_record("x1", created_at=NOON, status=500))) == 0
    assert await store.get_exchange("x1") == before


async def test_the_same_exchange_twice_in_one_batch_counts_once(store: PostgresStore) -> None:
    first, second = rich_record("x1", created_at=NOON), plain_record("x1", created_at=NOON, status=500)
    assert await store.write(stored(first, second)) == 1
    found = await store.get_exchange("x1")
    assert (found["status"], len(found["checks"]), len(found["attempts"])) == (200, 1, 2)


async def test_a_passage_seen_by_many_exchanges_is_stored_once(store: PostgresStore) -> None:
    """BerriAI/litellm #41499: two thirds of every row was the same static text."""
    await store.write(stored(*(rich_record(f"x{n}", created_at=NOON + n) for n in range(50))))
    await store.write(stored(*(rich_record(f"y{n}", created_at=NOON + n) for n in range(50))))
    async with store.engine.connect() as connection:
        rows = (await connection.exec_driver_sql("SELECT count(*) FROM ledger.passage")).scalar_one()
        sources = (await connection.exec_driver_sql("SELECT count(*) FROM ledger.source")).scalar_one()
    assert (rows, sources) == (2, 200)
    assert (await store.get_exchange("y7"))["sources"][0]["text"] == "The parcel ships on Mondays."


async def test_a_request_sent_on_unchanged_is_not_stored_twice(store: PostgresStore) -> None:
    body = '{"messages": []}'
    await store.write(stored(plain_record("x1", created_at=NOON, request_body=body, sent_body=body)))
    async with store.engine.connect() as connection:
        assert (await connection.exec_driver_sql("SELECT sent FROM ledger.body")).scalar_one() is None
    assert (await store.get_exchange("x1"))["body"]["sent"] == body


async def test_paging_shows_every_exchange_once_even_with_equal_times(store: PostgresStore) -> None:
    ids = [f"x{n:03}" for n in range(57)]
    await store.write(stored(*(plain_record(each, created_at=NOON + n // 10) for n, each in enumerate(ids))))
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.list_exchanges(cursor=cursor, limit=10)
        seen += [item["id"] for item in page.items]
        # A newer exchange arriving between two pages must not shift them.
        await store.write(stored(plain_record(f"new{len(seen)}", created_at=NOON + 1000 + len(seen))))
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == sorted(ids, reverse=True)


async def test_filters_find_what_an_operator_asks_for(store: PostgresStore) -> None:
    await store.write(
        stored(
            rich_record("failed", created_at=NOON),
            plain_record("skipped", created_at=NOON + 60, check_reason="disabled", model="m2", key_id="k2"),
            plain_record("gone", created_at=NOON + 120, route="other", outcome=Outcome.CLIENT_CLOSED, request_id="r9"),
        )
    )

    async def ids(**filters: object) -> list[str]:
        return [item["id"] for item in (await store.list_exchanges(ExchangeFilter(**filters))).items]  # type: ignore[arg-type]

    assert await ids() == ["gone", "skipped", "failed"]
    assert await ids(route="other") == ["gone"]
    assert await ids(routes=("other", "none")) == ["gone"]
    assert await ids(routes=()) == []
    assert await ids(check_status="failed") == ["failed"]
    assert await ids(reason="disabled") == ["skipped"]
    assert await ids(outcome="client_closed") == ["gone"]
    assert await ids(outcome="completed") == ["skipped", "failed"]
    assert await ids(key_id="k2", model="m2") == ["skipped"]
    assert await ids(request_id="r9") == ["gone"]
    minute = datetime.fromtimestamp(NOON + 60, UTC)
    assert await ids(since=minute) == ["gone", "skipped"]
    assert await ids(until=minute) == ["failed"]
    assert await ids(route="a'; DROP TABLE ledger.exchange; --\x00") == []

    first = (await store.list_exchanges(ExchangeFilter(check_status="failed"))).items[0]
    assert (first["facts"], first["facts_failed"], first["query"]) == (2, 1, "when does it ship?")


@pytest.mark.parametrize("cursor", ["", "x", "e30", "W10", "WyJhIiwiYiJd", "\x00", "é"])
async def test_a_made_up_cursor_is_a_clear_client_error(store: PostgresStore, cursor: str) -> None:
    with pytest.raises(RequestError, match="cursor"):
        await store.list_exchanges(cursor=cursor)


async def test_an_unknown_exchange_is_not_found(store: PostgresStore) -> None:
    with pytest.raises(NotFoundError):
        await store.get_exchange("nobody\x00")


def reviewed() -> CheckRecord:
    issue = {"path": "a.py", "start_line": 3, "action": "drop", "votes": [{"judge": "one", "label": "hallucination"}]}
    said = {"votes": [{"judge": "one", "reason": "there is no lock"}]}
    fact = FactRecord(0, "The lock leaks", 4, 9, "failed", "hallucination", detail=said, issue=issue)
    return CheckRecord(0, "code_review", "failed", "filter", facts=[fact], details={"revision": "abc123"})


async def test_a_reviews_issues_are_read_back_with_their_votes_and_actions(store: PostgresStore) -> None:
    await store.write(stored(plain_record("x1", created_at=NOON, checks=[reviewed()])))
    (check,) = (await store.get_exchange("x1"))["checks"]
    (issue,) = check["facts"]
    assert check["details"] == {"revision": "abc123"}
    assert issue["issue"] == reviewed().facts[0].issue
    assert issue["detail"] == reviewed().facts[0].detail
    assert issue["text"] == "The lock leaks"


async def test_erasing_a_review_keeps_its_votes_and_loses_its_words(store: PostgresStore) -> None:
    await store.write(stored(plain_record("x1", created_at=NOON, checks=[reviewed()])))
    await store.erase_bodies("x1")
    found = await store.get_exchange("x1")
    assert "lock" not in str(found)
    assert found["checks"][0]["facts"][0]["issue"]["votes"] == [{"judge": "one", "label": "hallucination"}]


async def test_a_record_spooled_by_the_release_before_is_still_taken(store: PostgresStore) -> None:
    old = stored(rich_record("x1", created_at=NOON)).replace(b',"issue":null', b"").replace(b',"details":{}', b"")
    assert b"details" not in old
    assert await store.write(old) == 1
    (check,) = (await store.get_exchange("x1"))["checks"]
    assert (check["details"], check["facts"][0]["issue"]) == ({}, None)


async def test_erasing_a_conversation_leaves_no_word_of_it_and_keeps_the_verdict(store: PostgresStore) -> None:
    await store.write(stored(rich_record("x1", created_at=NOON)))
    await store.erase_bodies("x1")
    found = await store.get_exchange("x1")
    assert found["body"] is None
    for words in ("Sundays", "when does it ship", "When does it ship", '"q"'):
        assert words not in str(found)
    fact = found["checks"][0]["facts"][0]
    assert (fact["label"], fact["start"], fact["end"]) == ("false", 0, 20)
    assert fact["evidence"][0]["quote"] == "ships on Mondays"
    with pytest.raises(NotFoundError):
        await store.erase_bodies("x2")


async def test_a_record_without_its_month_is_refused_until_the_month_is_there(store: PostgresStore) -> None:
    old = datetime(2019, 2, 28, 23, 59, 59, tzinfo=UTC).timestamp()
    with pytest.raises(RecordRefusedError) as refused:
        await store.write(stored(plain_record("x1", created_at=old)))
    assert refused.value.sqlstate == "23514"
    assert await store.ensure_partitions([month_of(old)])
    assert not await store.ensure_partitions([month_of(old)])
    assert await store.write(stored(plain_record("x1", created_at=old))) == 1


async def test_a_database_without_tables_is_unavailable_not_a_reason_to_drop_records(empty_postgres_url: str) -> None:
    store = PostgresStore(empty_postgres_url)
    with pytest.raises(LedgerUnavailableError, match="grounding-gateway migrate"):
        await store.write(stored(plain_record("x1")))
    await store.aclose()


async def test_a_database_that_is_away_is_unavailable() -> None:
    store = PostgresStore("postgresql://nobody:nothing@127.0.0.1:1/none", timeout_s=2)
    with pytest.raises(LedgerUnavailableError):
        await store.ping()
    await store.aclose()


@pytest.mark.parametrize(
    "url", ["postgres://u:p@h:5/d?sslmode=require", "postgresql://u:p@h:5/d?ssl=require", "postgresql+psycopg://u:p@h:5/d?sslmode=require"]
)  # fmt: skip
def test_a_url_of_another_client_works_here(url: str) -> None:
    made = database_url(url)
    assert made.render_as_string(hide_password=False) == "postgresql+asyncpg://u:p@h:5/d?ssl=require"

"""A person's label stands beside the verdict for good; the newest of each person counts; samples repeat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.errors import NotFoundError, RequestError
from gateway.ledger.encode import encode_record
from gateway.ledger.labels import Label, Labels, Place, Span
from gateway.ledger.record import CheckRecord, ExchangeRecord, FactRecord
from gateway.ledger.store import PostgresStore
from gateway.ledger.tables import month_of

from .records import SEVEN, plain_record, rich_record

pytestmark = pytest.mark.slow

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()


@pytest.fixture
async def store(fresh_postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(fresh_postgres_url)
    await store.ensure_partitions([month_of(NOON)])
    yield store
    await store.aclose()


@pytest.fixture
def labels(store: PostgresStore) -> Labels:
    return Labels(store)


async def write(store: PostgresStore, *records: ExchangeRecord) -> None:
    await store.write(b",".join(encode_record(each, hash_key=b"k", max_bytes=1 << 20) for each in records))


def fact(position: int, score: float | None, **changes: Any) -> FactRecord:
    made = FactRecord(position, f"Fact {position}.", 0, 7, "passed", "true", probabilities=SEVEN, score=score)
    return replace(made, **{"rule": "supported", **changes})


def answer(exchange_id: str, *facts: FactRecord, **changes: Any) -> ExchangeRecord:
    check = CheckRecord(0, "fact_check", "passed", "annotate", facts=list(facts))
    return plain_record(exchange_id, **{"created_at": NOON, "checks": [check], **changes})


def review(exchange_id: str) -> ExchangeRecord:
    votes = [{"judge": "a", "hop": 0, "label": "valid"}, {"judge": "b", "hop": 0, "label": "hallucination"}]
    issue = {"path": "a.py", "start_line": 3, "action": "drop", "votes": votes}
    made = FactRecord(0, "The lock leaks", 0, 14, "failed", "hallucination", issue=issue, rule="or")
    return answer(exchange_id, made, checks=[CheckRecord(0, "code_review", "failed", "filter", facts=[made])])


async def test_the_newest_label_of_each_person_counts_and_none_is_ever_lost(
    store: PostgresStore, labels: Labels
) -> None:
    await write(store, rich_record("x1", created_at=NOON))
    first = await labels.add(Label(exchange_id="x1", label="true", labeller="ann", fact=0, source="doc#1"))
    await labels.add(Label(exchange_id="x1", label="false", labeller="ann", fact=0, comment="Mondays"))
    await labels.add(Label(exchange_id="x1", label="half_true", labeller="bob", fact=0))
    await labels.add(Label(exchange_id="x1", label="half_true", labeller="ann"))
    kept = await labels.of("x1")
    assert [(each["label"], each["fact"], each["labeller"], each["current"]) for each in kept] == [
        ("true", 0, "ann", False),
        ("false", 0, "ann", True),
        ("half_true", 0, "bob", True),
        ("half_true", None, "ann", True),
    ]
    assert (kept[0]["id"], kept[0]["source"], kept[1]["comment"]) == (first["id"], "doc#1", "Mondays")
    current = await labels.current(Span())
    assert [(each["fact"], each["labeller"], each["label"], each["verdict"]) for each in current] == [
        (0, "ann", "false", "failed"),
        (0, "bob", "half_true", "failed"),
        (None, "ann", "half_true", "failed"),
    ]
    assert await labels.current(Span(route="other")) == []
    assert len((await store.get_exchange("x1"))["labels"]) == 4


async def test_a_label_sent_twice_is_kept_once_and_its_id_is_never_another_ones(
    store: PostgresStore, labels: Labels
) -> None:
    await write(store, rich_record("x1", created_at=NOON))
    label = Label(exchange_id="x1", label="true", labeller="ann", fact=0, id="mine")
    assert (await labels.add(label))["new"]
    assert not (await labels.add(label))["new"]
    with pytest.raises(RequestError, match="another label"):
        await labels.add(Label(exchange_id="x1", label="false", labeller="ann", fact=0, id="mine"))
    assert len(await labels.of("x1")) == 1


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"label": "perhaps"}, RequestError, "use one of true, half_true"),
        ({"label": "valid"}, RequestError, "no label for a fact"),
        ({"labeller": " "}, RequestError, "say who"),
        ({"exchange_id": "x9"}, NotFoundError, "no exchange"),
        ({"exchange_id": "x\x00"}, NotFoundError, "no exchange"),
        ({"fact": 7}, NotFoundError, "no fact 7"),
        ({"fact": -1}, RequestError, "position"),
        ({"fact": 2**40}, RequestError, "position"),
        ({"choice": 3}, NotFoundError, "no check of choice 3"),
        ({"check": 3}, NotFoundError, "no check 3"),
        ({"comment": "x" * 10_001}, RequestError, "10000"),
        ({"exchange_id": "r1", "label": "true"}, RequestError, "no label for an issue of a review; use one of valid"),
    ],
)
async def test_a_label_that_fits_nothing_is_refused_with_what_would_fit(
    store: PostgresStore, labels: Labels, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    await write(store, rich_record("x1", created_at=NOON), review("r1"))
    values = {"exchange_id": "x1", "label": "true", "labeller": "ann", "fact": 0, **changes}
    with pytest.raises(error, match=words):
        await labels.add(Label(**values))
    assert await labels.current(Span()) == []


async def test_a_route_that_may_not_be_seen_cannot_be_labelled(store: PostgresStore, labels: Labels) -> None:
    await write(store, rich_record("x1", created_at=NOON))
    with pytest.raises(NotFoundError):
        await labels.add(Label(exchange_id="x1", label="true", labeller="ann"), routes=("other",))
    with pytest.raises(NotFoundError):
        await labels.of("x1", routes=("other",))


async def test_a_repaired_answer_is_labelled_as_it_was_delivered(store: PostgresStore, labels: Labels) -> None:
    facts = [fact(0, 0.9)]
    first = CheckRecord(0, "fact_check", "failed", "repair", attempt=0, facts=facts)
    second = CheckRecord(0, "fact_check", "passed", "repair", attempt=1, facts=facts)
    await write(store, answer("x1", checks=[first, second]))
    assert (await labels.add(Label(exchange_id="x1", label="true", labeller="ann", fact=0)))["check"] == 1
    assert await labels.queue(Span(), "bob") == [Place("x1", 1, 0)]


async def test_the_queue_asks_what_is_worth_asking_first_and_nothing_twice(
    store: PostgresStore, labels: Labels
) -> None:
    await write(
        store,
        answer("x1", fact(0, 0.9), fact(1, 0.45), fact(2, None, rule="states_nothing"), fact(3, 0.2)),
        answer("x2", fact(0, 0.3, text="")),
        review("r1"),
        answer("x3", fact(0, 0.02), route="other"),
    )
    span = Span(route="support")
    assert await labels.queue(span, "ann") == [
        Place("x1", 0, 1),
        Place("x1", 0, 3),
        Place("x1", 0, 0),
        Place("r1", 0, 0),
    ]
    await labels.add(Label(exchange_id="x1", label="true", labeller="bob", fact=3))
    await labels.add(Label(exchange_id="x1", label="false", labeller="cid", fact=3))
    await labels.add(Label(exchange_id="x1", label="false", labeller="bob", fact=0))
    queue = await labels.queue(span, "ann", order="disagreement")
    # Two people differ, a person differs from the verdict, two judges differ, nobody differs.
    assert queue == [Place("x1", 0, 3), Place("x1", 0, 0), Place("r1", 0, 0), Place("x1", 0, 1)]
    assert Place("x1", 0, 3) not in await labels.queue(span, "bob", order="random")
    orders = [tuple(await labels.queue(span, "ann", order="random", seed=seed)) for seed in (1, 1, 2, 3, 4)]
    assert orders[0] == orders[1]
    assert len(set(orders)) > 1


async def test_a_sample_repeats_by_its_seed_and_counts_its_strata(store: PostgresStore, labels: Labels) -> None:
    unjudged = fact(9, None, status="not_checked", label=None, reason="no_evidence")
    for number in range(12):
        wrong = fact(1, 0.9, status="failed", label="false")
        await write(store, answer(f"x{number}", fact(0, 0.1), *([wrong] if number < 3 else []), unjudged))
    drawn = await labels.draw(Span(route="support"), count=5, seed=1)
    assert drawn == await labels.draw(Span(route="support"), count=5, seed=1)
    assert drawn != await labels.draw(Span(route="support"), count=5, seed=2)
    assert [(each.status, each.label, each.size) for each in drawn] == [
        *[("failed", "false", 3)] * 3,
        *[("passed", "true", 12)] * 5,
    ]

"""Traces: the caller's context is understood and passed on, failures are always kept, and no text leaves in a span."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.record import AttemptRecord, Outcome
from gateway.telemetry.spans import must_keep, spans_of
from gateway.telemetry.trace_context import TraceContext, begin, outgoing, parse
from gateway.telemetry.tracing import Tracing, TracingSettings
from tests.gateway.ledger.records import rich_record
from tests.servers.collector import Collector

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


bits = random.Random(7).getrandbits


# -- the context -------------------------------------------------------------------------------------------------------


def test_the_upstream_is_in_the_trace_of_the_caller() -> None:
    context = begin({"traceparent": CALLER, "tracestate": "vendor=1"}, 0.0, bits)
    sent = outgoing(context, {"traceparent": CALLER, "tracestate": "vendor=1", "accept": "*/*"})
    assert sent == {"accept": "*/*", "tracestate": "vendor=1", "traceparent": context.traceparent}
    assert parse(context.traceparent) == (context.trace_id, context.upstream_id, True)
    assert f"{context.trace_id:032x}" == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert f"{context.parent_id:016x}" == "00f067aa0ba902b7"


def test_a_state_without_its_parent_is_not_passed_on() -> None:
    """https://www.w3.org/TR/trace-context/#tracestate-header: it belongs to a traceparent."""
    context = begin({"tracestate": "vendor=1"}, 1.0, bits)
    assert "tracestate" not in outgoing(context, {"tracestate": "vendor=1"})


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        CALLER.upper(),
        CALLER.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        CALLER.replace("00f067aa0ba902b7", "0" * 16),
        "ff" + CALLER[2:],
        CALLER + "-more",
        CALLER[:-1],
        CALLER + "\n" + CALLER,
    ],
)
def test_a_broken_header_begins_a_new_trace_instead_of_breaking_the_request(header: str) -> None:
    assert parse(header) is None
    assert begin({"traceparent": header}, 1.0, bits).parent_id is None


def test_a_later_version_with_more_fields_is_understood() -> None:
    assert parse("01" + CALLER[2:] + "-more") is not None


@given(st.text())
def test_no_header_raises(header: str) -> None:
    parse(header)


@given(st.integers(min_value=0), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_the_share_of_sampled_traces_is_the_one_asked_for(seed: int, ratio: float) -> None:
    source = random.Random(seed)
    sampled = sum(begin({}, ratio, source.getrandbits).sampled for _ in range(200)) / 200
    assert abs(sampled - ratio) < 0.25
    if ratio in (0.0, 1.0):
        assert sampled == ratio


def test_a_caller_decides_for_its_trace() -> None:
    assert begin({"traceparent": CALLER}, 0.0, bits).sampled
    assert not begin({"traceparent": CALLER[:-1] + "0"}, 1.0, bits).sampled


# -- spans -------------------------------------------------------------------------------------------------------------

FINE: dict[str, Any] = {"check_status": "passed", "check_reason": None, "attempts": [AttemptRecord("main", 200, 0.1)]}


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, False),
        ({"check_status": "not_checked", "check_reason": "no_facts"}, False),
        ({"outcome": Outcome.CLIENT_CLOSED, "status": 499}, False),
        ({"check_status": "failed"}, True),
        ({"check_status": "not_checked", "check_reason": "judge_unavailable"}, True),
        ({"outcome": Outcome.UPSTREAM_ERROR, "status": 503}, True),
        ({"outcome": Outcome.BLOCKED, "status": 422}, True),
        ({"retrieval_status": "failed"}, True),
        ({"attempts": [AttemptRecord("main", 500, 0.1, "http_500"), AttemptRecord("main", 200, 0.1)]}, True),
    ],
)
def test_what_went_wrong_is_kept_whatever_the_sampling(changes: dict[str, Any], kept: bool) -> None:
    assert must_keep(rich_record("ex_1", **{**FINE, **changes})) is kept


def test_spans_nest_within_their_exchange_and_have_ids_of_their_own() -> None:
    record = rich_record(
        "ex_1", seconds={"retrieval": 0.1, "first_byte": 0.2, "upstream": 0.3, "check": 0.4, "total": 0.9}
    )
    context = begin({"traceparent": CALLER}, 1.0, bits)
    spans = list(spans_of(record, context))
    assert [span.name for span in spans][:3] == ["POST /v1/chat/completions", "retrieval", "chat gpt-9"]
    assert {"fact_check", "chat gpt-9-mini-2026"} <= {span.name for span in spans}
    known = {span.id: span for span in spans}
    assert len(known) == len(spans)
    for span in spans[1:]:
        assert span.parent_id is not None
        outer = known[span.parent_id]
        assert outer.start_ns <= span.start_ns <= span.end_ns
    assert all(span.end_ns <= spans[0].end_ns for span in spans[1:4])
    assert spans[0].parent_id == context.parent_id
    assert next(span for span in spans if span.kind == "client").id == context.upstream_id


def test_no_word_of_a_prompt_or_an_answer_stands_in_a_span() -> None:
    record = rich_record("ex_1")
    text = repr(list(spans_of(record, begin({}, 1.0, bits))))
    assert "chat gpt-9" in text
    for secret in ("Sundays", "Mondays", "ship", "PASSAGES", "It is blue", '{"q": 1}'):
        assert secret not in text


# -- sending -----------------------------------------------------------------------------------------------------------


def settings(endpoint: str, **changes: Any) -> TracingSettings:
    base = TracingSettings(endpoint=endpoint, headers={"x-tenant": "t1"}, ratio=0.0, service="gg", timeout_s=2.0)
    return replace(base, **changes)


def context(*, sampled: bool) -> TraceContext:
    return TraceContext(trace_id=5, span_id=6, upstream_id=7, parent_id=None, sampled=sampled)


async def test_a_collector_gets_sampled_and_failed_traces_and_no_others() -> None:
    async with Collector() as collector:
        tracing = Tracing(settings(collector.endpoint))
        await asyncio.to_thread(tracing.open)
        tracing.ended(rich_record("ex_fine", **FINE), context(sampled=False))
        tracing.ended(rich_record("ex_sampled", **FINE), context(sampled=True))
        tracing.ended(rich_record("ex_failed"), None)
        await asyncio.to_thread(tracing.close)
        servers = {span.attributes["grounding.exchange_id"]: span for span in collector.spans if span.kind == "server"}
        assert servers.keys() == {"ex_sampled", "ex_failed"}
        assert servers["ex_sampled"].trace_id == f"{5:032x}"
        assert servers["ex_sampled"].resource["service.name"] == "gg"
        assert collector.headers[0]["x-tenant"] == "t1"
        assert tracing.stats()["exported_total"] == 2
        check = next(span for span in collector.spans if span.name == "fact_check")
        assert check.events["gen_ai.evaluation.result"]["gen_ai.evaluation.score.label"] == "failed"
        call = next(s for s in collector.spans if s.name == "chat gpt-9")
        assert call.attributes["gen_ai.usage.input_tokens"] == 5
        assert call.attributes["gen_ai.response.finish_reasons"] == ["stop"]


async def test_a_collector_that_refuses_costs_traces_and_nothing_else() -> None:
    async with Collector() as collector:
        collector.status = 400
        tracing = Tracing(settings(collector.endpoint, ratio=1.0))
        await asyncio.to_thread(tracing.open)
        tracing.ended(rich_record("ex_1"), None)
        await asyncio.to_thread(tracing.close)
        assert (tracing.stats()["failed_total"], tracing.stats()["exported_total"]) == (1, 0)


def test_a_full_queue_drops_and_counts() -> None:
    tracing = Tracing(settings("http://127.0.0.1:9"))  # never opened: nobody empties it
    record = rich_record("ex_1")
    for _ in range(1_100):
        tracing.ended(record, None)
    assert (tracing.stats()["waiting"], tracing.stats()["dropped_total"]) == (1_000, 100)

"""Logs and metrics: what an operator sees, and what must never be seen there."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from checks.types import CheckedFact, CheckedIssue, FactLabel, IssueLabel, Reason, Segment, Status, Verdict
from gateway.errors import UpstreamTimeoutError
from gateway.ledger.record import AttemptRecord, CheckRecord, ExchangeRecord, FactRecord, JudgeCallRecord, Outcome
from gateway.telemetry import Metrics, TelemetryObserver, log
from gateway.telemetry.views import tokens

KEY = "sk-proj-abcdefghij0123456789"
PLAIN = "correct-horse-battery"


def record(**changes: Any) -> ExchangeRecord:
    call = JudgeCallRecord(
        judge="careful", model="m", purpose="classify", request="", reply="", prompt_tokens=11, completion_tokens=2,
        cost_usd=0.25, seconds=0.1,
    )  # fmt: skip
    fact = FactRecord(position=0, text="a rejected sentence", start=0, end=3, status="failed", label="false")
    values: dict[str, Any] = {
        "id": "ex_1",
        "created_at": 1.0,
        "route": "support",
        "path": "/v1/chat/completions",
        "outcome": Outcome.COMPLETED,
        "status": 200,
        "model": "gpt",
        "upstream": "real",
        "key_id": "alice",
        "request_id": "req-1",
        "retrieval_status": "grounded",
        "check_status": "failed",
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 40},
        },
        "seconds": {"retrieval": 0.01, "upstream": 0.2, "check": 0.05, "total": 0.3},
        "checks": [
            CheckRecord(choice=0, kind="fact_check", status="failed", action="annotate", facts=[fact], calls=[call])
        ],
        "attempts": [AttemptRecord("real", 503, 0.1, "upstream_status"), AttemptRecord("real", 200, 0.1)],
    }
    return ExchangeRecord(**{**values, **changes})


def verdict(status: Status = Status.FAILED, reason: Reason | None = None) -> Verdict:
    facts = tuple(
        CheckedFact(Segment("x", 0, 1), status, label)
        for status, label in ((Status.FAILED, FactLabel.FALSE), (Status.PASSED, FactLabel.TRUE))
    )
    return Verdict("fact_check", status, reason, facts=facts, seconds={"search": 0.02})


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log of a test as JSON lines; logging is put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    out = io.StringIO()
    log.configure("json", "info", out)
    yield out
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def events(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


# -- logs --------------------------------------------------------------------------------------------------------------


def test_an_exchange_is_one_line_with_where_its_time_went(lines: io.StringIO) -> None:
    log.exchange(record())
    (event,) = events(lines)
    expected = {
        "event": "exchange", "level": "info", "id": "ex_1", "route": "support", "outcome": "completed", "status": 200,
        "retrieval": "grounded", "check": "failed", "facts_failed": 1, "attempts": 2, "prompt_tokens": 100,
        "cached_tokens": 40, "completion_tokens": 7, "key": "alice", "request_id": "req-1", "retrieval_ms": 10.0,
        "upstream_ms": 200.0, "check_ms": 50.0, "total_ms": 300.0,
    }  # fmt: skip
    assert expected.items() <= event.items()
    assert event["timestamp"].endswith("Z")
    assert "_clean" not in event


def test_no_text_of_an_answer_leaves_through_the_log(lines: io.StringIO) -> None:
    log.exchange(record(answer={"0": "a rejected sentence"}, answer_body="a rejected sentence", query="asked"))
    assert "rejected" not in lines.getvalue()
    assert "asked" not in lines.getvalue()


def test_failures_are_louder_than_answers(lines: io.StringIO) -> None:
    for outcome in Outcome:
        log.exchange(record(outcome=outcome, error_code="e"))
    levels = {event["outcome"]: event["level"] for event in events(lines)}
    assert {name for name, level in levels.items() if level == "warning"} == {"upstream_error", "internal_error"}


def test_a_quiet_level_silences_the_line_of_each_exchange() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    out = io.StringIO()
    log.configure("json", "warning", out)
    log.exchange(record())
    log.exchange(record(outcome=Outcome.INTERNAL_ERROR))
    assert [event["outcome"] for event in events(out)] == ["internal_error"]
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize(
    "fields",
    [
        {"text": f"sent {KEY} there"},
        {"nested": {"list": [f"Bearer {KEY}"]}},
        {"api_key": PLAIN},
        {"authorization": PLAIN},
        {"password": PLAIN},
        {"url": f"postgresql://user:{PLAIN}@host/db"},
    ],
)
def test_no_credential_is_logged_under_any_name(lines: io.StringIO, fields: dict[str, Any]) -> None:
    structlog.get_logger("x").warning("event", **fields)
    logging.getLogger("third.party").warning("it said %s", f"Bearer {KEY}")
    assert KEY not in lines.getvalue()
    assert PLAIN not in lines.getvalue()
    assert "[redacted]" in lines.getvalue()


def test_a_clients_words_in_an_exchange_are_redacted(lines: io.StringIO) -> None:
    log.exchange(record(model=f"m {KEY}", request_id=KEY, error_code=KEY))
    assert KEY not in lines.getvalue()


def test_a_traceback_keeps_its_place_and_loses_its_credential(lines: io.StringIO) -> None:
    metrics = Metrics()
    observer = TelemetryObserver(metrics)
    try:
        raise RuntimeError(f"refused: Bearer {KEY}")
    except RuntimeError as error:
        observer.problem("check_crashed", error, route="support")
    observer.problem("upstream_slow", UpstreamTimeoutError("no byte within 120 s"), route="support")
    crashed, slow = events(lines)
    assert crashed["level"] == "error"
    assert "Traceback" in crashed["exception"]
    assert slow["level"] == "warning"
    assert "exception" not in slow
    assert KEY not in lines.getvalue()
    assert sample(metrics, "grounding_problems_total", event="check_crashed") == 1


def test_other_libraries_lines_look_like_ours_and_access_lines_are_not_doubled(lines: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").info("started")
    logging.getLogger("uvicorn.access").info("GET /")
    logging.getLogger("sqlalchemy.engine").info("SELECT 'a prompt'")
    assert [(event["event"], event["logger"]) for event in events(lines)] == [("started", "uvicorn.error")]


def test_a_terminal_gets_lines_for_people() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, is_json in ((Terminal(), False), (io.StringIO(), True)):
        log.configure("auto", "info", stream)
        structlog.get_logger("x").info("hello", n=1)
        assert stream.getvalue().startswith("{") == is_json
        assert "hello" in stream.getvalue()
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("given", ["req-1", "a" * 128, "A.b_c:d/e+f=@-9"])
def test_the_clients_request_id_is_kept(given: str) -> None:
    assert log.request_id(given, lambda: "fresh") == given


@pytest.mark.parametrize("given", [None, "", "a" * 129, "a b", "a\nb", "ä", "{}", "a\x00"])
def test_a_request_id_that_could_forge_a_log_line_is_replaced(given: str | None) -> None:
    assert log.request_id(given, lambda: "fresh") == "fresh"


# -- metrics -----------------------------------------------------------------------------------------------------------


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    body, _ = metrics.render()
    for family in text_string_to_metric_families(body.decode()):
        for each in family.samples:
            if each.name == name and labels.items() <= each.labels.items():
                return each.value
    return None


def test_everything_an_operator_watches_is_counted() -> None:
    metrics = Metrics()
    observer = TelemetryObserver(metrics)
    metrics.entered()
    observer.stage("support", "retrieval", 0.01)
    observer.verdict("support", verdict())
    observer.verdict("support", verdict(Status.NOT_CHECKED, Reason.TIMEOUT))
    metrics.exchange(record())
    metrics.unrecorded()
    metrics.reloaded(accepted=False)
    expected = [
        ("grounding_requests_in_flight", {}, 1),
        ("grounding_exchanges_total", {"route": "support", "outcome": "completed", "status": "200"}, 1),
        ("grounding_retrievals_total", {"route": "support", "status": "grounded"}, 1),
        ("grounding_verdicts_total", {"route": "support", "kind": "fact_check", "status": "failed"}, 1),
        ("grounding_not_checked_total", {"route": "support", "kind": "fact_check", "reason": "timeout"}, 1),
        ("grounding_facts_total", {"route": "support", "label": "false", "status": "failed"}, 2),
        ("grounding_facts_total", {"route": "support", "label": "true", "status": "passed"}, 2),
        ("grounding_upstream_attempts_total", {"upstream": "real"}, 2),
        ("grounding_upstream_errors_total", {"upstream": "real", "code": "upstream_status"}, 1),
        ("grounding_tokens_total", {"route": "support", "kind": "prompt"}, 100),
        ("grounding_tokens_total", {"route": "support", "kind": "cached"}, 40),
        ("grounding_tokens_total", {"route": "support", "kind": "completion"}, 7),
        ("grounding_cached_token_share_sum", {"route": "support"}, 0.4),
        ("grounding_judge_calls_total", {"judge": "careful", "purpose": "classify", "outcome": "ok"}, 1),
        ("grounding_judge_tokens_total", {"judge": "careful", "kind": "prompt"}, 11),
        ("grounding_judge_cost_usd_total", {"judge": "careful"}, 0.25),
        ("grounding_unrecorded_exchanges_total", {}, 1),
        ("grounding_config_reloads_total", {"result": "refused"}, 1),
    ]
    for name, labels, value in expected:
        assert sample(metrics, name, **labels) == pytest.approx(value), (name, labels)
    metrics.left()
    assert sample(metrics, "grounding_requests_in_flight") == 0


def review(*actions: str) -> Verdict:
    issues = tuple(
        CheckedIssue("a.py", 1, 1, "x", Status.FAILED, IssueLabel.HALLUCINATION, action=action) for action in actions
    )
    return Verdict("code_review", Status.FAILED, issues=issues)


def test_a_check_that_begins_to_eat_whole_reviews_raises_an_alarm() -> None:
    metrics = Metrics()
    observer = TelemetryObserver(metrics)
    observer.verdict("review", review("drop", "keep", "mark", "keep"))
    assert sample(metrics, "grounding_issue_drop_share", route="review") == pytest.approx(0.25)
    assert sample(metrics, "grounding_reviews_emptied_total", route="review") is None
    observer.verdict("review", review("drop", "drop"))
    assert sample(metrics, "grounding_reviews_emptied_total", route="review") == 1
    assert sample(metrics, "grounding_issues_total", label="hallucination", action="drop") == 3
    assert sample(metrics, "grounding_issue_drop_share", route="review") == pytest.approx(0.5)
    for _ in range(300):
        observer.verdict("review", review("drop", "drop"))
    assert (sample(metrics, "grounding_issue_drop_share", route="review") or 0) > 0.9
    observer.verdict("review", Verdict("code_review", Status.NOT_CHECKED, Reason.NO_FACTS))
    assert sample(metrics, "grounding_reviews_emptied_total", route="review") == 301


def test_the_time_of_each_stage_is_counted_once() -> None:
    metrics = Metrics()
    observer = TelemetryObserver(metrics)
    observer.stage("support", "retrieval", 0.01)
    observer.stage("support", "check", 0.05)
    observer.verdict("support", verdict())
    metrics.exchange(record())
    for stage in ("retrieval", "check", "upstream", "total", "check.search"):
        assert sample(metrics, "grounding_stage_seconds_count", stage=stage) == 1, stage


def test_the_ledgers_own_numbers_are_shown_as_they_are_at_the_scrape() -> None:
    metrics = Metrics()
    stats = {"spool_depth": 3.0, "written_total": 5.0}
    metrics.watch("ledger", lambda: stats)
    assert sample(metrics, "grounding_ledger_spool_depth") == 3
    stats.update(spool_depth=0.0, written_total=9.0)
    assert sample(metrics, "grounding_ledger_spool_depth") == 0
    assert sample(metrics, "grounding_ledger_written_total") == 9


async def test_numbers_are_kept_fresh_for_the_other_workers() -> None:
    metrics = Metrics()
    read = asyncio.Event()

    def stats() -> dict[str, float]:
        read.set()
        return {}

    metrics.watch("ledger", stats)
    task = asyncio.create_task(metrics.keep_fresh(0.001))
    for _ in range(2):
        await asyncio.wait_for(read.wait(), 10)
        read.clear()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def test_two_gateways_in_one_process_do_not_mix_their_numbers() -> None:
    first, second = Metrics(), Metrics()
    first.exchange(record())
    assert sample(second, "grounding_exchanges_total") is None


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"prompt_tokens": "many", "completion_tokens": None, "prompt_tokens_details": [1]},
        {"prompt_tokens": -4, "completion_tokens": True, "prompt_tokens_details": {"cached_tokens": 1.5}},
    ],
)
def test_a_usage_object_that_makes_no_sense_breaks_no_exchange(usage: dict[str, Any]) -> None:
    metrics = Metrics()
    metrics.exchange(record(usage=usage))
    assert tokens(usage) == (0, 0, 0)
    assert sample(metrics, "grounding_tokens_total") is None


def test_a_scraper_gets_the_format_it_asks_for() -> None:
    metrics = Metrics()
    assert metrics.render()[1].startswith("text/plain")
    body, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


WORKER = """
    import sys
    from gateway.telemetry import Metrics
    metrics = Metrics()
    depth = float(sys.argv[1])
    metrics.watch("ledger", lambda: {"spool_depth": depth, "oldest_seconds": depth, "postgres_up": 2 - depth})
    metrics.entered()
    metrics.unrecorded()
    metrics.stage("support", "total", 0.1)
    metrics.refresh()
    print("ready", flush=True)
    for line in sys.stdin:
        sys.stdout.write(metrics.render()[0].decode() + "# done\\n")
        sys.stdout.flush()
"""
PARENT = """
    import sys
    from pathlib import Path
    from gateway.telemetry.metrics import share_between_workers
    import subprocess
    share_between_workers(Path(sys.argv[1]))
    workers = [
        subprocess.Popen([sys.executable, "-c", sys.argv[2], str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True) for n in (1, 2)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\\n"
    def scrape(worker):
        worker.stdin.write("x\\n")
        worker.stdin.flush()
        return "".join(iter(worker.stdout.readline, "# done\\n"))
    print(scrape(workers[0]))
    workers[1].kill()
    workers[1].wait()
    print("#" * 80)
    print(scrape(workers[0]))
    workers[0].stdin.close()
    workers[0].wait()
"""


def test_any_of_several_workers_shows_the_sum_of_all_and_forgets_the_dead(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "counter_1.db").write_bytes(b"left by an earlier run")
    environ = {name: value for name, value in os.environ.items() if name != "PROMETHEUS_MULTIPROC_DIR"}
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PARENT), str(tmp_path / "metrics"), textwrap.dedent(WORKER)],
        capture_output=True, text=True, check=True, env=environ, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    both, alone = run.stdout.split("#" * 80)
    assert "grounding_requests_in_flight 2.0" in both
    assert "grounding_ledger_spool_depth 3.0" in both
    assert "grounding_ledger_oldest_seconds 2.0" in both
    assert "grounding_ledger_postgres_up 0.0" in both
    assert "grounding_requests_in_flight 1.0" in alone
    assert "grounding_ledger_spool_depth 1.0" in alone
    for text in (both, alone):
        assert "grounding_unrecorded_exchanges_total 2.0" in text
        assert 'grounding_stage_seconds_count{route="support",stage="total"} 2.0' in text

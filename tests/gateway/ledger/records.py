"""Records for the ledger's tests."""

from __future__ import annotations

import time
from typing import Any

from gateway.config.modes import BodyPolicy
from gateway.ledger.record import (
    AttemptRecord,
    CheckRecord,
    EvidenceRecord,
    ExchangeRecord,
    FactRecord,
    JudgeCallRecord,
    Opening,
    Outcome,
    SourceRecord,
)

SEVEN = [0.01, 0.02, 0.03, 0.04, 0.05, 0.8, 0.05]


def opening(exchange_id: str, **changes: Any) -> Opening:
    return Opening(**{"id": exchange_id, "created_at": time.time(), "route": "support", "path": "/v1/chat", **changes})


def plain_record(exchange_id: str, **changes: Any) -> ExchangeRecord:
    """A record without retrieval or check."""
    values = {
        "id": exchange_id,
        "created_at": time.time(),
        "route": "support",
        "path": "/v1/chat/completions",
        "outcome": Outcome.COMPLETED,
        "status": 200,
        "upstream": "main",
        "attempts": [AttemptRecord("main", 200, 0.1)],
        **changes,
    }
    return ExchangeRecord(**values)


def rich_record(exchange_id: str, **changes: Any) -> ExchangeRecord:
    """A record with every field set."""
    evidence = EvidenceRecord(1, "false", 0.8, SEVEN, 0.9, "ships on Mondays", 10, 26)
    facts = [
        FactRecord(
            0,
            "It ships on Sundays.",
            0,
            20,
            "failed",
            "false",
            None,
            SEVEN,
            0.8,
            ["When does it ship?"],
            [evidence, evidence],
            "refuted",
            {"hop": 1},
        ),
        FactRecord(1, "It is blue.", 21, 32, "not_checked", None, "no_evidence"),
    ]
    calls = [JudgeCallRecord("gpt", "gpt-9-mini-2026", "classify", '{"q": 1}', '{"a": 2}', 10, 20, 0.001, 0.5, "", 0)]
    check = CheckRecord(
        0, "fact_check", "failed", "annotate", None, "one_false", 0.8, "one fact is false", 0, facts, calls,
        {"classifier": "local-3"}, {"search": 0.01},
    )  # fmt: skip
    values: dict[str, Any] = {
        "id": exchange_id,
        "created_at": time.time(),
        "route": "support",
        "path": "/v1/chat/completions",
        "outcome": Outcome.COMPLETED,
        "status": 200,
        "key_id": "team-a",
        "request_id": "req-1",
        "model": "gpt-9",
        "upstream_model": "gpt-9-2026-10-01",
        "upstream": "main",
        "stream": True,
        "release": "held",
        "action": "annotate",
        "config_version": "c1",
        "body_policy": BodyPolicy.KEEP,
        "retrieval_status": "grounded",
        "retrieval_detail": "3 hits",
        "query": "when does it ship?",
        "check_status": "failed",
        "check_reason": None,
        "error_code": "",
        "error_message": "",
        "request_body": '{"messages": [{"role": "user", "content": "when does it ship?"}]}',
        "sent_body": '{"messages": [{"role": "user", "content": "PASSAGES when does it ship?"}]}',
        "answer_body": '{"choices": []}',
        "answer": {"0": "It ships on Sundays. It is blue."},
        "finish_reasons": {"0": "stop"},
        "usage": {"prompt_tokens": 5, "completion_tokens": 7},
        "seconds": {"total": 0.4, "upstream": 0.3},
        "sources": [
            SourceRecord(
                1,
                "doc",
                "doc#1",
                "Shipping",
                "https://docs/ship",
                0.83,
                0,
                40,
                "ab" * 32,
                "The parcel ships on Mondays.",
            ),
            SourceRecord(
                2,
                "doc",
                "doc#2",
                "Colours",
                "https://docs/colour",
                0.5,
                40,
                60,
                "cd" * 32,
                "It is red.",
                used_in_prompt=False,
            ),
        ],
        "checks": [check],
        "attempts": [AttemptRecord("spare", 503, 0.05, "upstream_status"), AttemptRecord("main", 200, 0.3)],
    }
    return ExchangeRecord(**{**values, **changes})

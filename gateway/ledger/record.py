"""What the ledger keeps: one `ExchangeRecord` per exchange, whatever happened. Pure values.

Bodies (prompt, answer, judge requests) are apart from the verdict, so that they can be erased while the verdict stays.
Credentials are never part of a record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from gateway.config.modes import BodyPolicy


class Outcome(StrEnum):
    """How an exchange ended. `interrupted` is set by replay for one that was opened and never completed."""

    COMPLETED = "completed"
    BLOCKED = "blocked"
    UPSTREAM_ERROR = "upstream_error"
    REQUEST_ERROR = "request_error"
    CLIENT_CLOSED = "client_closed"
    INTERNAL_ERROR = "internal_error"
    INTERRUPTED = "interrupted"


class Opening(msgspec.Struct, frozen=True, gc=False):
    """Written before the first byte leaves. `created_at` is UTC seconds since the epoch; with `id` it is the key."""

    id: str
    created_at: float
    route: str
    path: str
    key_id: str | None = None
    model: str | None = None
    stream: bool = False
    request_id: str | None = None


class SourceRecord(msgspec.Struct, frozen=True):
    """A passage put into the prompt, or seen as evidence, as it was then."""

    number: int
    document_id: str
    passage_id: str
    title: str
    url: str
    score: float
    start: int
    end: int
    sha256: str
    text: str = ""
    used_in_prompt: bool = True


class EvidenceRecord(msgspec.Struct, frozen=True):
    """One passage as judged for one fact; `source` is the number of a `SourceRecord`."""

    source: int
    label: str
    probability: float
    probabilities: list[float]
    score: float
    quote: str = ""
    quote_start: int = 0
    quote_end: int = 0


class FactRecord(msgspec.Struct, frozen=True):
    """A fact (or issue) with its verdict; `start`/`end` are code points of the choice's final content.

    `issue` says of an issue of a review where it points, how it was voted on, what its judges saw and what became of
    it; `detail` holds what may be erased: reasons, questions, quotes.
    """

    position: int
    text: str
    start: int
    end: int
    status: str
    label: str | None = None
    reason: str | None = None
    probabilities: list[float] | None = None
    score: float | None = None
    questions: list[str] = msgspec.field(default_factory=list)
    evidence: list[EvidenceRecord] = msgspec.field(default_factory=list)
    rule: str = ""
    detail: dict[str, Any] = msgspec.field(default_factory=dict)
    issue: dict[str, Any] | None = None


class JudgeCallRecord(msgspec.Struct, frozen=True):
    """A judge's call; `request` and `reply` follow the route's body policy."""

    judge: str
    model: str
    purpose: str
    request: str
    reply: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    seconds: float
    error: str = ""
    fact_position: int | None = None


class CheckRecord(msgspec.Struct, frozen=True):
    """A verdict for one choice. `attempt` counts from 0; a repaired answer has a second check with attempt 1.

    `details` says what else is worth keeping of the whole: of a review its repository, revision and formats.
    """

    choice: int
    kind: str
    status: str
    action: str
    reason: str | None = None
    rule: str = ""
    score: float | None = None
    detail: str = ""
    attempt: int = 0
    facts: list[FactRecord] = msgspec.field(default_factory=list)
    calls: list[JudgeCallRecord] = msgspec.field(default_factory=list)
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    seconds: dict[str, float] = msgspec.field(default_factory=dict)
    details: dict[str, Any] = msgspec.field(default_factory=dict)


class AttemptRecord(msgspec.Struct, frozen=True):
    """One try at an upstream."""

    upstream: str
    status: int | None
    seconds: float
    error: str = ""


class ExchangeRecord(msgspec.Struct, frozen=True):
    """Everything about one exchange. `status` is the HTTP status the client saw (499 when it had gone).

    `request_body`, `sent_body` (as the upstream got it) and `answer_body` are JSON texts under `body_policy`;
    `answer` maps a choice's index to its final text, for reading and search.
    """

    id: str
    created_at: float
    route: str
    path: str
    outcome: Outcome
    status: int
    key_id: str | None = None
    request_id: str | None = None
    model: str | None = None
    upstream_model: str | None = None
    upstream: str = ""
    stream: bool = False
    release: str = ""
    action: str = ""
    config_version: str = ""
    body_policy: BodyPolicy = BodyPolicy.KEEP
    retrieval_status: str = "off"
    retrieval_detail: str = ""
    query: str = ""
    check_status: str = "not_checked"
    check_reason: str | None = None
    error_code: str = ""
    error_message: str = ""
    request_body: str = ""
    sent_body: str = ""
    answer_body: str = ""
    answer: dict[str, str] = msgspec.field(default_factory=dict)
    finish_reasons: dict[str, str] = msgspec.field(default_factory=dict)
    usage: dict[str, Any] = msgspec.field(default_factory=dict)
    seconds: dict[str, float] = msgspec.field(default_factory=dict)
    sources: list[SourceRecord] = msgspec.field(default_factory=list)
    checks: list[CheckRecord] = msgspec.field(default_factory=list)
    attempts: list[AttemptRecord] = msgspec.field(default_factory=list)


class Receipt(StrEnum):
    """What became of a submission: on disk, or not (the spool is full or its disk is)."""

    SPOOLED = "spooled"
    UNRECORDED = "unrecorded"


@runtime_checkable
class Ledger(Protocol):
    """Where exchanges are recorded. `open` and `submit` never raise and never block the event loop for disk.

    Both return an awaitable of a `Receipt`; work goes on whether or not it is awaited. The edge awaits the opening's
    receipt before the first byte and the record's before the last one.
    """

    def accepting(self) -> bool:
        """False while the spool is past its bound or its disk refuses writes."""
        ...

    def open(self, opening: Opening) -> Awaitable[Receipt]: ...

    def submit(self, record: ExchangeRecord, *, provisional: bool = False) -> Awaitable[Receipt]:
        """Put the record on local disk. A provisional one (a detached check is still to come) stays in the spool until
        the final one of the same exchange replaces it; if this process dies first, it is recorded as it stands.
        """
        ...

    async def aopen(self) -> None: ...

    async def aclose(self) -> None: ...

    def stats(self) -> Mapping[str, float]:
        """Gauges for metrics: `spool_depth`, `spool_bytes`, `oldest_seconds`, `written_total`, `failed_total`, ..."""
        ...

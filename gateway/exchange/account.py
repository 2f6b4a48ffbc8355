"""What is known of an exchange at any moment, and the one record made of it.

Knows nothing of sending or streaming: the path tells it what happened, with times. A record can be made at any point,
so that an exchange which ends anywhere is recorded as far as it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import quote

from checks.types import Reason, Status, Verdict
from gateway.config.modes import Action
from gateway.errors import UpstreamError
from gateway.exchange.decide import Decision
from gateway.exchange.judge import overall
from gateway.exchange.parts import Call, RouteParts
from gateway.exchange.recording import check_record
from gateway.exchange.retrieve import Retrieval
from gateway.ledger.record import (
    AttemptRecord,
    CheckRecord,
    ExchangeRecord,
    Opening,
    Outcome,
    SourceRecord,
)
from gateway.upstream.base import Attempt
from gateway.wire import chat
from gateway.wire.annotations import Source, shown_evidence
from gateway.wire.fold import Fold
from gateway.wire.loose import content_text
from gateway.wire.types import Answer, ChatRequest, Delta
from retrieval.types import Hit, RetrievalStatus


class _Said(NamedTuple):
    """What a record keeps of an answer."""

    model: str | None
    body: str
    texts: dict[str, str]
    finish_reasons: dict[str, str]
    usage: dict[str, Any]


class Account:
    """The running account of one exchange. Times are seconds of the services' clock."""

    def __init__(self, parts: RouteParts, request: ChatRequest, call: Call, now: float) -> None:
        self.parts = parts
        self.request = request
        self.call = call
        self.started = now
        self.seconds: dict[str, float] = {}
        self.question = ""
        self.retrieval = Retrieval(RetrievalStatus.OFF, request)
        self.sources: list[Source] = []
        """What the prompt held, then the evidence that the verdicts show, by number."""
        self.verdicts: list[Verdict] = []
        self._judged: list[tuple[Verdict, int]] = []
        self.decision = Decision.PASS
        self.attempts: list[Attempt] = []
        self.fallback = False
        """The answer comes from a member of a pool that stands in for others."""
        self.sent = b""
        self.fold: Fold | None = None
        self.answer: Answer | None = None
        self._passed: Delta | None = None
        self.delivered: bytes | None = None
        self.outcome: Outcome | None = None
        self.http_status = 0
        self.error_code = ""
        self.error_message = ""

    # -- what happened -------------------------------------------------------------------------------------------------

    def retrieved(self, retrieval: Retrieval, question: str, now: float) -> None:
        """Retrieval ended, whatever came of it."""
        self.retrieval = retrieval
        self.question = question
        if retrieval.status is not RetrievalStatus.OFF:
            self.seconds["retrieval"] = now - self.started
        for hit in retrieval.hits:
            self._add_source(self.sources, hit, in_prompt=True)

    def answered(self, attempts: Sequence[Attempt], now: float, *, fallback: bool = False) -> None:
        """The upstream's headers came."""
        self.attempts.extend(attempts)
        self.fallback = fallback
        self.seconds.setdefault("first_byte", now - self.started)

    def failed(self, error: UpstreamError) -> None:
        """The upstream failed: before its answer began, or in the middle of it."""
        name = self.parts.upstream.name
        if error.tries or not self.attempts:
            self.attempts.extend(Attempt(*one) for one in error.tries or ((name, None, 0.0, error.code),))
        else:
            self.attempts[-1] = replace(self.attempts[-1], error=error.code)

    def folded(self, answer: Answer, now: float) -> None:
        """The upstream's answer is complete, or as complete as it will get."""
        self.answer = answer
        self.seconds["upstream"] = now - self.started - self.seconds.get("retrieval", 0.0)

    def passed_on(self, whole: Delta, now: float) -> None:
        """The upstream's answer is complete, and went to the client as it was: one choice in one body."""
        self._passed = whole
        self.seconds["upstream"] = now - self.started

    def judged(self, verdicts: Sequence[Verdict], decision: Decision, *, attempt: int, now: float) -> None:
        """A check ended with this decision."""
        self.verdicts = list(verdicts)
        self.decision = decision
        upstream_end = self.seconds.get("upstream", 0.0) + self.seconds.get("retrieval", 0.0)
        self.seconds["check"] = max(0.0, now - self.started - upstream_end)
        for verdict in verdicts:
            for fact in verdict.facts:
                for evidence in shown_evidence(fact):
                    self._add_source(self.sources, Hit(evidence.passage, evidence.score), in_prompt=False)
        self._judged.extend((verdict, attempt) for verdict in verdicts)

    def ended(self, outcome: Outcome, status: int, code: str = "", message: str = "") -> None:
        """How the exchange ended; the first word counts."""
        if self.outcome is None:
            self.outcome, self.http_status, self.error_code, self.error_message = outcome, status, code, message

    # What the `grounding` object says of an exchange (gateway.wire.annotations.Exchanged).

    @property
    def exchange_id(self) -> str:
        return self.call.id

    @property
    def route(self) -> str:
        return self.parts.name

    @property
    def retrieval_status(self) -> str:
        return self.retrieval.status.value

    @property
    def answered_by(self) -> tuple[str, bool] | None:
        """Who of a pool answered, and whether as a stand-in; None on routes with one upstream."""
        if not self.attempts or self.attempts[-1].error or self.attempts[-1].upstream == self.parts.upstream.name:
            return None
        return self.attempts[-1].upstream, self.fallback

    @property
    def action(self) -> str:
        """What was done about the verdicts; `none` when nothing had to be."""
        if self.decision is not Decision.PASS:
            return self.decision.value
        return "none" if all(v.status is Status.PASSED for v in self.verdicts) else Action.ANNOTATE.value

    @property
    def check_status(self) -> tuple[str, str | None]:
        """Status of the answer and its reason; the latest verdicts count."""
        return overall(self.verdicts)

    # -- the record ----------------------------------------------------------------------------------------------------

    def opening(self) -> Opening:
        """What is written before the first byte leaves."""
        call = self.call
        return Opening(
            id=call.id,
            created_at=call.created_at,
            route=self.parts.name,
            path=call.path,
            key_id=call.key_id,
            model=self.request.model,
            stream=self.request.stream,
            request_id=call.request_id,
        )

    def record(self, now: float) -> ExchangeRecord:
        """The record of the exchange as it stands."""
        call, said = self.call, self._said()
        status, reason = self._final_status()
        self.seconds["total"] = now - self.started
        differs = self.sent_differs
        sources = self._all_sources()
        return ExchangeRecord(
            id=call.id,
            created_at=call.created_at,
            route=self.parts.name,
            path=call.path,
            outcome=self.outcome or Outcome.INTERNAL_ERROR,
            status=self.http_status,
            key_id=call.key_id,
            request_id=call.request_id,
            model=self.request.model,
            upstream_model=said.model,
            upstream=self.attempts[-1].upstream if self.attempts else self.parts.upstream.name,
            stream=self.request.stream,
            release=call.release.value,
            action=call.action.value,
            config_version=self.parts.config_version,
            body_policy=self.parts.config.bodies,
            retrieval_status=self.retrieval.status.value,
            retrieval_detail=self.retrieval.detail,
            query=self.retrieval.query or self.question,
            check_status=status,
            check_reason=reason,
            error_code=self.error_code,
            error_message=self.error_message,
            request_body=chat.request_text(self.request) if differs or not self.sent else self.sent.decode(),
            sent_body=self.sent.decode("utf-8", "replace") if differs else "",
            answer_body=said.body,
            answer=said.texts,
            finish_reasons=said.finish_reasons,
            usage=said.usage,
            seconds=self.seconds,
            sources=[self._source_record(source) for source in sources],
            checks=self._check_records({source.hit.passage.id: source.number for source in sources}),
            attempts=[AttemptRecord(a.upstream, a.status, a.seconds, a.error) for a in self.attempts],
        )

    @property
    def sent_differs(self) -> bool:
        """The upstream got another body than the client sent: grounded, renamed, or without our options."""
        renamed = self.call.upstream_model is not None
        return self.retrieval.status is not RetrievalStatus.OFF or renamed or self.counted

    @property
    def counted(self) -> bool:
        """The upstream has to tell what a stream used, whether or not the client asked for that."""
        return self.request.stream and self.call.grant is not None and self.call.grant.counts_tokens

    def _said(self) -> _Said:
        """The answer, or what had come of it when it ended early."""
        if self._passed is not None:
            view = self._passed.view
            assert view.choices
            choice = view.choices[0]
            text = content_text(choice.message.content)[0] if choice.message and choice.message.content else ""
            return _Said(
                model=view.model,
                body=self._passed.data.decode("utf-8", "replace"),
                texts={str(choice.index): text},
                finish_reasons={str(choice.index): choice.finish_reason} if choice.finish_reason else {},
                usage=view.usage or {},
            )
        if self.answer is None and self.fold is not None:
            self.answer = self.fold.answer()
        answer = self.answer or Answer()
        model = answer.envelope.get("model")
        return _Said(
            model=model if isinstance(model, str) else None,
            body=self._answer_body(),
            texts={str(i): c.content or "" for i, c in answer.choices.items()},
            finish_reasons={str(i): c.finish_reason for i, c in answer.choices.items() if c.finish_reason},
            usage=answer.usage or {},
        )

    def _final_status(self) -> tuple[str, str | None]:
        """Status and reason. A check that never came to its end is not a check that was switched off."""
        if self.verdicts or self.parts.check is None or not self.call.check:
            return self.check_status
        closed = self.outcome is Outcome.CLIENT_CLOSED
        return Status.NOT_CHECKED.value, (Reason.CLIENT_CLOSED if closed else Reason.JUDGE_UNAVAILABLE).value

    def _check_records(self, numbers: Mapping[str, int]) -> list[CheckRecord]:
        """Every verdict with what was done about it: all attempts but the last were followed by a repair."""
        if not self._judged:
            return []
        last = max((attempt for _, attempt in self._judged), default=0)
        return [
            check_record(verdict, attempt, self.action if attempt == last else Decision.REPAIR.value, numbers)
            for verdict, attempt in self._judged
        ]

    def _answer_body(self) -> str:
        if self.delivered is not None:
            return self.delivered.decode("utf-8", "replace")
        if self.answer is None:
            return ""
        return chat.completion(self.answer).decode("utf-8", "replace")

    def _all_sources(self) -> list[Source]:
        """The sources in order, then the evidence that no answer shows, numbered on."""
        if not self._judged:
            return self.sources
        sources = list(self.sources)
        for verdict, _ in self._judged:
            for fact in verdict.facts:
                for evidence in fact.evidence:
                    self._add_source(sources, Hit(evidence.passage, evidence.score), in_prompt=False)
        return sources

    def _add_source(self, sources: list[Source], hit: Hit, *, in_prompt: bool) -> None:
        passage = hit.passage
        if any(source.hit.passage.id == passage.id for source in sources):
            return
        url = passage.url or f"{self.call.source_base}/v1/sources/{quote(passage.id, safe='')}"
        sources.append(Source(number=len(sources) + 1, hit=hit, url=url, in_prompt=in_prompt))

    def _source_record(self, source: Source) -> SourceRecord:
        passage = source.hit.passage
        return SourceRecord(
            number=source.number,
            document_id=passage.document_id,
            passage_id=passage.id,
            title=source.title,
            url=source.url,
            score=source.hit.score,
            start=passage.start,
            end=passage.end,
            sha256=passage.sha256,
            text=passage.text,
            used_in_prompt=source.in_prompt,
        )

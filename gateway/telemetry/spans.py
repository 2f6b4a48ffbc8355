"""What a trace says of an exchange: spans made from its record once it has ended. Pure; no text of prompts or answers.

    POST /v1/chat/completions          the exchange, as a server
      retrieval                        the search for the prompt's passages
      chat <model>                     the call of the upstream, as a client; retries and repairs within
      fact_check                       each check, with its verdict as an event
        chat <judge's model>           each call of a judge

Names and attributes follow OpenTelemetry's semantic conventions for HTTP and generative AI
(https://opentelemetry.io/docs/specs/semconv/gen-ai/); ours begin with `grounding.`. The record holds no start of a
judge's call, so these spans begin with their check and only their length is exact. Times are nanoseconds since the
epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gateway.telemetry.trace_context import TraceContext
from gateway.telemetry.views import TracedCallView, TracedCheckView, TracedExchangeView, tokens

Attributes = Mapping[str, str | bool | int | float | Sequence[str]]

_FINE_REASONS: Final = frozenset({"no_facts", "disabled", "client_closed", "unsupported_content", None})
_MOST_CALLS: Final = 128
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span. `id` and `parent_id` are 64 bits; `error` is the reason of a failure, "" for none."""

    name: str
    kind: Literal["server", "client", "internal"]
    id: int
    parent_id: int | None
    start_ns: int
    end_ns: int
    attributes: Attributes
    error: str = ""
    events: Sequence[tuple[str, int, Attributes]] = field(default=())


def must_keep(record: TracedExchangeView) -> bool:
    """Whether the exchange went wrong in a way that somebody will ask about: its trace is kept whatever the sampling.

    That is: it did not complete (but for a client that left), its check failed or could not be made, its documents
    could not be searched, or a try at its upstream failed.
    """
    return (
        record.outcome not in ("completed", "client_closed")
        or record.check_status == "failed"
        or record.check_reason not in _FINE_REASONS
        or record.retrieval_status == "failed"
        or any(attempt.error for attempt in record.attempts)
    )


def spans_of(record: TracedExchangeView, context: TraceContext) -> Iterator[Span]:
    """The exchange's spans, the outermost first."""
    clock = _Clock(record)
    yield _exchange(record, context, clock)
    if "retrieval" in record.seconds:
        attributes: Attributes = {
            "gen_ai.operation.name": "retrieval",
            "grounding.retrieval.status": record.retrieval_status,
            "grounding.retrieval.passages": len(record.sources),
        }
        error = "retrieval_failed" if record.retrieval_status == "failed" else ""
        yield _inner("retrieval", context, 1, clock.start, clock.retrieved, attributes, error)
    if record.attempts:
        yield _upstream(record, context, clock)
    for number, check in enumerate(record.checks):
        yield from _check(check, context, 2 + number, clock)


class _Clock:
    """When the stages of an exchange began and ended."""

    def __init__(self, record: TracedExchangeView) -> None:
        seconds = record.seconds
        self.start = int(record.created_at * _NS)
        self.retrieved = self.after(self.start, seconds.get("retrieval", 0.0))
        self.first_byte = self.after(self.start, seconds.get("first_byte", 0.0))
        self.end = self.after(self.start, seconds.get("total", 0.0))
        # An exchange that broke off in its upstream has no time for it: it lasted to the end.
        upstream = seconds.get("upstream")
        self.folded = self.end if upstream is None else self.after(self.retrieved, upstream)
        self.checked = self.after(self.folded, seconds.get("check", 0.0))

    @staticmethod
    def after(moment: int, seconds: float) -> int:
        return moment + int(seconds * _NS)


def _exchange(record: TracedExchangeView, context: TraceContext, clock: _Clock) -> Span:
    attributes: dict[str, Any] = {
        "http.request.method": "POST",
        "url.path": record.path,
        "http.response.status_code": record.status,
        "grounding.exchange_id": record.id,
        "grounding.route": record.route,
        "grounding.outcome": record.outcome,
        "grounding.release": record.release,
        "grounding.action": record.action,
        "grounding.retrieval.status": record.retrieval_status,
        "grounding.check.status": record.check_status,
        **_given("grounding.check.reason", record.check_reason),
        **_given("grounding.key_id", record.key_id),
    }
    # By the conventions a server's span is an error for 5xx only; what a client did wrong is none of ours.
    failed = record.status >= 500 or record.outcome in ("internal_error", "interrupted")
    error = (record.error_code or str(record.status)) if failed else ""
    if error:
        attributes["error.type"] = error
    return Span(
        name=f"POST {record.path}",
        kind="server",
        id=context.span_id,
        parent_id=context.parent_id,
        start_ns=clock.start,
        end_ns=clock.end,
        attributes=attributes,
        error=error,
    )


def _upstream(record: TracedExchangeView, context: TraceContext, clock: _Clock) -> Span:
    prompt, cached, completion = tokens(record.usage)
    last = record.attempts[-1]
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": record.upstream,
        **_given("gen_ai.request.model", record.model),
        **_given("gen_ai.response.model", record.upstream_model),
        **_given("gen_ai.response.finish_reasons", tuple(record.finish_reasons.values()) or None),
        **_given("gen_ai.usage.input_tokens", prompt or None),
        **_given("gen_ai.usage.output_tokens", completion or None),
        **_given("gen_ai.usage.cache_read.input_tokens", cached or None),
        **_given("http.response.status_code", last.status),
        **_given("http.request.resend_count", len(record.attempts) - 1 or None),
        "grounding.stream": record.stream,
    }
    if last.error:
        attributes["error.type"] = last.error
    events: list[tuple[str, int, Attributes]] = [
        (
            "grounding.upstream.failed_try",
            clock.retrieved,
            {"error.type": attempt.error, "grounding.seconds": attempt.seconds},
        )
        for attempt in record.attempts
        if attempt.error
    ]
    if "first_byte" in record.seconds:
        events.append(("grounding.upstream.first_byte", clock.first_byte, {}))
    return Span(
        name=f"chat {record.model}" if record.model else "chat",
        kind="client",
        id=context.upstream_id,
        parent_id=context.span_id,
        start_ns=clock.retrieved,
        end_ns=clock.folded,
        attributes=attributes,
        error=last.error,
        events=events,
    )


def _check(check: TracedCheckView, context: TraceContext, number: int, clock: _Clock) -> Iterator[Span]:
    attributes: dict[str, Any] = {
        "grounding.check.kind": check.kind,
        "grounding.check.status": check.status,
        "grounding.check.action": check.action,
        "grounding.check.facts": len(check.facts),
        "grounding.check.facts_failed": sum(fact.status == "failed" for fact in check.facts),
        **_given("grounding.check.reason", check.reason),
        **{f"grounding.check.seconds.{step}": seconds for step, seconds in check.seconds.items()},
    }
    result: dict[str, Any] = {
        "gen_ai.evaluation.name": check.kind,
        "gen_ai.evaluation.score.label": check.status,
        **_given("gen_ai.evaluation.score.value", check.score),
        **_given("gen_ai.evaluation.explanation", check.rule or None),
    }
    error = check.reason or "" if check.status == "not_checked" and check.reason not in _FINE_REASONS else ""
    if error:
        attributes["error.type"] = error
    outer = _inner(check.kind, context, number, clock.folded, clock.checked, attributes, error)
    events = [("gen_ai.evaluation.result", clock.checked, result)]
    yield Span(
        name=outer.name,
        kind="internal",
        id=outer.id,
        parent_id=outer.parent_id,
        start_ns=outer.start_ns,
        end_ns=outer.end_ns,
        attributes=attributes,
        error=error,
        events=events,
    )
    for position, call in enumerate(check.calls[:_MOST_CALLS]):
        yield _judge_call(call, outer.id, (number << 16) + position, clock)


def _judge_call(call: TracedCallView, parent_id: int, number: int, clock: _Clock) -> Span:
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.judge,
        "gen_ai.request.model": call.model,
        "gen_ai.usage.input_tokens": call.prompt_tokens,
        "gen_ai.usage.output_tokens": call.completion_tokens,
        "grounding.judge.purpose": call.purpose,
        **_given("grounding.judge.cost_usd", call.cost_usd),
        **_given("error.type", call.error or None),
    }
    return Span(
        name=f"chat {call.model}",
        kind="client",
        id=_derived(parent_id, number),
        parent_id=parent_id,
        start_ns=clock.folded,
        end_ns=clock.after(clock.folded, call.seconds or 0.0),
        attributes=attributes,
        error=call.error,
    )


def _inner(
    name: str, context: TraceContext, number: int, start_ns: int, end_ns: int, attributes: Attributes, error: str
) -> Span:
    return Span(
        name=name,
        kind="internal",
        id=_derived(context.span_id, number),
        parent_id=context.span_id,
        start_ns=start_ns,
        end_ns=end_ns,
        attributes=attributes,
        error=error,
    )


def _derived(span_id: int, number: int) -> int:
    """The id of a span within another: as good as random where that one is, and never zero (a step of splitmix64)."""
    mixed = (span_id + number * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    return (mixed ^ (mixed >> 27)) or 1


def _given(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}

"""Prometheus metrics of one process, or of several behind one port.

With one worker every metric lives in this object's own registry. With several, the files of prometheus-client's
multi-process mode hold them (`share_between_workers` before the workers start), and any worker renders the sum of all.
Labels come from the configuration and from fixed lists, never from a request, so their number is bounded.
"""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from checks.types import Status, Verdict
from gateway.telemetry.breakers import BreakerGauge
from gateway.telemetry.views import CheckView, ExchangeView, tokens

_DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SHARES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
# The exchange reports these two itself as they end, also where no record follows.
_REPORTED: Final = frozenset({"retrieval", "check"})
# Issues that the share of dropped ones remembers.
_WINDOW: Final = 200
_WATCHED: Final = "As the part itself counts it."
_Combine = Literal["livesum", "livemax", "livemin", "livemostrecent"]
_COMBINE: Final[Mapping[str, _Combine]] = {
    "oldest_seconds": "livemax",
    "accepting": "livemin",
    "postgres_up": "livemin",
}


def share_between_workers(directory: Path) -> None:
    """Make the workers started from now on share their metrics through files in `directory`, which is emptied.

    Works through the environment, because prometheus-client looks there once, when a worker imports it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for file in directory.glob("*.db"):
        file.unlink()
    os.environ[_DIRECTORY] = str(directory)


def _forget_ended_workers(directory: Path) -> None:
    """Drop the gauges of workers that have ended, however they did. Counters stay."""
    for file in directory.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid, str(directory))  # type: ignore[no-untyped-call]
        except PermissionError:
            continue


_M = TypeVar("_M", Counter, Gauge, Histogram)


class _Family(Generic[_M]):
    """A metric with its children cached: finding one anew takes a lock and a conversion of every label."""

    __slots__ = ("_children", "_metric")

    def __init__(self, metric: _M) -> None:
        self._metric: _M = metric
        self._children: dict[tuple[str | int, ...], _M] = {}

    def __call__(self, *labels: str | int) -> _M:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._metric.labels(*labels)
        return child


_Counts: TypeAlias = "defaultdict[tuple[Any, ...], float]"


def _observe_all(histogram: Histogram, values: Sequence[float]) -> None:
    """What `observe` does, for many values at once: its loop over the buckets is most of an exchange's metrics."""
    histogram._sum.inc(sum(values))
    bounds, buckets = histogram._upper_bounds, histogram._buckets
    for value in values:
        buckets[bisect_left(bounds, value)].inc(1)


class Metrics:
    """All metrics of this process. Each method is one event; a whole exchange costs some microseconds."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._watched: list[tuple[str, Callable[[], Mapping[str, float]]]] = []
        self.before_refresh: Callable[[], None] = lambda: None
        """Called first by `refresh`: who keeps events back for a moment tells of them now."""
        self.breakers = BreakerGauge(registry)
        self.shared = _DIRECTORY in os.environ
        """Other workers' metrics are added to these in a scrape."""
        self._now_in_flight = 0
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, tuple[Counter, float]] = {}

        def counter(name: str, about: str, *labels: str) -> _Family[Counter]:
            return _Family(Counter(f"grounding_{name}", about, labels, registry=registry))

        def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> _Family[Histogram]:
            return _Family(Histogram(f"grounding_{name}", about, labels, buckets=buckets, registry=registry))

        def gauge(name: str, about: str, mode: _Combine, *labels: str) -> Gauge:
            return Gauge(f"grounding_{name}", about, labels, registry=registry, multiprocess_mode=mode)

        self._in_flight = gauge("requests_in_flight", "Requests being served.", "livesum")
        self._exchanges = counter("exchanges", "Exchanges by how they ended.", "route", "outcome", "status")
        self._stages = histogram("stage_seconds", "Time per stage of an exchange.", _SECONDS, "route", "stage")
        self._retrievals = counter("retrievals", "Retrievals by status.", "route", "status")
        self._verdicts = counter("verdicts", "Verdicts on choices.", "route", "kind", "status")
        self._not_checked = counter("not_checked", "Why choices were not checked.", "route", "kind", "reason")
        self._facts = counter("facts", "Facts and issues by label.", "route", "kind", "label", "status")
        self._issues = counter("issues", "Issues of code reviews by label and action.", "route", "label", "action")
        self._emptied = counter("reviews_emptied", "Reviews of which the check drops every issue.", "route")
        about = f"Share of dropped issues, over the last {_WINDOW} or so."
        self._drop_share = gauge("issue_drop_share", about, "livemostrecent", "route")
        self._drops: dict[str, tuple[float, int]] = {}
        about = "1 while a route's facts do not look like those of its calibration."
        self._drifted = gauge("scores_drifted", about, "livemax", "route")
        self._attempts = counter("upstream_attempts", "Tries at upstreams.", "upstream")
        self._upstream_errors = counter("upstream_errors", "Failed tries at upstreams.", "upstream", "code")
        self._tokens = counter("tokens", "Tokens as the upstream counted them.", "route", "kind")
        self._cached = histogram(
            "cached_token_share", "Share of an exchange's prompt that the upstream's cache held.", _SHARES, "route"
        )
        self._judge_calls = counter("judge_calls", "Calls of judges.", "judge", "purpose", "outcome")
        self._judge_tokens = counter("judge_tokens", "Tokens of judges.", "judge", "kind")
        self._judge_cost = counter("judge_cost_usd", "Cost of judges in USD, where prices are configured.", "judge")
        self._problems = counter("problems", "Things that failed and were worked around or reported.", "event")
        self._reloads = counter("config_reloads", "Reloads of the configuration.", "result")
        about = "Exchanges that could not be recorded."
        self._unrecorded = Counter("grounding_unrecorded_exchanges", about, registry=registry)

    # -- events --------------------------------------------------------------------------------------------------------

    def entered(self) -> None:
        """A request was admitted."""
        self._now_in_flight += 1

    def left(self) -> None:
        """An admitted request has ended."""
        self._now_in_flight -= 1

    def stage(self, route: str, stage: str, seconds: float) -> None:
        """A stage of an exchange took so long."""
        self._stages(route, stage).observe(seconds)

    def verdict(self, route: str, verdict: Verdict) -> None:
        """A verdict on one choice: its status, why it is none, its facts' labels, the time of each of its steps."""
        kind = verdict.kind
        self._verdicts(route, kind, verdict.status).inc()
        if verdict.status is Status.NOT_CHECKED and verdict.reason is not None:
            self._not_checked(route, kind, verdict.reason).inc()
        for fact in verdict.facts:
            self._facts(route, kind, fact.label or "none", fact.status).inc()
        if verdict.issues:
            self._count_issues(route, verdict)
        for step, seconds in verdict.seconds.items():
            self._stages(route, f"check.{step}").observe(seconds)

    def _count_issues(self, route: str, verdict: Verdict) -> None:
        """Issues by what became of them. Dropped is what the check says so of, also where the route only records it."""
        share, count = self._drops.get(route, (0.0, 0))
        for issue in verdict.issues:
            label = issue.label or "none"
            self._facts(route, verdict.kind, label, issue.status).inc()
            self._issues(route, label, issue.action).inc()
            count = min(count + 1, _WINDOW)
            share += ((issue.action == "drop") - share) / count
        self._drops[route] = share, count
        self._drop_share.labels(route).set(share)
        if all(issue.action == "drop" for issue in verdict.issues):
            self._emptied(route).inc()

    def drift(self, route: str, *, drifted: bool) -> None:
        """Whether a route's facts have drifted away from its calibration."""
        self._drifted.labels(route).set(drifted)

    def exchange(self, record: ExchangeView) -> None:
        """An exchange has ended."""
        self.exchanges([record])

    def exchanges(self, records: Sequence[ExchangeView]) -> None:
        """Exchanges have ended. Equal ones are counted together."""
        counts: _Counts = defaultdict(float)
        observed: dict[tuple[str, str], list[float]] = {}
        for record in records:
            route = record.route
            counts[self._exchanges, route, record.outcome, record.status] += 1
            counts[self._retrievals, route, record.retrieval_status] += 1
            for stage, seconds in record.seconds.items():
                if stage not in _REPORTED:
                    observed.setdefault((route, stage), []).append(seconds)
            for attempt in record.attempts:
                counts[self._attempts, attempt.upstream] += 1
                if attempt.error:
                    counts[self._upstream_errors, attempt.upstream, attempt.error] += 1
            if record.usage:
                self._count_tokens(counts, route, record)
            for check in record.checks:
                self._count_calls(check)
        for (family, *labels), count in counts.items():
            family(*labels).inc(count)
        for (route, stage), values in observed.items():
            _observe_all(self._stages(route, stage), values)

    def _count_tokens(self, counts: _Counts, route: str, record: ExchangeView) -> None:
        prompt, cached, completion = tokens(record.usage)
        if completion:
            counts[self._tokens, route, "completion"] += completion
        if prompt:
            counts[self._tokens, route, "prompt"] += prompt
            if cached:
                counts[self._tokens, route, "cached"] += cached
            _observe_all(self._cached(route), [min(1.0, cached / prompt)])

    def _count_calls(self, check: CheckView) -> None:
        for call in check.calls:
            self._judge_calls(call.judge, call.purpose, "error" if call.error else "ok").inc()
            self._judge_tokens(call.judge, "prompt").inc(call.prompt_tokens)
            self._judge_tokens(call.judge, "completion").inc(call.completion_tokens)
            if call.cost_usd:
                self._judge_cost(call.judge).inc(call.cost_usd)

    def problem(self, event: str) -> None:
        """Something failed; `event` is the name it has in the log."""
        self._problems(event).inc()

    def reloaded(self, *, accepted: bool) -> None:
        """A changed configuration was put in force, or refused."""
        self._reloads("accepted" if accepted else "refused").inc()

    def unrecorded(self) -> None:
        """An exchange could not be recorded."""
        self._unrecorded.inc()

    # -- gauges kept elsewhere -----------------------------------------------------------------------------------------

    def watch(self, prefix: str, stats: Callable[[], Mapping[str, float]]) -> None:
        """Show numbers kept elsewhere as `grounding_<prefix>_<name>`; names ending in `_total` are counters."""
        self._watched.append((prefix, stats))

    def refresh(self) -> None:
        """Read every watched number now. Rendering does so for its own process."""
        self.before_refresh()
        self._in_flight.set(self._now_in_flight)
        self.breakers.refresh()
        for prefix, stats in self._watched:
            for name, value in stats().items():
                if name.endswith("_total"):
                    self._raise_counter(f"grounding_{prefix}_{name}", value)
                else:
                    self._gauge(f"grounding_{prefix}_{name}", _COMBINE.get(name, "livesum")).set(value)

    async def keep_fresh(self, interval_s: float = 2.0) -> None:
        """Refresh until cancelled, so that another worker's rendering finds recent numbers."""
        while True:
            self.refresh()
            await asyncio.sleep(interval_s)

    def _gauge(self, name: str, combine: _Combine) -> Gauge:
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = Gauge(name, _WATCHED, registry=self._registry, multiprocess_mode=combine)
            self._gauges[name] = gauge
        return gauge

    def _raise_counter(self, name: str, value: float) -> None:
        known = self._counters.get(name)
        counter, last = known or (Counter(name.removesuffix("_total"), _WATCHED, registry=self._registry), 0.0)
        counter.inc(max(0.0, value - last))
        self._counters[name] = (counter, value)

    # -- out -----------------------------------------------------------------------------------------------------------

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition for a scrape and its content type, in the format the `Accept` header asks for."""
        self.refresh()
        encode, content_type = choose_encoder(accept)
        registry = self._registry
        directory = os.environ.get(_DIRECTORY)
        if directory:
            _forget_ended_workers(Path(directory))
            registry = CollectorRegistry()
            MultiProcessCollector(registry, directory)  # type: ignore[no-untyped-call]
        return encode(registry), content_type

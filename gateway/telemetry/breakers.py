"""The gauge of circuit breakers. Knows their names and numbers, not what they guard."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Gauge

States = Mapping[tuple[str, str], float]
"""State by pool and member: 0 closed, 1 half-open, 2 open."""


class BreakerGauge:
    """`grounding_upstream_breaker_state`. Where workers share their metrics, the worst of theirs is shown."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauge = Gauge(
            "grounding_upstream_breaker_state",
            "Breakers of pool members: 0 closed, 1 half-open, 2 open; the worst of all workers.",
            ["pool", "upstream"],
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._shown: set[tuple[str, str]] = set()
        self.states: Callable[[], States] = dict

    def refresh(self) -> None:
        """Read every state now."""
        states = self.states()
        for labels in self._shown - states.keys():
            self._gauge.labels(*labels).set(0)  # of a configuration that is not in force any more
        for labels, state in states.items():
            self._gauge.labels(*labels).set(state)
        self._shown |= states.keys()

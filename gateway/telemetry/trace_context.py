"""W3C trace context: which trace an exchange belongs to, told by its caller and told to its upstream. Pure.

https://www.w3.org/TR/trace-context/ (version 00). Chance comes in as an argument; spans' contents are unknown here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

_HEADER: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1
_MOST: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class TraceContext:
    """One exchange's place in a trace: 128 and 64 bit ids.

    `span_id` is the exchange's own span, `upstream_id` that of its call of the model, which the upstream sees as its
    parent. `parent_id` is the caller's span, None without a caller that takes part. `sampled` says that the trace is
    kept whatever becomes of the exchange.
    """

    trace_id: int
    span_id: int
    upstream_id: int
    parent_id: int | None
    sampled: bool

    @property
    def traceparent(self) -> str:
        """The header for the upstream."""
        return f"00-{self.trace_id:032x}-{self.upstream_id:016x}-{_SAMPLED if self.sampled else 0:02x}"


def begin(headers: Mapping[str, str], ratio: float, bits: Callable[[int], int]) -> TraceContext:
    """The context of an exchange whose request has these headers (lower-case names). `bits(n)` gives n random bits.

    A caller's sampling decision holds. Without one, the share `ratio` of traces is sampled, decided by the trace's id,
    as OpenTelemetry's TraceIdRatioBased does, so that everybody who asks the same way decides the same.
    """
    parent = parse(headers.get(TRACEPARENT, ""))
    if parent is None:
        trace_id = _some(128, bits)
        parent_id, sampled = None, (trace_id & (2 * _MOST - 1)) < ratio * 2 * _MOST
    else:
        trace_id, parent_id, sampled = parent
    return TraceContext(trace_id, _some(64, bits), _some(64, bits), parent_id, sampled)


def parse(header: str) -> tuple[int, int, bool] | None:
    """Trace id, the caller's span id, its sampling decision; None for a header that is to be ignored."""
    found = _HEADER.fullmatch(header.strip())
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    trace_id, span_id = int(trace, 16), int(span, 16)
    if version == "ff" or not trace_id or not span_id or (version == "00" and more):
        return None
    return trace_id, span_id, bool(int(flags, 16) & _SAMPLED)


def outgoing(context: TraceContext, headers: Mapping[str, str]) -> dict[str, str]:
    """A request's headers with the context in place of the caller's; `tracestate` goes on where it belongs to it."""
    passed = dict(headers)
    if context.parent_id is None:
        passed.pop(TRACESTATE, None)
    passed[TRACEPARENT] = context.traceparent
    return passed


def _some(count: int, bits: Callable[[int], int]) -> int:
    """Random bits that are not all zero, which no id may be."""
    return bits(count) or 1

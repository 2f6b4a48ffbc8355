"""What a failed try means for a pool: whether another upstream may do better, and what it says of this one. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.errors import (
    RequestError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
)
from gateway.upstream.retrying import hinted_s

LONGEST_REST_S: Final = 600.0
"""A server that asks to be left alone for longer is tried again after this."""

# What servers say when a prompt does not fit: OpenAI's code; OpenAI and vLLM; Anthropic; llama.cpp; Azure and others.
_TOO_LONG: Final = re.compile(
    rb"context_length_exceeded|maximum context length|prompt is too long|exceed(?:s|ed)? the (?:available )?context|"
    rb"exceed_context_size|context window|input is too long",
    re.IGNORECASE,
)


class Cause(StrEnum):
    """Why a try failed, beside a status that the policy lists."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    BROKEN_ANSWER = "broken_answer"
    CONTEXT_LENGTH = "context_length"


@dataclass(frozen=True, slots=True)
class Meaning:
    """`goes_on`: another upstream may be asked. `ill`: it counts against this one. `final`: this one is not asked again
    for this request. `rest_s`: the seconds it asked to be left alone for."""

    goes_on: bool
    ill: bool = False
    final: bool = False
    rest_s: float | None = None


def meaning(
    error: UpstreamError | RequestError, statuses: frozenset[int], causes: frozenset[Cause], now: float
) -> Meaning:
    """What an error of one try means under a policy of statuses and causes; `now` is Unix time."""
    if isinstance(error, RequestError):
        return Meaning(goes_on=True, final=True)  # what this one cannot carry another may
    if isinstance(error, UpstreamStatusError):
        return _of_status(error, statuses, causes, now)
    if isinstance(error, UpstreamTimeoutError):
        cause = Cause.TIMEOUT
    elif isinstance(error, UpstreamUnreachableError):
        cause = Cause.CONNECTION
    elif isinstance(error, UpstreamProtocolError):
        if _TOO_LONG.search(error.body):
            return Meaning(Cause.CONTEXT_LENGTH in causes, final=True)
        cause = Cause.BROKEN_ANSWER
    else:
        return Meaning(goes_on=False)
    return Meaning(cause in causes, ill=True)


def _of_status(error: UpstreamStatusError, statuses: frozenset[int], causes: frozenset[Cause], now: float) -> Meaning:
    status, headers = error.upstream_status, error.headers
    if status in (400, 413, 422) and _TOO_LONG.search(error.body):
        return Meaning(Cause.CONTEXT_LENGTH in causes, final=True)
    if status not in statuses:
        return Meaning(goes_on=False)
    rest_s = _rest_s(headers, now)
    return Meaning(goes_on=True, ill=rest_s is None, final=headers.get("x-should-retry") == "false", rest_s=rest_s)


def _rest_s(headers: Mapping[str, str], now: float) -> float | None:
    hint = hinted_s(headers, now)
    return None if hint is None else min(hint, LONGEST_REST_S)

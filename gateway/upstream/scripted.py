"""A double that ships: an upstream that says what it is told to, for tests of anything above it.

It waits only for what the script awaits, never for a clock, and knows no network.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import msgspec

from gateway.errors import RequestError
from gateway.upstream.base import Attempt, RawReply, UpstreamReply, UpstreamRequest
from gateway.wire.chat import parse_delta
from gateway.wire.types import Delta

Step = bytes | dict[str, Any] | Delta | Exception | asyncio.Event | Callable[[], Awaitable[None]]
"""A delta (as bytes, object or value), an error to raise there, an event to wait for, or anything to await."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One reply. `before` happens before there is a reply at all (an error there means: nothing of the answer exists),
    `steps` are its deltas."""

    steps: tuple[Step, ...] = ()
    before: tuple[Step, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Served:
    """What became of one request: `closed` once the caller left, `complete` if it had read all deltas."""

    request: UpstreamRequest
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    complete: bool = False


class ScriptedUpstream:
    """Replies with the scripts in turn, the last one again and again; or with what `script(request)` returns."""

    def __init__(
        self, script: Iterable[Script] | Script | Callable[[UpstreamRequest], Script], name: str = "scripted"
    ) -> None:
        self._name = name
        self._choose: Callable[[UpstreamRequest], Script] | None = None
        self._scripts: deque[Script] = deque()
        if isinstance(script, Script):
            self._scripts.append(script)
        elif callable(script):
            self._choose = script
        else:
            self._scripts.extend(script)
        self.served: list[Served] = []
        """Every request so far, in order."""

    @property
    def name(self) -> str:
        return self._name

    async def aopen(self) -> None:
        """Nothing to open."""

    async def aclose(self) -> None:
        """Nothing to close."""

    def send(self, request: UpstreamRequest) -> _ScriptedCall:
        """Play the next script. Raises `LookupError` if there is none."""
        return _ScriptedCall(self, request)

    def forward(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, authorization: str | None
    ) -> AbstractAsyncContextManager[RawReply]:
        """Refused: scripts are chat replies."""
        raise RequestError(f"the upstream {self._name!r} does not serve {path}", code="unsupported_path")

    def _next(self, request: UpstreamRequest) -> Script:
        if self._choose is not None:
            return self._choose(request)
        if not self._scripts:
            raise LookupError(f"the scripted upstream {self._name!r} has no script for a further request")
        return self._scripts.popleft() if len(self._scripts) > 1 else self._scripts[0]


class _ScriptedCall:
    def __init__(self, upstream: ScriptedUpstream, request: UpstreamRequest) -> None:
        self._upstream = upstream
        self._served = Served(request)

    async def __aenter__(self) -> UpstreamReply:
        self._upstream.served.append(self._served)
        script = self._upstream._next(self._served.request)
        try:
            for step in script.before:
                await _performed(step)
        except BaseException:
            self._served.closed.set()
            raise
        attempts = (Attempt(self._upstream.name, script.status, 0.0),)
        return UpstreamReply(script.status, script.headers, self._deltas(script), attempts)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._served.closed.set()

    async def _deltas(self, script: Script) -> AsyncIterator[Delta]:
        for step in script.steps:
            delta = await _performed(step)
            if delta is not None:
                yield delta
        self._served.complete = True


async def _performed(step: Step) -> Delta | None:
    """Do one step; the delta if it is one."""
    if isinstance(step, Delta):
        return step
    if isinstance(step, Exception):
        raise step
    if isinstance(step, asyncio.Event):
        await step.wait()
        return None
    if isinstance(step, bytes | dict):
        data = step if isinstance(step, bytes) else msgspec.json.encode(step)
        return parse_delta(data, _is_whole(data))
    await step()
    return None


class _Kind(msgspec.Struct):
    object: str = ""


def _is_whole(data: bytes) -> bool:
    try:
        return msgspec.json.decode(data, type=_Kind).object == "chat.completion"
    except msgspec.DecodeError:
        return False


def text_script(text: str, *, stream: bool = True, model: str = "scripted", pieces: int = 3) -> Script:
    """A script that answers `text`: as one completion, or as `pieces` events, the finish and the usage event."""
    envelope = {"id": "chatcmpl-scripted", "created": 1_700_000_000, "model": model}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    if not stream:
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return Script(steps=({**envelope, "object": "chat.completion", "choices": [choice], "usage": usage},))
    size = max(1, -(-len(text) // pieces))
    parts: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    parts += [{"content": text[start : start + size]} for start in range(0, len(text), size)]
    base = {**envelope, "object": "chat.completion.chunk"}
    events = [{**base, "choices": [{"index": 0, "delta": part, "finish_reason": None}]} for part in parts]
    events.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events.append({**base, "choices": [], "usage": usage})
    return Script(steps=tuple(events))

"""The gates that hold an answer back until it may leave. Pure: deltas and verdicts in, payloads out.

A gate knows nothing of the client's mode: it gives out JSON objects (`Out`), and the edge frames or collects them.

    LiveGate      deltas flow, finish chunks and usage wait for the verdict (also serves `detached`)
    HeldGate      nothing leaves before the verdict, then everything in its original deltas
    SentenceGate  text leaves up to the point that was approved, everything else waits for the end
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from gateway.wire import chat
from gateway.wire.annotations import merge_annotations
from gateway.wire.spans import OffsetMap, Span
from gateway.wire.types import Answer, Delta


class Out(NamedTuple):
    """One JSON object for the client; `whole` says that it is a complete completion and not a stream chunk."""

    data: bytes
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """What the end of an answer carries.

    `annotations` per choice are added to the upstream's own; `grounding` is the top-level object, None leaves it out.
    """

    annotations: Mapping[int, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    grounding: Mapping[str, Any] | None = None
    include_usage: bool = False


class Gate(Protocol):
    """Holds deltas back. `held_bytes` is what it keeps at the moment."""

    held_bytes: int

    def push(self, delta: Delta) -> Iterator[Out]: ...

    def close(self, ending: Ending, answer: Answer) -> Iterator[Out]: ...


def _finishes(delta: Delta) -> bool:
    return any(choice.finish_reason for choice in delta.view.choices or ())


def _annotated(delta: Delta) -> bool:
    return any(c.delta is not None and c.delta.annotations for c in delta.view.choices or ())


class LiveGate:
    """Lets deltas flow; keeps whole bodies, annotations, finish chunks and usage for the end."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._whole: Delta | None = None
        self._finishing: list[Delta] = []
        self._usage: Delta | None = None

    def push(self, delta: Delta) -> Iterator[Out]:
        if delta.whole:
            self._whole = delta
        elif not delta.view.choices:
            if delta.view.usage is not None:
                self._usage = delta
            elif self._finishing:
                self._finishing.append(delta)
            else:
                yield Out(delta.data)
        elif _finishes(delta):
            self._finishing.append(delta)
        elif _annotated(delta):
            rest = chat.without_annotations(delta)
            if rest is not None:
                yield Out(rest)
        else:
            yield Out(delta.data)

    def close(self, ending: Ending, answer: Answer) -> Iterator[Out]:
        if self._whole is not None:
            data = self._whole.data
            if ending.grounding is not None or any(ending.annotations.values()):
                data = chat.finish_whole(data, ending.annotations, ending.grounding)
            yield Out(data, whole=True)
            return
        finishing = self._finishing
        if not finishing:
            return
        template = finishing[0].data
        for index in sorted(answer.choices):
            annotations = merge_annotations(answer.choices[index].annotations, ending.annotations.get(index, ()))
            if annotations:
                yield Out(chat.annotation_chunk(template, index, annotations))
        last = max(i for i, delta in enumerate(finishing) if _finishes(delta))
        for i, delta in enumerate(finishing):
            data = (chat.without_annotations(delta) if _annotated(delta) else None) or delta.data
            if i == last and ending.grounding is not None:
                data = chat.with_grounding(data, ending.grounding)
            yield Out(data)
        if self._usage is not None and ending.include_usage:
            yield Out(self._usage.data)


class HeldGate:
    """Keeps everything, and lets it go through a `LiveGate` once the verdict is there."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._deltas: list[Delta] = []

    def push(self, delta: Delta) -> Iterator[Out]:
        self._deltas.append(delta)
        self.held_bytes += len(delta.data)
        return iter(())

    def close(self, ending: Ending, answer: Answer) -> Iterator[Out]:
        live = LiveGate()
        for delta in self._deltas:
            yield from live.push(delta)
        yield from live.close(ending, answer)


class _Text:
    """One choice's text under a `SentenceGate`: which spans of it may leave, and how far it was decided."""

    __slots__ = ("approved", "decided", "dropped", "kept", "sent_role")

    def __init__(self) -> None:
        self.approved: list[str] = []
        self.kept: list[Span] = []
        self.decided = 0
        self.dropped = False
        self.sent_role = False


class SentenceGate:
    """Lets a choice's text leave up to where it was approved; all else (tool calls, reasoning) waits for the end.

    Text is cut by the caller's decisions, not by the upstream's deltas: each approval becomes one new delta made after
    the upstream's own. `approve` and `drop` must be called in text order.
    """

    def __init__(self) -> None:
        self.held_bytes = 0
        self.whole = False
        self._template: bytes | None = None
        self._texts: dict[int, _Text] = {}
        self._usage: Delta | None = None

    def keep(self, delta: Delta) -> None:
        """Take in a delta; nothing leaves by that alone."""
        self.held_bytes += len(delta.data)
        self.whole = self.whole or delta.whole
        if delta.view.choices and self._template is None:
            self._template = delta.data
        elif not delta.whole and not delta.view.choices and delta.view.usage is not None:
            self._usage = delta

    def push(self, delta: Delta) -> Iterator[Out]:
        self.keep(delta)
        return iter(())

    def approve(self, index: int, text: str, end: int) -> Iterator[Out]:
        """`text[decided:end]` may leave; `text` is the choice's text so far."""
        state = self._texts.setdefault(index, _Text())
        start, state.decided = state.decided, max(end, state.decided)
        piece = text[start:end]
        if not piece:
            return
        state.approved.append(piece)
        state.kept.append((start, end))
        self.held_bytes -= min(self.held_bytes, len(piece))
        if not self.whole and self._template is not None:
            fields: dict[str, Any] = {"content": piece}
            if not state.sent_role:
                fields = {"role": "assistant", **fields}
                state.sent_role = True
            yield Out(chat.delta_chunk(self._template, index, fields))

    def drop(self, index: int, end: int) -> None:
        """What lies before `end` and was not approved never leaves."""
        state = self._texts.setdefault(index, _Text())
        state.decided, state.dropped = end, True

    def released(self, index: int) -> str:
        """The text of a choice that may leave, so far."""
        state = self._texts.get(index)
        return "".join(state.approved) if state else ""

    def dropped(self, index: int) -> bool:
        """Whether some of a choice's text was left out."""
        state = self._texts.get(index)
        return state is not None and state.dropped

    def offsets(self, index: int) -> OffsetMap:
        """Offsets of the upstream's text to those of the released one."""
        state = self._texts.get(index)
        return OffsetMap(tuple(state.kept) if state else ())

    def close(self, ending: Ending, answer: Answer) -> Iterator[Out]:
        """`answer` is the answer as the client is to see it: its content is what was released."""
        if self.whole or self._template is None:
            yield Out(chat.completion(answer, ending.annotations, ending.grounding), whole=True)
            return
        indexes = sorted(answer.choices)
        for index in indexes:
            choice = answer.choices[index]
            state = self._texts.setdefault(index, _Text())
            fields = chat.other_fields(choice)
            if not state.sent_role:
                fields = {"role": choice.role, **fields}
            if fields or choice.logprobs:
                yield Out(chat.delta_chunk(self._template, index, fields, logprobs=choice.logprobs))
            annotations = merge_annotations(choice.annotations, ending.annotations.get(index, ()))
            if annotations:
                yield Out(chat.annotation_chunk(self._template, index, annotations))
        for index in indexes:
            top: dict[str, Any] = {}
            if index == indexes[-1]:
                top = chat.unknown_fields(answer)
                if ending.grounding is not None:
                    top["grounding"] = ending.grounding
            yield Out(chat.closing_chunk(self._template, answer.choices[index], top))
        if self._usage is not None and ending.include_usage:
            yield Out(self._usage.data)

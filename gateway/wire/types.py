"""Values that travel between upstream and edge, whatever the dialect.

A `Delta` is one JSON object of the upstream: one event of an SSE body, or the one object of a JSON body. It keeps
the bytes as they came, so that what passes through is never encoded again. An `Answer` is what a whole sequence of
deltas says, folded. Text offsets count Unicode code points of a choice's final content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

MAX_INDEX = 2**31
"""An index beyond is none: what cannot be counted to counts as not said, in every reading of it alike."""


class FunctionView(msgspec.Struct, gc=False):
    """Function of a tool call, whole or in pieces."""

    name: str | None = None
    arguments: str | None = None


class ToolCallView(msgspec.Struct, gc=False):
    """A tool call, whole (message) or in pieces (delta, with `index`). Unknown keys stay in the raw bytes."""

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: FunctionView | None = None


class MessageView(msgspec.Struct, gc=False):
    """The parts of a message or delta that a check governs; all else stays in the raw bytes."""

    role: str | None = None
    content: Any = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    tool_calls: list[Any] | None = None
    function_call: dict[str, Any] | None = None
    audio: dict[str, Any] | None = None
    annotations: list[Any] | None = None


class ChoiceView(msgspec.Struct, gc=False):
    """One choice of a delta."""

    index: Annotated[int, msgspec.Meta(ge=-MAX_INDEX, le=MAX_INDEX)] = 0
    delta: MessageView | None = None
    message: MessageView | None = None
    finish_reason: str | None = None
    logprobs: dict[str, Any] | None = None


class DeltaView(msgspec.Struct, gc=False):
    """Typed view of one upstream object. `error` truthy means an error inside a 200."""

    choices: list[ChoiceView] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    id: str | None = None
    model: str | None = None


@dataclass(slots=True)
class Delta:
    """One JSON object of the upstream: the exact bytes and the typed view of them.

    `whole` is True for a complete `chat.completion` (JSON body), False for a `chat.completion.chunk`.
    """

    data: bytes
    view: DeltaView
    whole: bool = False


@dataclass(slots=True)
class ChoiceAnswer:
    """What one choice says in the end. `tool_calls` are whole objects in index order."""

    index: int
    role: str = "assistant"
    content: str | None = None
    refusal: str | None = None
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    function_call: dict[str, Any] | None = None
    audio: dict[str, Any] | None = None
    annotations: list[Any] = field(default_factory=list)
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """Unknown fields of the message, folded by the same rules as known ones."""
    choice_extra: dict[str, Any] = field(default_factory=dict)
    """Unknown fields beside the message in the choice object."""


@dataclass(slots=True)
class Answer:
    """A folded answer: `choices` by index, and the envelope (`id`, `created`, `model`, unknown keys, `usage`)."""

    choices: dict[int, ChoiceAnswer] = field(default_factory=dict)
    envelope: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class GroundingOptions:
    """Our own request options: the top-level key `grounding` or `x-grounding-*` headers, removed before the upstream.

    `filters` are equality constraints on passage metadata. None means: not asked for, the route decides.
    """

    release: str | None = None
    check: str | None = None
    filters: Mapping[str, str] | None = None
    repository: str | None = None
    revision: str | None = None
    base_revision: str | None = None
    timeout: float | None = None
    """Seconds for the whole answer; it can only shorten the gateway's own times."""


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A chat completion request. `fields` maps every top-level key but `grounding` to its exact bytes, in order.

    `messages` holds the exact bytes of each message, so that grounding inserts without re-encoding the others.
    """

    fields: Mapping[str, msgspec.Raw]
    messages: tuple[msgspec.Raw, ...]
    model: str | None
    stream: bool
    n: int
    include_usage: bool
    has_tools: bool
    options: GroundingOptions = GroundingOptions()


@dataclass(frozen=True, slots=True)
class Turn:
    """One message as text: `text` joins its text parts; `media` says that it has parts that are not text."""

    role: str
    text: str
    media: bool = False
    tool_call: bool = False

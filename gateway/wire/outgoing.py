"""Objects of the chat completions dialect that go out: stream chunks cut from an upstream's own, and whole bodies.

Every value of the upstream that is not named by a call keeps its bytes. Knows no verdict and no client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from gateway.wire import raw
from gateway.wire.annotations import merge_annotations
from gateway.wire.fold import fold
from gateway.wire.types import Answer, ChoiceAnswer, Delta, DeltaView

_KEPT: Final = ("id", "created", "model", "system_fingerprint", "service_tier")
_CHUNK: Final = b'"chat.completion.chunk"'
_NULL: Final = msgspec.Raw(b"null")
_EMPTY_LIST: Final = msgspec.Raw(b"[]")
Annotations: TypeAlias = Mapping[int, Sequence[Mapping[str, Any]]]
_Change: TypeAlias = Callable[[dict[str, raw.Value], int], dict[str, raw.Value]]


def delta_chunk(
    template: bytes,
    index: int,
    fields: Mapping[str, Any],
    *,
    logprobs: Mapping[str, Any] | None = None,
    finish_reason: str | None = None,
) -> bytes:
    """A chunk of choice `index` with `fields` as its delta; id, created, model and the like are the template's."""
    choice = b'{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b}' % (
        index,
        raw.encode(fields),
        raw.encode(logprobs),
        raw.encode(finish_reason),
    )
    source = raw.fields(template)
    chunk = _envelope(source)
    chunk["choices"] = b"[" + choice + b"]"
    if "usage" in source:  # servers that were asked for usage send the key with every chunk
        chunk["usage"] = _NULL
    return raw.write_object(chunk)


def annotation_chunk(template: bytes, index: int, annotations: Sequence[Mapping[str, Any]]) -> bytes:
    """The chunk that carries the annotations of choice `index`."""
    return delta_chunk(template, index, {"annotations": annotations})


def finish_chunk(template: bytes, index: int, reason: str, grounding: Mapping[str, Any] | None = None) -> bytes:
    """The last chunk of choice `index`; `grounding` makes it the carrier of the top-level object."""
    data = delta_chunk(template, index, {}, finish_reason=reason)
    return data if grounding is None else with_grounding(data, grounding)


def closing_chunk(template: bytes, choice: ChoiceAnswer, top: Mapping[str, Any]) -> bytes:
    """The finish chunk of a choice with what is unknown to the dialect beside its message; `top` are further keys."""
    data = finish_chunk(template, choice.index, choice.finish_reason or "stop")
    data = _with_extra(data, choice)
    return raw.write_object({**raw.fields(data), **{key: raw.encode(value) for key, value in top.items()}})


def unknown_fields(answer: Answer) -> dict[str, Any]:
    """The top-level keys of an answer that no chunk of ours carries by itself."""
    return {key: value for key, value in answer.envelope.items() if key not in (*_KEPT, "object", "grounding")}


def _usage_chunk(template: bytes, usage: Mapping[str, Any]) -> bytes:
    """The chunk that closes a stream whose client asked for usage: `choices` is empty."""
    return raw.write_object({**_envelope(raw.fields(template)), "choices": _EMPTY_LIST, "usage": raw.encode(usage)})


def with_grounding(data: bytes, grounding: Mapping[str, Any]) -> bytes:
    """`data` with the top-level object `grounding`, in place of one that an upstream may have sent."""
    return raw.write_object({**raw.fields(data), "grounding": raw.encode(grounding)})


def without_annotations(delta: Delta) -> bytes | None:
    """A chunk without annotations, or None when it says nothing else."""
    fields = raw.fields(delta.data)
    choices, says_more = [], delta.view.usage is not None
    for choice in _choices(fields):
        message = raw.fields(choice["delta"]) if _is_object(choice.get("delta")) else {}
        message.pop("annotations", None)
        choice["delta"] = msgspec.Raw(raw.write_object(message))
        choices.append(raw.write_object(choice))
        quiet = all(bytes(value) in (b"null", b'""', b"[]") for value in message.values())
        says_more |= not quiet or any(bytes(choice.get(key, _NULL)) != b"null" for key in ("finish_reason", "logprobs"))
    return raw.write_object({**fields, "choices": raw.write_list(choices)}) if says_more else None


def finish_whole(data: bytes, annotations: Annotations, grounding: Mapping[str, Any] | None) -> bytes:
    """A whole body with annotations added to the upstream's own and the top-level object."""
    fields: dict[str, raw.Value] = dict(raw.fields(data))
    if any(annotations.values()):
        fields["choices"] = raw.write_list(
            _with_message(choice, lambda message, index: _annotated(message, annotations.get(index, ())), position)
            for position, choice in enumerate(_choices(fields))
        )
    if grounding is not None:
        fields["grounding"] = raw.encode(grounding)
    return raw.write_object(fields)


def other_fields(choice: ChoiceAnswer) -> dict[str, Any]:
    """What a choice says beside role, content and annotations, as fields of one delta (tool calls with their index)."""
    fields: dict[str, Any] = dict(choice.extra)
    if choice.refusal is not None:
        fields["refusal"] = choice.refusal
    if choice.tool_calls:
        fields["tool_calls"] = [{"index": index, **call} for index, call in enumerate(choice.tool_calls)]
    if choice.function_call is not None:
        fields["function_call"] = choice.function_call
    if choice.audio is not None:
        fields["audio"] = choice.audio
    return fields


def completion_object(
    answer: Answer, annotations: Annotations | None = None, grounding: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A folded answer as the completion that the upstream would have sent in one body."""
    envelope = answer.envelope
    added = annotations or {}
    completion: dict[str, Any] = {key: envelope[key] for key in ("id", "created", "model") if key in envelope}
    completion["object"] = "chat.completion"
    completion["choices"] = [
        _whole_choice(answer.choices[index], added.get(index, ())) for index in sorted(answer.choices)
    ]
    if answer.usage is not None:
        completion["usage"] = answer.usage
    for key, value in envelope.items():
        completion.setdefault(key, value)
    if grounding is not None:
        completion["grounding"] = grounding
    return completion


def completion(
    answer: Answer, annotations: Annotations | None = None, grounding: Mapping[str, Any] | None = None
) -> bytes:
    """`completion_object` as JSON."""
    return raw.encode(completion_object(answer, annotations, grounding))


def completion_events(data: bytes, *, include_usage: bool = False) -> list[bytes]:
    """The stream that says the same as a whole body: role first, content, the rest, annotations, finish, usage.

    The top-level objects that the dialect does not know ride on the first chunk, `grounding` on the last finish chunk.
    """
    answer = fold([Delta(data, DeltaView(), whole=True)])
    envelope = answer.envelope
    head = {key: envelope[key] for key in _KEPT if key in envelope}
    template = raw.encode({**head, "usage": None} if include_usage else head)
    chunks: list[bytes] = []
    indexes = sorted(answer.choices)
    for index in indexes:
        chunks.extend(_choice_chunks(template, answer.choices[index]))
    for index in indexes:
        grounding = envelope.get("grounding") if index == indexes[-1] else None
        top = {} if grounding is None else {"grounding": grounding}
        chunks.append(closing_chunk(template, answer.choices[index], top))
    rest = unknown_fields(answer)
    if rest and chunks:
        chunks[0] = raw.write_object({**raw.fields(chunks[0]), **{key: raw.encode(v) for key, v in rest.items()}})
    if include_usage and answer.usage is not None:
        chunks.append(_usage_chunk(template, answer.usage))
    return chunks


def _choice_chunks(template: bytes, choice: ChoiceAnswer) -> Iterable[bytes]:
    opening = {"role": choice.role, "content": None if choice.content is None else ""}
    yield delta_chunk(template, choice.index, opening)
    if reasoning := choice.extra:
        yield delta_chunk(template, choice.index, reasoning)
    if choice.content or choice.logprobs:
        yield delta_chunk(template, choice.index, {"content": choice.content}, logprobs=choice.logprobs)
    rest = {key: value for key, value in other_fields(choice).items() if key not in choice.extra}
    if rest:
        yield delta_chunk(template, choice.index, rest)
    if choice.annotations:
        yield annotation_chunk(template, choice.index, choice.annotations)


def _whole_choice(choice: ChoiceAnswer, added: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": choice.role,
        "content": choice.content,
        "refusal": choice.refusal,
        "annotations": merge_annotations(choice.annotations, added),
    }
    if choice.tool_calls:
        message["tool_calls"] = choice.tool_calls
    if choice.function_call is not None:
        message["function_call"] = choice.function_call
    if choice.audio is not None:
        message["audio"] = choice.audio
    return {
        "index": choice.index,
        "message": {**choice.extra, **message},
        "logprobs": choice.logprobs,
        "finish_reason": choice.finish_reason,
        **choice.choice_extra,
    }


def _with_extra(chunk: bytes, choice: ChoiceAnswer) -> bytes:
    """A finish chunk with the unknown fields that stood beside the message."""
    if not choice.choice_extra:
        return chunk
    fields = raw.fields(chunk)
    extra = {key: raw.encode(value) for key, value in choice.choice_extra.items()}
    choices = raw.write_list(raw.write_object({**item, **extra}) for item in _choices(fields))
    return raw.write_object({**fields, "choices": choices})


def _envelope(source: Mapping[str, raw.Value]) -> dict[str, raw.Value]:
    kept: dict[str, raw.Value] = {key: source[key] for key in _KEPT if key in source}
    kept["object"] = _CHUNK
    return kept


def _choices(fields: Mapping[str, raw.Value]) -> list[dict[str, raw.Value]]:
    value = fields.get("choices")
    if value is None or bytes(value) == b"null":
        return []
    return [dict(raw.fields(item)) for item in raw.items(value)]


def _index(choice: Mapping[str, raw.Value], position: int) -> int:
    value = raw.decode(choice["index"]) if "index" in choice else None
    return value if isinstance(value, int) else position


def _is_object(value: raw.Value | None) -> bool:
    return value is not None and memoryview(value)[0] == 0x7B


def _annotated(message: dict[str, raw.Value], added: Sequence[Mapping[str, Any]]) -> dict[str, raw.Value]:
    if added:
        own = raw.decode(message["annotations"]) if "annotations" in message else None
        message["annotations"] = raw.encode(merge_annotations(own if isinstance(own, list) else [], added))
    return message


def _with_message(choice: dict[str, raw.Value], change: _Change, position: int) -> bytes:
    if _is_object(choice.get("message")):
        message: dict[str, raw.Value] = dict(raw.fields(choice["message"]))
        choice["message"] = raw.write_object(change(message, _index(choice, position)))
    return raw.write_object(choice)

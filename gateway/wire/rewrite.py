"""Answers and requests changed after a verdict: other contents, a refusal in place of text, a request to correct.

Values in, values out; the inputs stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from gateway.wire import raw
from gateway.wire.edits import texts
from gateway.wire.types import Answer, ChatRequest, ChoiceAnswer

# What restates the content in another form: it would be wrong beside a changed content, and give away what was removed.
_RESTATES_CONTENT: Final = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
_REPAIR: Final = (
    "Some statements of your last answer are not supported by the documents or contradict them:\n{statements}\n\n"
    "Answer the question above once more, complete and in the same form and language. Correct these statements from "
    "the documents, or leave them out where the documents say nothing. Give the answer only, and do not mention the "
    "correction."
)
_REPAIR_REVIEW: Final = (
    "Some issues of your last review do not hold against the code under review:\n{statements}\n\n"
    "Give the review once more, complete and in the same form and language, without these issues unless the code shows "
    "that they are real. Give the review only, and do not mention the correction."
)
_SAFE_ENVELOPE: Final = ("id", "object", "created", "model", "system_fingerprint", "service_tier")


def with_messages(request: ChatRequest, messages: Sequence[raw.Value]) -> ChatRequest:
    """The request with other messages; every other field keeps its bytes."""
    fields = {**request.fields, "messages": msgspec.Raw(raw.write_list(messages))}
    return msgspec.structs.replace(request, fields=fields, messages=tuple(map(msgspec.Raw, messages)))


def with_model(request: ChatRequest, model: str) -> ChatRequest:
    """The request for another model; every other field keeps its bytes."""
    fields = {**request.fields, "model": msgspec.Raw(raw.encode(model))}
    return msgspec.structs.replace(request, fields=fields, model=model)


def with_usage_told(request: ChatRequest) -> ChatRequest:
    """The request with the upstream asked to count tokens at the end of a stream; the client did not ask to see it."""
    given = request.fields.get("stream_options")
    try:
        options = raw.decode(given) if given is not None else {}
    except (ValueError, RecursionError):
        return request
    options = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return msgspec.structs.replace(
        request, fields={**request.fields, "stream_options": msgspec.Raw(raw.encode(options))}
    )


def replaced(answer: Answer, contents: Mapping[int, str]) -> Answer:
    """The answer with other contents, from which text was only removed.

    Where a content changed, log probabilities, reasoning and audio go, since they restate it, and the upstream's
    annotations are moved to where their text is now, or go with it.
    """
    choices = {}
    for index, choice in answer.choices.items():
        content = contents.get(index)
        if content is not None and content != (choice.content or ""):
            choice = replace(
                _without_restatements(choice),
                content=content,
                annotations=_moved(choice.annotations, choice.content or "", content),
            )
        choices[index] = choice
    return replace(answer, choices=choices)


def refused(answer: Answer, text: str, contents: Mapping[int, str] | None = None) -> Answer:
    """The answer with each choice turned into a refusal that ends by `content_filter`.

    `contents` are texts that have left already; they stay as content. Nothing else of the answer's own remains.
    """
    choices = {
        index: ChoiceAnswer(
            index=index,
            role=choice.role,
            content=(contents or {}).get(index) or None,
            refusal=text,
            finish_reason="content_filter",
        )
        for index, choice in answer.choices.items()
    }
    envelope: dict[str, Any] = {key: answer.envelope[key] for key in _SAFE_ENVELOPE if key in answer.envelope}
    return Answer(choices=choices, envelope=envelope, usage=answer.usage)


def repair_request(
    request: ChatRequest, answer: Answer, complaints: Mapping[int, Sequence[str]], *, review: bool = False
) -> ChatRequest:
    """The request that asks once more: the answer that failed, then its failed statements and what to do about them.

    `review` says that they are issues of a code review, which may stand in the arguments of tool calls. Of several
    choices the first that failed is shown. The messages before stay as they are, for the upstream's cache.
    """
    index = min(complaints, default=min(answer.choices, default=0))
    choice = answer.choices.get(index)
    statements = "\n".join(f"- {' '.join(statement.split())}" for statement in complaints.get(index, ()))
    said = "" if choice is None else "\n\n".join(texts(choice).values()) if review else choice.content or ""
    asked = (_REPAIR_REVIEW if review else _REPAIR).format(statements=statements)
    follow_up = [
        raw.encode({"role": "assistant", "content": said}),
        raw.encode({"role": "user", "content": asked}),
    ]
    return with_messages(request, [*request.messages, *follow_up])


def _without_restatements(choice: ChoiceAnswer) -> ChoiceAnswer:
    extra = {key: value for key, value in choice.extra.items() if key not in _RESTATES_CONTENT}
    return replace(choice, logprobs=None, audio=None, reasoning="", extra=extra)


def _moved(annotations: Iterable[Any], old: str, new: str) -> list[Any]:
    """Annotations for the new content: those whose text stands in it once, and those that have no offsets."""
    out: list[Any] = []
    for annotation in annotations:
        kind = annotation.get("type") if isinstance(annotation, Mapping) else None
        holder = annotation.get(kind) if isinstance(kind, str) else None
        if not isinstance(holder, Mapping):
            holder = annotation if isinstance(annotation, Mapping) else {}
        start, end = holder.get("start_index"), holder.get("end_index")
        if not isinstance(start, int) or not isinstance(end, int):
            out.append(annotation)
            continue
        text = old[start:end]
        if text and new.count(text) == 1 and old.count(text) == 1:
            at = new.index(text)
            place = {**holder, "start_index": at, "end_index": at + len(text)}
            out.append(place if holder is annotation else {**annotation, kind: place})
    return out

"""`/v1/completions`: a prompt as a chat completion request, and the answer as a text completion. Pure.

The prompt becomes the one message of the user, so what grounds and checks conversations does so here. What only makes
sense for a model that goes on writing a text (`echo`, `suffix`, `best_of`, tokens as prompt) is refused by name, and so
are log-probabilities, which this dialect has in another shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import RequestError
from gateway.wire import raw, sse
from gateway.wire.loose import content_text, loose_text
from gateway.wire.outgoing import completion_events
from gateway.wire.typed import flag

_REFUSED: Final[Mapping[str, str]] = {
    "echo": "send the prompt's own text before the answer yourself",
    "suffix": "an answer is not put before another text",
    "logprobs": "ask /v1/chat/completions, which has them",
}
_NOT_HERE: Final = ("messages", "tools", "tool_choice", "functions", "response_format", "modalities", "audio")


def chat_request(value: Mapping[str, Any]) -> dict[str, Any]:
    """The chat completion request that asks the same. Raises `RequestError` with the parameter at fault."""
    for name in _NOT_HERE:
        if value.get(name) is not None:
            raise _unsupported(f"'{name}' belongs to chat completions; this is /v1/completions", name)
    for name, remedy in _REFUSED.items():
        given = value.get(name)
        if given is not None and given is not False and given != "":
            raise _unsupported(f"'{name}' is not served here: {remedy}", name)
    best_of, n = value.get("best_of"), value.get("n")
    if best_of is not None and best_of != (n or 1):
        raise _unsupported("'best_of' is not served here: ask for 'n' answers and choose", "best_of")
    left_out = {"prompt", "best_of", *_REFUSED}
    out: dict[str, Any] = {name: item for name, item in value.items() if name not in left_out and item is not None}
    out["messages"] = [{"role": "user", "content": _prompt(value.get("prompt"))}]
    out["stream"] = flag(value.get("stream"), "stream") or False
    return out


def _prompt(prompt: Any) -> str:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return prompt
    if isinstance(prompt, list) and prompt:
        what = "several prompts" if isinstance(prompt[0], str) else "a prompt of tokens"
        raise _unsupported(f"'prompt' holds {what}, which is not served here; send one text a request", "prompt")
    raise RequestError("'prompt' must be a text.", code="missing_required_parameter", param="prompt")


def _unsupported(message: str, param: str) -> RequestError:
    return RequestError(message, code="unsupported_parameter", param=param)


class TextDialect:
    """Text completions (`gateway.wire.dialect.Dialect`)."""

    def body(self, data: bytes, *, held: bool) -> bytes:
        value = raw.decode(data)
        return raw.encode(_object(value, [_choice(choice, "message") for choice in value.get("choices") or ()]))

    def error(self, status: int, body: bytes) -> bytes:
        return body

    def stream(self, *, held: bool, include_usage: bool) -> TextWriter:
        return TextWriter(include_usage)


class TextWriter:
    """One stream: chunks that say something, then `[DONE]`."""

    __slots__ = ("_include_usage",)

    def __init__(self, include_usage: bool) -> None:
        self._include_usage = include_usage

    def chunk(self, data: bytes) -> bytes:
        value = raw.decode(data)
        given = value.get("choices") or []
        choices = [_choice(choice, "delta") for choice in given]
        said = [one for one in choices if one["text"] or one["finish_reason"] is not None or len(one) > _PLAIN]
        if not said and given:
            return b""  # a role, or annotations, for which this dialect has no place
        return sse.event(raw.encode(_object(value, said)))

    def whole(self, data: bytes) -> bytes:
        return b"".join([self.chunk(event) for event in completion_events(data, include_usage=self._include_usage)])

    def close(self) -> bytes:
        return sse.DONE

    def fail(self, envelope: bytes) -> bytes:
        return sse.event(envelope)


_PLAIN: Final = 4
"""Keys of a choice that says nothing beside its text."""
_KEPT: Final = ("created", "model", "service_tier", "system_fingerprint", "usage", "grounding")


def _object(value: Mapping[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any]:
    identity = f"cmpl-{str(value.get('id') or '0').removeprefix('chatcmpl-')}"
    kept = {name: value[name] for name in _KEPT if name in value}
    return {"id": identity, "object": "text_completion", **kept, "choices": choices}


def _choice(choice: Any, part: str) -> dict[str, Any]:
    """A choice of a completion, or of a chunk of one."""
    choice = choice if isinstance(choice, dict) else {}
    said = choice.get(part)
    said = said if isinstance(said, dict) else {}
    text, thoughts = content_text(said.get("content") or "")
    thoughts = loose_text(said.get("reasoning_content")) or loose_text(said.get("reasoning")) or thoughts
    out = {
        "text": text or loose_text(said.get("refusal")),
        "index": choice.get("index") or 0,
        "logprobs": None,
        "finish_reason": choice.get("finish_reason"),
    }
    return {**out, "reasoning_content": thoughts} if thoughts else out

"""Folds the deltas of an answer into what the upstream would have said in one body. Knows no transport and no client.

The rules are those of OpenAI's own SDK (`openai.lib.streaming._deltas`) with these differences, each because servers in
the field need it: numbers and booleans of unknown fields are states, so the last one counts and nothing is summed; a
tool's name that is repeated whole with every piece counts once; tool calls are told apart by id where their `index` is
missing or stuck; lists without `index` are appended to. Text is kept in pieces until it is asked for, so that an answer
in thousands of deltas costs time in proportion to its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gateway.wire import raw
from gateway.wire.loose import content_text, loose_int, loose_text
from gateway.wire.types import Answer, ChoiceAnswer, Delta

# Strings that name or mark something: a later one replaces an earlier one instead of continuing it.
_STATES: Final = frozenset({"id", "type", "index", "format", "role", "name", "object", "status", "signature"})
_IDENTITY: Final = frozenset({"id", "object", "created", "model"})
_NOT_ENVELOPE: Final = frozenset({"choices", "usage", "obfuscation", "error"})
_TOOL_BODIES: Final = ("function", "custom")
_MOST_WAITING: Final = 64


class _Text(list[str]):
    """A string in pieces."""

    __slots__ = ()


def fold(deltas: Iterable[Delta]) -> Answer:
    """The answer that these deltas say."""
    state = Fold()
    for delta in deltas:
        state.add(delta)
    return state.answer()


class Fold:
    """A running fold. `answer` may be asked for at any time, also of an answer that was cut.

    Deltas are folded some at a time, or when somebody asks: one by one between other work takes twice as long.
    """

    __slots__ = ("_choices", "_envelope", "_usage", "_waiting")

    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}
        self._envelope: dict[str, Any] = {}
        self._usage: dict[str, Any] | None = None
        self._waiting: list[Delta] = []

    def add(self, delta: Delta) -> None:
        """Take one delta in. Its data was parsed before, so it is a JSON object."""
        self._waiting.append(delta)
        if len(self._waiting) >= _MOST_WAITING:
            self._settle()

    @property
    def whole(self) -> Delta | None:
        """The one body that is all of this answer, if it has one choice and nothing was asked of it so far."""
        if len(self._waiting) != 1 or self._choices:
            return None
        delta = self._waiting[0]
        choices = delta.view.choices
        return delta if delta.whole and choices is not None and len(choices) == 1 and choices[0].message else None

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        for delta in waiting:
            self._add(delta)

    def _add(self, delta: Delta) -> None:
        value = raw.decode(delta.data)
        for key, item in value.items():
            if key in _NOT_ENVELOPE or item is None:
                continue
            if key not in _IDENTITY or not self._envelope.get(key):
                self._envelope[key] = item
        usage = value.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        choices = value.get("choices")
        if not isinstance(choices, list):
            return
        for position, item in enumerate(choices):
            if isinstance(item, dict):
                index = loose_int(item.get("index"))
                index = position if index is None else index
                choice = self._choices.get(index)
                if choice is None:
                    choice = self._choices[index] = _Choice(index)
                choice.add(item, whole=delta.whole)

    def text(self, choice: int = 0) -> str:
        """Content of a choice so far."""
        self._settle()
        state = self._choices.get(choice)
        return state.text() if state is not None else ""

    def indexes(self) -> list[int]:
        """Indexes of the choices that have begun, in order."""
        self._settle()
        return sorted(self._choices)

    def answer(self) -> Answer:
        """Everything folded so far."""
        self._settle()
        return Answer(
            choices={index: self._choices[index].answer() for index in sorted(self._choices)},
            envelope=dict(self._envelope),
            usage=self._usage,
        )


class _Choice:
    """One choice, folded so far."""

    __slots__ = (
        "annotations",
        "calls",
        "content",
        "extra",
        "finish",
        "index",
        "logprobs",
        "message",
        "reasoning",
        "role",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.role = "assistant"
        self.content: _Text | None = None
        self.reasoning = _Text()
        self.message: dict[str, Any] = {}
        self.calls = _Calls()
        self.annotations: list[Any] = []
        self.logprobs: dict[str, Any] | None = None
        self.finish: str | None = None
        self.extra: dict[str, Any] = {}

    def add(self, value: dict[str, Any], *, whole: bool) -> None:
        message = value.get("message" if whole else "delta")
        if message is None and not whole and self.content is None:
            message = value.get("message")
        if isinstance(message, dict):
            self._add_message(message, whole=whole)
        if finish := value.get("finish_reason"):
            self.finish = str(finish)
        logprobs = value.get("logprobs")
        if isinstance(logprobs, dict):
            if self.logprobs is None:
                self.logprobs = {}
            _merge(self.logprobs, logprobs)
        for key, item in value.items():
            if key in ("index", "delta", "message", "finish_reason", "logprobs"):
                continue
            old = self.extra.get(key)
            if isinstance(old, list) and isinstance(item, list):
                self.extra[key] = [*old, *item]
            elif item is not None or key not in self.extra:
                self.extra[key] = item

    def _add_message(self, message: dict[str, Any], *, whole: bool) -> None:
        for key, value in message.items():
            if key == "content":
                self._add_content(value)
            elif key == "role":
                self.role = value if isinstance(value, str) and value else self.role
            elif key == "tool_calls":
                for call in value if isinstance(value, list) else ():
                    if isinstance(call, dict):
                        self.calls.add(call, whole=whole)
            elif key == "annotations" and isinstance(value, list):
                self.annotations.extend(value)
            elif key == "function_call" and isinstance(value, dict):
                _merge_named(self.message.setdefault(key, {}), value)
            elif whole and key not in ("refusal", "audio"):
                self.message[key] = value
            else:
                _merge(self.message, {key: value})
        # Servers in transition send the same text under both names.
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        if isinstance(reasoning, str):
            self.reasoning.append(reasoning)

    def _add_content(self, value: Any) -> None:
        if value is None:
            return
        if self.content is None:
            self.content = _Text()
        text, thoughts = content_text(value)
        self.content.append(text)
        if thoughts:
            self.reasoning.append(thoughts)

    def text(self) -> str:
        if self.content is None:
            return ""
        if len(self.content) > 1:
            self.content[:] = ["".join(self.content)]
        return _whole("".join(self.content))

    def answer(self) -> ChoiceAnswer:
        message = _plain(self.message)
        refusal = message.pop("refusal", None)
        audio = message.pop("audio", None)
        return ChoiceAnswer(
            index=self.index,
            role=self.role,
            content=None if self.content is None else self.text(),
            refusal=refusal if isinstance(refusal, str) else loose_text(refusal) or None,
            reasoning=_whole("".join(self.reasoning)),
            tool_calls=self.calls.plain(),
            function_call=message.pop("function_call", None),
            audio=audio if isinstance(audio, dict) else None,
            annotations=list(self.annotations),
            logprobs=_plain(self.logprobs),
            finish_reason=self.finish,
            extra=message,
            choice_extra=dict(self.extra),
        )


class _Calls:
    """Tool calls of one choice, told apart by index, by id, or by a name that comes after arguments."""

    __slots__ = ("_by_index", "_calls")

    def __init__(self) -> None:
        self._calls: list[tuple[int, dict[str, Any]]] = []
        self._by_index: dict[int, dict[str, Any]] = {}

    def add(self, piece: dict[str, Any], *, whole: bool) -> None:
        call = self._new(loose_int(piece.get("index"))) if whole else self._of(piece)
        for key, value in piece.items():
            if key in _TOOL_BODIES and isinstance(value, dict):
                _merge_named(call.setdefault(key, {}), value)
            elif key == "id":
                if value or key not in call:
                    call[key] = call.get(key) or value
            elif key != "index":
                _merge(call, {key: value})

    def plain(self) -> list[dict[str, Any]]:
        """The calls as whole objects, in index order."""
        ordered = sorted(self._calls, key=lambda item: item[0])
        return [_plain(call) if "type" in call else {"type": _kind(call), **_plain(call)} for _, call in ordered]

    def _of(self, piece: Mapping[str, Any]) -> dict[str, Any]:
        index = loose_int(piece.get("index"))
        identity = piece.get("id") or None
        named = _name(piece) != ""
        if index is not None:
            call = self._by_index.get(index)
            stuck = call is not None and named and identity is not None and call.get("id") not in (None, "", identity)
            return self._new(index) if call is None or stuck else call
        if identity is not None:
            for _, call in self._calls:
                if call.get("id") == identity:
                    return call
        last = self._calls[-1][1] if self._calls else None
        if last is None or (named and (identity is not None or _has_arguments(last))):
            return self._new(None)
        return last

    def _new(self, index: int | None) -> dict[str, Any]:
        index = len(self._calls) if index is None else index
        call: dict[str, Any] = {}
        self._calls.append((index, call))
        self._by_index[index] = call
        return call


def _kind(call: Mapping[str, Any]) -> str:
    return "custom" if "custom" in call else "function"


def _name(piece: Mapping[str, Any]) -> str:
    for kind in _TOOL_BODIES:
        body = piece.get(kind)
        if isinstance(body, dict) and isinstance(body.get("name"), str):
            return str(body["name"])
    return ""


def _has_arguments(call: Mapping[str, Any]) -> bool:
    body = call.get("function") or call.get("custom") or {}
    return any(body.get("arguments") or ()) or any(body.get("input") or ())


def _merge_named(into: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Merge a function or custom tool: its name continues, unless it is the same whole name once more."""
    for key, value in piece.items():
        if key == "name" and isinstance(value, str):
            name = into.get("name")
            if not isinstance(name, _Text):
                into["name"] = _Text([value])
            elif "".join(name) != value:
                name.append(value)
        else:
            _merge(into, {key: value})


def _merge(into: dict[str, Any], piece: Mapping[str, Any]) -> None:
    for key, value in piece.items():
        old = into.get(key)
        if value is None:
            into.setdefault(key, None)
        elif old is None:
            into[key] = _first(key, value)
        elif isinstance(old, _Text) and isinstance(value, str):
            old.append(value)
        elif isinstance(old, dict) and isinstance(value, dict):
            _merge(old, value)
        elif isinstance(old, list) and isinstance(value, list) and not isinstance(old, _Text):
            _append(old, value)
        elif value != "":
            into[key] = _first(key, value)


def _first(key: str, value: Any) -> Any:
    if isinstance(value, str):
        return value if key in _STATES else _Text([value])
    if isinstance(value, dict):
        merged: dict[str, Any] = {}
        _merge(merged, value)
        return merged
    if isinstance(value, list):
        entries: list[Any] = []
        _append(entries, value)
        return entries
    return value


def _append(into: list[Any], values: Iterable[Any]) -> None:
    """Append; an entry with the `index` of an earlier one continues that one."""
    for value in values:
        index = value.get("index") if isinstance(value, dict) else None
        if index is not None:
            same = next((entry for entry in into if isinstance(entry, dict) and entry.get("index") == index), None)
            if same is not None:
                _merge(same, value)
                continue
            into.append(_first("", value))
        else:
            into.append(value)


def _plain(value: Any) -> Any:
    """`value` with text in pieces joined, in new containers."""
    if isinstance(value, _Text):
        return _whole("".join(value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _whole(text: str) -> str:
    """`text` with surrogate pairs that came in two deltas put together; half a pair becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text

"""The texts of a choice that a review may stand in, and edits of them: removals, marks, other line numbers. Pure.

A choice speaks in parts: its content (`""`), and the arguments of each tool call (`tool_calls[0]`) or of a function
call. Each part is edited by its own edits and by nothing else: every other character stays. Offsets count code points.
Knows no verdict.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from checks.types import TextEdit
from gateway.wire.spans import Span
from gateway.wire.types import Answer, ChoiceAnswer

CONTENT: Final = ""
_CALL: Final = re.compile(r"tool_calls\[(\d+)\]")
_FUNCTION: Final = "function_call"
_BODIES: Final = (("function", "arguments"), ("custom", "input"))
_RESTATES: Final = frozenset({"reasoning_content", "reasoning", "reasoning_details"})


def texts(choice: ChoiceAnswer) -> dict[str, str]:
    """The parts of a choice that say anything, by name, content first."""
    out = {}
    if choice.content and not choice.content.isspace():
        out[CONTENT] = choice.content
    for position, call in enumerate(choice.tool_calls):
        if arguments := _arguments(call):
            out[f"tool_calls[{position}]"] = arguments[2]
    if choice.function_call is not None and isinstance(said := choice.function_call.get("arguments"), str) and said:
        out[_FUNCTION] = said
    return out


def tool_name(choice: ChoiceAnswer, part: str) -> str:
    """The tool whose arguments a part is, "" for the content."""
    if part == _FUNCTION and choice.function_call is not None:
        return str(choice.function_call.get("name") or "")
    if match := _CALL.fullmatch(part):
        call = choice.tool_calls[int(match[1])]
        found = _arguments(call)
        return str(call[found[0]].get("name") or "") if found else ""
    return ""


def fits(text: str, edits: Sequence[TextEdit]) -> bool:
    """Whether edits lie within the text, in order, without overlapping."""
    position = 0
    for edit in edits:
        if not position <= edit.start <= edit.end <= len(text):
            return False
        position = edit.end
    return True


def apply(text: str, edits: Sequence[TextEdit]) -> str:
    """The text with its edits made."""
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += (text[position : edit.start], edit.replacement)
        position = edit.end
    pieces.append(text[position:])
    return "".join(pieces)


class Moves:
    """Where offsets of a text are after its edits."""

    __slots__ = ("_ends", "_places", "_starts")

    def __init__(self, edits: Sequence[TextEdit]) -> None:
        self._starts = [edit.start for edit in edits]
        self._ends = [edit.end for edit in edits]
        shift = 0
        self._places: list[Span] = []
        """Per edit where its replacement stands."""
        for edit in edits:
            start = edit.start + shift
            self._places.append((start, start + len(edit.replacement)))
            shift += len(edit.replacement) - (edit.end - edit.start)

    def start(self, offset: int) -> int:
        """Where something that begins at an offset begins now: behind what was put in just there."""
        before = bisect_left(self._starts, offset + 1) - 1
        if before < 0:
            return offset
        if offset < self._ends[before]:
            return self._places[before][0]
        return self._places[before][1] + offset - self._ends[before]

    def end(self, offset: int) -> int:
        """Where something that ends at an offset ends now: before what was put in just there."""
        before = bisect_left(self._starts, offset) - 1
        if before < 0:
            return offset
        if offset < self._ends[before]:
            return self._places[before][1]
        return self._places[before][1] + offset - self._ends[before]

    def span(self, start: int, end: int) -> Span:
        """Where a span is now; an empty one at its place when all of it was removed."""
        first = self.start(start)
        return first, max(first, self.end(end))


def by_part(edits: Iterable[TextEdit]) -> dict[str, list[TextEdit]]:
    """Edits of a choice, apart by the text they are of, in order."""
    out: dict[str, list[TextEdit]] = {}
    for edit in edits:
        out.setdefault(edit.part, []).append(edit)
    return out


def edited(answer: Answer, edits: Mapping[int, Sequence[TextEdit]], *, removes: bool) -> Answer:
    """The answer with the edits of each choice made.

    Where a content changed its log probabilities and audio go, which no longer spell it, and the upstream's annotations
    move with their text, or go with it. `removes` says that something was taken out: then reasoning, which may restate
    it, goes too.
    """
    choices = dict(answer.choices)
    for index, given in edits.items():
        if index in choices and given:
            choices[index] = _edited(choices[index], by_part(given), removes=removes)
    return replace(answer, choices=choices)


def _edited(choice: ChoiceAnswer, edits: Mapping[str, Sequence[TextEdit]], *, removes: bool) -> ChoiceAnswer:
    calls = list(choice.tool_calls)
    for part, given in edits.items():
        if part == CONTENT:
            choice = replace(
                choice,
                content=apply(choice.content or "", given),
                logprobs=None,
                audio=None,
                annotations=_moved(choice.annotations, Moves(given)),
            )
        elif part == _FUNCTION and choice.function_call is not None:
            call = {**choice.function_call, "arguments": apply(choice.function_call["arguments"], given)}
            choice = replace(choice, function_call=call)
        elif (match := _CALL.fullmatch(part)) and (found := _arguments(calls[int(match[1])])):
            kind, key, said = found
            call = calls[int(match[1])]
            calls[int(match[1])] = {**call, kind: {**call[kind], key: apply(said, given)}}
    if removes:
        extra = {key: value for key, value in choice.extra.items() if key not in _RESTATES}
        choice = replace(choice, reasoning="", extra=extra)
    return replace(choice, tool_calls=calls)


def _arguments(call: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Kind and key under which a tool call keeps its arguments, and their text; None where there is no text."""
    for kind, key in _BODIES:
        body = call.get(kind)
        said = body.get(key) if isinstance(body, Mapping) else None
        if isinstance(said, str) and said:
            return kind, key, said
    return None


def _moved(annotations: Sequence[Any], moves: Moves) -> list[Any]:
    """Annotations at their new places; those of which nothing stays go, those without offsets stay as they are."""
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
        first, last = moves.span(start, end)
        if first < last:
            place = {**holder, "start_index": first, "end_index": last}
            out.append(place if holder is annotation else {**annotation, kind: place})
    return out

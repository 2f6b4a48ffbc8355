"""Checking an answer while it is being written, and letting each piece leave as soon as it passed.

Every piece is judged with the text up to its own end and nothing after it, so that a stream and a plain answer, and
any way a stream was cut into deltas, give the same verdict.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from checks.types import Case, CheckedFact, Segment, SegmentCheck
from gateway.release import Out, SentenceGate
from gateway.wire.fold import Fold
from gateway.wire.types import Delta

# Only after one of these can a border have been settled; between them there is nothing to look for.
_BORDERS = frozenset(".!?…。！？।؟\n:;|")


# Pieces of one choice that are judged at once: each holds the text before it, so they are not all begun together.
_AT_ONCE = 8
# New text is looked through for borders once it is this share of the whole, so that a long answer in small deltas is
# not read from its beginning again and again: the work stays in proportion to the length, for an unnoticed delay.
_SHARE = 64
MAX_PIECES = 2_000
"""More pieces than this make an answer too long to be judged piece by piece."""


@dataclass(slots=True)
class _Choice:
    text: str = ""
    new: list[str] = field(default_factory=list)
    length: int = 0
    border: bool = False
    scheduled: int = 0
    queue: deque[Segment] = field(default_factory=deque)
    running: deque[tuple[Segment, asyncio.Task[CheckedFact]]] = field(default_factory=deque)
    facts: list[CheckedFact] = field(default_factory=list)
    complete: bool = False

    def joined(self) -> str:
        """All of the text so far."""
        if self.new:
            self.text = "".join((self.text, *self.new))
            self.new.clear()
        return self.text


class SentenceFlow:
    """The pieces of every choice on their way from text through the check to the gate.

    `objection` tells whether a checked fact stands in the way; `drop` whether such a fact is left out (`filter`) or
    stops the answer (`block`). `limit` bounds the characters of a choice. `stopped` is set once an answer has been
    stopped, `too_long` once it has outgrown the limit; then nothing more is judged.
    """

    def __init__(
        self,
        check: SegmentCheck,
        gate: SentenceGate,
        case_of: Callable[[int, str], Case],
        objection: Callable[[CheckedFact], bool],
        *,
        drop: bool,
        limit: int,
    ) -> None:
        self._check = check
        self._gate = gate
        self._case_of = case_of
        self._objection = objection
        self._drop = drop
        self._limit = limit
        self._choices: dict[int, _Choice] = {}
        self.stopped = False
        self.too_long = False

    def grow(self, index: int, piece: str) -> None:
        """More text of a choice has come; pieces that are settled by it go to the check."""
        choice = self._choices.setdefault(index, _Choice())
        choice.new.append(piece)
        choice.length += len(piece)
        choice.border = choice.border or not _BORDERS.isdisjoint(piece)
        if choice.length > self._limit:
            self.too_long = True
        elif choice.border and (choice.length - len(choice.text)) * _SHARE >= choice.length:
            text = choice.joined()
            choice.border = False
            self._schedule(index, choice, text[: self._check.settled(text)])

    def complete(self, index: int) -> None:
        """A choice's text has ended; what is left of it goes to the check."""
        choice = self._choices.setdefault(index, _Choice())
        choice.complete = True
        self._schedule(index, choice, choice.joined())

    def _schedule(self, index: int, choice: _Choice, settled: str) -> None:
        segments = self._check.segments(settled)
        if len(segments) > MAX_PIECES:
            self.too_long = True
            return
        choice.queue.extend(segments[choice.scheduled :])
        choice.scheduled = max(choice.scheduled, len(segments))
        self._begin(index, choice)

    def _begin(self, index: int, choice: _Choice) -> None:
        while choice.queue and len(choice.running) < _AT_ONCE:
            segment = choice.queue.popleft()
            case = self._case_of(index, choice.text[: segment.end])
            task = asyncio.create_task(self._check.check_segment(case, segment))
            choice.running.append((segment, task))

    def waiting(self) -> set[asyncio.Task[CheckedFact]]:
        """The next piece of each choice whose check is under way."""
        return {choice.running[0][1] for choice in self._choices.values() if choice.running}

    def harvest(self) -> Iterator[Out]:
        """Take in the checks that have ended, in text order, and let go what passed."""
        for index, choice in self._choices.items():
            while choice.running and choice.running[0][1].done() and not self.stopped:
                segment, task = choice.running.popleft()
                fact = task.result()
                choice.facts.append(fact)
                self._begin(index, choice)
                if not self._objection(fact):
                    yield from self._gate.approve(index, choice.text, segment.end)
                elif self._drop:
                    self._gate.drop(index, segment.end)
                else:
                    self.stopped = True
            if choice.complete and not choice.running and not self.stopped:
                # What follows the last piece is white space only.
                text = choice.text.rstrip()
                yield from self._gate.approve(index, text, len(text))

    def release_all(self) -> Iterator[Out]:
        """Let go all that has come, judged or not: for an answer too long to judge, where that is allowed."""
        for index, choice in self._choices.items():
            text = choice.joined()
            yield from self._gate.approve(index, text, len(text))

    def facts(self, index: int) -> tuple[CheckedFact, ...]:
        """Every fact judged so far, with offsets in the upstream's text."""
        choice = self._choices.get(index)
        return tuple(choice.facts) if choice else ()

    def judged_texts(self) -> Mapping[int, str]:
        """Per choice its text; of a stopped answer only up to the last judged piece, whatever more had come by then."""
        if not self.stopped:
            return {index: choice.joined() for index, choice in self._choices.items()}
        return {
            index: choice.text[: choice.facts[-1].segment.end if choice.facts else 0]
            for index, choice in self._choices.items()
        }

    async def drain(self) -> AsyncGenerator[Out, None]:
        """Wait for all pieces still under way, letting go each as it passes."""
        for out in self.harvest():
            yield out
        while not self.stopped and not self.too_long and (waiting := self.waiting()):
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for out in self.harvest():
                yield out

    def cancel(self) -> None:
        """Stop every check still under way."""
        for choice in self._choices.values():
            for _, task in choice.running:
                task.cancel()


async def run_sentences(
    flow: SentenceFlow, deltas: AsyncIterator[Delta], fold: Fold, gate: SentenceGate, *, let_long_pass: bool
) -> AsyncGenerator[Out, None]:
    """Read the upstream and judge what has settled, side by side, until the answer ends or is stopped.

    An answer that is too long to judge passes unjudged if `let_long_pass`, else reading stops.
    """
    reading: asyncio.Task[Delta] | None = asyncio.ensure_future(anext(deltas))
    try:
        while reading is not None and not flow.stopped and (let_long_pass or not flow.too_long):
            waiting: set[asyncio.Future[Delta] | asyncio.Future[CheckedFact]] = {reading}
            if not flow.too_long:
                waiting |= flow.waiting()
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading = _take(reading, deltas, fold, flow, gate)
            for out in flow.release_all() if flow.too_long and let_long_pass else flow.harvest():
                yield out
        if reading is None and not flow.too_long:
            for index in fold.answer().choices:
                flow.complete(index)
            async with aclosing(flow.drain()) as outs:
                async for out in outs:
                    yield out
        if flow.too_long and let_long_pass and not flow.stopped:
            for out in flow.release_all():
                yield out
    finally:
        flow.cancel()
        if reading is not None:
            reading.cancel()


def _take(
    reading: asyncio.Task[Delta], deltas: AsyncIterator[Delta], fold: Fold, flow: SentenceFlow, gate: SentenceGate
) -> asyncio.Task[Delta] | None:
    """Take in the delta that was read and begin to read the next; None at the end of the answer."""
    try:
        delta = reading.result()
    except StopAsyncIteration:
        return None
    fold.add(delta)
    gate.keep(delta)
    for choice in delta.view.choices or ():
        message = choice.delta or choice.message
        if message is not None and isinstance(message.content, str):
            flow.grow(choice.index, message.content)
    return asyncio.ensure_future(anext(deltas))

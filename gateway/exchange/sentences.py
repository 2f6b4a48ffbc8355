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


@dataclass(slots=True)
class _Choice:
    text: str = ""
    scanned: int = 0
    scheduled: int = 0
    queue: deque[tuple[Segment, asyncio.Task[CheckedFact]]] = field(default_factory=deque)
    facts: list[CheckedFact] = field(default_factory=list)
    complete: bool = False


class SentenceFlow:
    """The pieces of every choice on their way from text through the check to the gate.

    `objection` tells whether a checked fact stands in the way; `drop` whether such a fact is left out (`filter`) or
    stops the answer (`block`). `stopped` is set once an answer has been stopped.
    """

    def __init__(
        self,
        check: SegmentCheck,
        gate: SentenceGate,
        case_of: Callable[[int, str], Case],
        objection: Callable[[CheckedFact], bool],
        *,
        drop: bool,
    ) -> None:
        self._check = check
        self._gate = gate
        self._case_of = case_of
        self._objection = objection
        self._drop = drop
        self._choices: dict[int, _Choice] = {}
        self.stopped = False

    def grow(self, index: int, piece: str) -> None:
        """More text of a choice has come; pieces that are settled by it go to the check."""
        choice = self._choices.setdefault(index, _Choice())
        choice.text += piece
        if not _BORDERS.isdisjoint(piece):
            self._schedule(index, choice, choice.text[: self._check.settled(choice.text)])

    def complete(self, index: int) -> None:
        """A choice's text has ended; what is left of it goes to the check."""
        choice = self._choices.setdefault(index, _Choice())
        choice.complete = True
        self._schedule(index, choice, choice.text)

    def _schedule(self, index: int, choice: _Choice, settled: str) -> None:
        if len(settled) <= choice.scanned:
            return
        choice.scanned = len(settled)
        segments = self._check.segments(settled)
        for segment in segments[choice.scheduled :]:
            case = self._case_of(index, choice.text[: segment.end])
            task = asyncio.create_task(self._check.check_segment(case, segment))
            choice.queue.append((segment, task))
        choice.scheduled = len(segments)

    def waiting(self) -> set[asyncio.Task[CheckedFact]]:
        """The next piece of each choice whose check is under way."""
        return {choice.queue[0][1] for choice in self._choices.values() if choice.queue}

    def harvest(self) -> Iterator[Out]:
        """Take in the checks that have ended, in text order, and let go what passed."""
        for index, choice in self._choices.items():
            while choice.queue and choice.queue[0][1].done() and not self.stopped:
                segment, task = choice.queue.popleft()
                fact = task.result()
                choice.facts.append(fact)
                if not self._objection(fact):
                    yield from self._gate.approve(index, choice.text, segment.end)
                elif self._drop:
                    self._gate.drop(index, segment.end)
                else:
                    self.stopped = True
            if choice.complete and not choice.queue and not self.stopped:
                # What follows the last piece is white space only.
                yield from self._gate.approve(index, choice.text.rstrip(), len(choice.text.rstrip()))

    def facts(self, index: int) -> tuple[CheckedFact, ...]:
        """Every fact judged so far, with offsets in the upstream's text."""
        choice = self._choices.get(index)
        return tuple(choice.facts) if choice else ()

    def judged_texts(self) -> Mapping[int, str]:
        """Per choice its text; of a stopped answer only up to the last judged piece, whatever more had come by then."""
        if not self.stopped:
            return {index: choice.text for index, choice in self._choices.items()}
        return {
            index: choice.text[: choice.facts[-1].segment.end if choice.facts else 0]
            for index, choice in self._choices.items()
        }

    async def drain(self) -> AsyncGenerator[Out, None]:
        """Wait for all pieces still under way, letting go each as it passes."""
        for out in self.harvest():
            yield out
        while not self.stopped and (waiting := self.waiting()):
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for out in self.harvest():
                yield out

    def cancel(self) -> None:
        """Stop every check still under way."""
        for choice in self._choices.values():
            for _, task in choice.queue:
                task.cancel()


async def run_sentences(
    flow: SentenceFlow, deltas: AsyncIterator[Delta], fold: Fold, gate: SentenceGate
) -> AsyncGenerator[Out, None]:
    """Read the upstream and judge what has settled, side by side, until the answer ends or is stopped."""
    reading: asyncio.Task[Delta] | None = asyncio.ensure_future(anext(deltas))
    try:
        while reading is not None and not flow.stopped:
            waiting: set[asyncio.Future[Delta] | asyncio.Future[CheckedFact]] = {reading, *flow.waiting()}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading = _take(reading, deltas, fold, flow, gate)
            for out in flow.harvest():
                yield out
        if reading is None:
            for index in fold.answer().choices:
                flow.complete(index)
            async with aclosing(flow.drain()) as outs:
                async for out in outs:
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

"""An asynchronous front for a synchronous encoder: one worker thread, micro-batches by token budget.

While the thread works, texts gather; when it is free it takes what is there. So a lone query never waits for company,
and under load batches grow by themselves. Queries go before passages, and passages go in small batches, so that a query
waits for one of them at most; after several batches of queries in a row one batch of waiting passages has its turn.

Knows no model: any `Encoder` will do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from retrieval.errors import EncodeError
from retrieval.types import Encoder

if TYPE_CHECKING:
    from retrieval.types import Vectors

Vector = npt.NDArray[np.float32]
LETTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BatcherSettings:
    """Bounds of the queue and of a batch; tokens are estimated from the length of the text.

    `max_waiting` texts may wait; more are refused at once. `query_tokens` and `passage_tokens` bound a batch of each
    kind. After `queries_in_a_row` batches of queries one of waiting passages has its turn.
    """

    max_waiting: int = 2048
    query_tokens: int = 2048
    passage_tokens: int = 256
    queries_in_a_row: int = 8


@dataclass(slots=True)
class _Item:
    text: str
    tokens: int
    done: asyncio.Future[Vector]


@dataclass(slots=True)
class _Lane:
    """The waiting texts of one kind, in order of arrival."""

    encode: Callable[[Sequence[str]], Vectors]
    budget: int
    items: deque[_Item]

    def take(self) -> list[_Item]:
        """The next batch: at least one text if any waits, then as many as the budget allows; cancelled ones vanish."""
        batch: list[_Item] = []
        tokens = 0
        while self.items:
            item = self.items[0]
            if item.done.done():
                self.items.popleft()
                continue
            if batch and tokens + item.tokens > self.budget:
                break
            batch.append(self.items.popleft())
            tokens += item.tokens
        return batch

    def purge(self) -> None:
        """Drops texts whose callers have gone."""
        self.items = deque(item for item in self.items if not item.done.done())


class Batcher:
    """`async with Batcher(encoder) as batcher: vector = await batcher.encode_query(text)`.

    Every method raises `EncodeError`: when the encoder failed, when the queue is full, and when it is closed. A caller
    that is cancelled gives up its place; what is already in the thread finishes there and is dropped.
    """

    def __init__(self, encoder: Encoder, settings: BatcherSettings | None = None) -> None:
        self._settings = settings or BatcherSettings()
        self._max_tokens = encoder.max_tokens
        self._dimension = encoder.dimension
        self._queries = _Lane(encoder.encode_queries, self._settings.query_tokens, deque())
        self._passages = _Lane(encoder.encode_passages, self._settings.passage_tokens, deque())
        self._in_a_row = 0
        self._wake = asyncio.Event()
        self._closed = True
        self._executor: ThreadPoolExecutor | None = None
        self._worker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encode")
        self._closed = False
        self._worker = asyncio.create_task(self._work(self._executor), name="encode")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        for lane in (self._queries, self._passages):
            for item in lane.items:
                _fail(item, EncodeError("the encoder was shut down before this text had its turn"))
            lane.items.clear()
        self._wake.set()
        try:
            if self._worker is not None:
                await self._worker
        finally:
            if self._executor is not None:
                self._executor.shutdown(wait=False)

    @property
    def waiting(self) -> int:
        """Texts in the queue, not counting those in the thread."""
        return len(self._queries.items) + len(self._passages.items)

    async def encode_query(self, text: str) -> Vector:
        """One query to one vector of shape `(dimension,)`."""
        return await self._submit(self._queries, [text])[0]

    async def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Queries to vectors of shape `(n, dimension)`, in order."""
        return self._stacked(await asyncio.gather(*self._submit(self._queries, texts)))

    async def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """Passages to vectors of shape `(n, dimension)`, in order.

        Long lists enter the queue part by part, so that one caller does not fill it.
        """
        part = max(1, self._settings.max_waiting // 4)
        rows: list[Vector] = []
        for first in range(0, len(texts), part):
            rows += await asyncio.gather(*self._submit(self._passages, texts[first : first + part]))
        return self._stacked(rows)

    def _stacked(self, rows: Sequence[Vector]) -> Vectors:
        return np.stack(rows) if rows else np.empty((0, self._dimension), dtype=np.float32)

    def _submit(self, lane: _Lane, texts: Sequence[str]) -> list[asyncio.Future[Vector]]:
        if self._closed:
            raise EncodeError("the encoder is not running", hint="it is starting or shutting down; try again")
        if self.waiting + len(texts) > self._settings.max_waiting:
            self._queries.purge()
            self._passages.purge()
        if self.waiting + len(texts) > self._settings.max_waiting:
            raise EncodeError(
                f"the encoder's queue is full: {self.waiting} texts wait, at most {self._settings.max_waiting} may",
                hint="send fewer requests at once, or add workers",
            )
        loop = asyncio.get_running_loop()
        items = [_Item(text, self._tokens(text), loop.create_future()) for text in texts]
        lane.items.extend(items)
        self._wake.set()
        return [item.done for item in items]

    def _tokens(self, text: str) -> int:
        return min(len(text) // LETTERS_PER_TOKEN + 2, self._max_tokens)

    # --- the worker ---

    async def _work(self, executor: ThreadPoolExecutor) -> None:
        while not self._closed:
            lane, batch = self._next()
            if batch:
                await self._encode(executor, lane, batch)
                continue
            self._wake.clear()
            await self._wake.wait()

    def _next(self) -> tuple[_Lane, list[_Item]]:
        lanes = [self._queries, self._passages]
        if self._in_a_row >= self._settings.queries_in_a_row:
            lanes.reverse()
        for lane in lanes:
            if batch := lane.take():
                self._in_a_row = self._in_a_row + 1 if lane is self._queries else 0
                return lane, batch
        return self._queries, []

    async def _encode(self, executor: ThreadPoolExecutor, lane: _Lane, batch: Sequence[_Item]) -> None:
        loop = asyncio.get_running_loop()
        texts = [item.text for item in batch]
        try:
            vectors = await loop.run_in_executor(executor, lane.encode, texts)
        except EncodeError as error:
            # The encoder's own verdict (an endpoint is down, say): asking again for each text would repeat the wait.
            for item in batch:
                _fail(item, _copied(error))
        except Exception as error:  # an encoder from elsewhere: one bad text must not fail its neighbours
            if len(batch) == 1:
                _fail(batch[0], _wrapped(error))
                return
            for item in batch:
                await self._encode(executor, lane, [item])
        else:
            for item, vector in zip(batch, vectors, strict=True):
                if not item.done.done():
                    item.done.set_result(vector)


def _fail(item: _Item, error: EncodeError) -> None:
    if not item.done.done():
        item.done.set_exception(error)


def _copied(error: EncodeError) -> EncodeError:
    # One exception object raised to several waiters would collect the tracebacks of them all.
    copy = EncodeError(str(error), hint=error.hint)
    copy.__cause__ = error
    return copy


def _wrapped(error: Exception) -> EncodeError:
    wrapped = EncodeError(f"the encoder failed: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped

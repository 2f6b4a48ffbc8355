import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest

from retrieval.encode import Batcher, BatcherSettings, HashEncoder
from retrieval.errors import EncodeError

if TYPE_CHECKING:
    from retrieval.types import Vectors


class GatedEncoder(HashEncoder):
    """The hash encoder behind a gate; remembers the batches it was given and the threads that came."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)
        self.calls: list[tuple[str, list[str]]] = []
        self.threads: set[int] = set()

    def encode_queries(self, texts: Sequence[str]) -> "Vectors":
        return self._gated("queries", texts)

    def encode_passages(self, texts: Sequence[str]) -> "Vectors":
        return self._gated("passages", texts)

    def _gated(self, kind: str, texts: Sequence[str]) -> "Vectors":
        self.calls.append((kind, list(texts)))
        self.threads.add(threading.get_ident())
        self.entered.release()
        assert self.gate.wait(30)
        if "boom" in texts:
            raise ValueError("poison")
        if "down" in texts:
            raise EncodeError("endpoint is down", hint="start it")
        return super().encode_passages(texts)

    async def busy(self) -> None:
        """Returns once another batch is in the thread."""
        await asyncio.to_thread(self.entered.acquire)


@asynccontextmanager
async def running(encoder: GatedEncoder, **changed: int) -> AsyncIterator[Batcher]:
    async with Batcher(encoder, BatcherSettings(**changed)) as batcher:
        try:
            yield batcher
        finally:
            encoder.gate.set()


async def settled(batcher: Batcher, waiting: int) -> None:
    while batcher.waiting != waiting:
        await asyncio.sleep(0)


def equal(found: "Vectors", texts: Sequence[str]) -> bool:
    return bool(np.allclose(found, HashEncoder().encode_passages(texts)))


async def test_texts_that_wait_together_are_encoded_together_in_one_thread() -> None:
    encoder = GatedEncoder()
    async with running(encoder) as batcher:
        first = asyncio.create_task(batcher.encode_query("first"))
        await encoder.busy()
        others = [asyncio.create_task(batcher.encode_query(f"q{n}")) for n in range(20)]
        await settled(batcher, 20)
        encoder.gate.set()
        found = await asyncio.gather(*others)
        await first
    assert equal(np.stack(found), [f"q{n}" for n in range(20)])
    assert encoder.calls == [("queries", ["first"]), ("queries", [f"q{n}" for n in range(20)])]
    assert len(encoder.threads) == 1


async def test_lists_come_back_in_order_and_empty_lists_are_no_error() -> None:
    encoder = GatedEncoder()
    encoder.gate.set()
    texts = [f"passage {n} " * (n % 7 + 1) for n in range(50)]
    async with running(encoder, passage_tokens=30) as batcher:
        assert equal(await batcher.encode_passages(texts), texts)
        assert equal(await batcher.encode_queries(texts), texts)
        assert (await batcher.encode_queries([])).shape == (0, encoder.dimension)
        assert (await batcher.encode_passages([])).shape == (0, encoder.dimension)


async def test_a_query_does_not_wait_behind_a_long_ingest() -> None:
    encoder = GatedEncoder()
    async with running(encoder, passage_tokens=20) as batcher:
        ingest = asyncio.create_task(batcher.encode_passages(["x" * 60] * 10))
        await encoder.busy()
        query = asyncio.create_task(batcher.encode_query("urgent"))
        await settled(batcher, 10)
        encoder.gate.set()
        await asyncio.gather(ingest, query)
    assert [kind for kind, _ in encoder.calls][:2] == ["passages", "queries"]


async def test_an_ingest_goes_on_under_a_flood_of_queries() -> None:
    encoder = GatedEncoder()
    async with running(encoder, query_tokens=1, queries_in_a_row=3) as batcher:
        first = asyncio.create_task(batcher.encode_query("first"))
        await encoder.busy()
        queries = [asyncio.create_task(batcher.encode_query(f"q{n}")) for n in range(10)]
        ingest = asyncio.create_task(batcher.encode_passages(["p"]))
        await settled(batcher, 11)
        encoder.gate.set()
        await asyncio.gather(first, ingest, *queries)
    assert [kind for kind, _ in encoder.calls].index("passages") == 3


async def test_a_cancelled_caller_costs_no_work_and_harms_nobody() -> None:
    encoder = GatedEncoder()
    async with running(encoder) as batcher:
        running_one = asyncio.create_task(batcher.encode_query("running"))
        await encoder.busy()
        gone = asyncio.create_task(batcher.encode_query("gone"))
        stays = asyncio.create_task(batcher.encode_query("stays"))
        await settled(batcher, 2)
        gone.cancel()
        running_one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        encoder.gate.set()
        assert equal((await stays).reshape(1, -1), ["stays"])
    assert encoder.calls == [("queries", ["running"]), ("queries", ["stays"])]


async def test_a_full_queue_refuses_at_once_and_says_so() -> None:
    encoder = GatedEncoder()
    async with running(encoder, max_waiting=4) as batcher:
        first = asyncio.create_task(batcher.encode_query("first"))
        await encoder.busy()
        waiting = [asyncio.create_task(batcher.encode_query(f"q{n}")) for n in range(4)]
        await settled(batcher, 4)
        with pytest.raises(EncodeError, match="queue is full") as caught:
            await batcher.encode_query("one too many")
        assert caught.value.hint
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        again = asyncio.create_task(batcher.encode_query("in the place of the cancelled one"))
        await settled(batcher, 4)
        encoder.gate.set()
        await asyncio.gather(first, again, *waiting[1:])


async def test_a_long_list_of_passages_does_not_fill_the_queue_by_itself() -> None:
    encoder = GatedEncoder()
    encoder.gate.set()
    texts = [f"p{n}" for n in range(40)]
    async with running(encoder, max_waiting=8) as batcher:
        assert equal(await batcher.encode_passages(texts), texts)


async def test_one_text_that_breaks_the_encoder_fails_alone() -> None:
    encoder = GatedEncoder()
    async with running(encoder) as batcher:
        first = asyncio.create_task(batcher.encode_query("first"))
        await encoder.busy()
        tasks = [asyncio.create_task(batcher.encode_query(text)) for text in ("good", "boom", "fine")]
        await settled(batcher, 3)
        encoder.gate.set()
        good, bad, fine = await asyncio.gather(*tasks, return_exceptions=True)
        await first
    assert isinstance(bad, EncodeError)
    assert "poison" in str(bad)
    assert equal(np.stack([good, fine]), ["good", "fine"])  # type: ignore[list-item]


async def test_an_endpoint_that_is_down_fails_each_caller_once_and_the_next_call_works() -> None:
    encoder = GatedEncoder()
    encoder.gate.set()
    async with running(encoder) as batcher:
        with pytest.raises(EncodeError, match="endpoint is down") as caught:
            await batcher.encode_queries(["a", "down", "b"])
        assert caught.value.hint == "start it"
        assert equal(await batcher.encode_queries(["a"]), ["a"])
    assert len(encoder.calls) == 2


async def test_shutting_down_answers_everybody_who_waits() -> None:
    encoder = GatedEncoder()
    batcher = Batcher(encoder)
    await batcher.__aenter__()
    running_one = asyncio.create_task(batcher.encode_query("running"))
    await encoder.busy()
    waiting = asyncio.create_task(batcher.encode_passages(["waiting"]))
    await settled(batcher, 1)
    closing = asyncio.create_task(batcher.__aexit__(None, None, None))
    with pytest.raises(EncodeError, match="shut down"):
        await waiting
    assert not closing.done()
    encoder.gate.set()
    await closing
    assert (await running_one).shape == (encoder.dimension,)
    with pytest.raises(EncodeError, match="not running"):
        await batcher.encode_query("late")


async def test_a_batcher_that_was_never_started_says_so() -> None:
    with pytest.raises(EncodeError, match="not running"):
        await Batcher(HashEncoder()).encode_query("early")

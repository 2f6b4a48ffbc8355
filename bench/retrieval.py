"""Query to hits over synthetic passages, by vectors, by words and by both, beside raw faiss on the same vectors.

    python -m bench.retrieval [--passages 10000] [--queries 500] [--encoder onnx] [--keep DIR]

Prints the median and the 99th percentile, in milliseconds, of encoding a query, of each search, and of both through
the retriever that the gateway uses; then questions per second with 32 callers at once, and how many of the exact 10
nearest the index finds. The target for 100,000 passages is a median of 10 ms and a 99th percentile of 30 ms from query
to hits, both legs searched. Every passage is made of the same few words, which is the worst case for the lexical leg:
each question meets most passages. Ingest time is printed too: it is mostly the encoder. `--keep` leaves the collection
for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt

from retrieval.collection import Collection
from retrieval.encode import Batcher, HashEncoder, default_encoder
from retrieval.hybrid import Question
from retrieval.index.faiss import FaissIndex
from retrieval.retriever import CollectionRetriever, RetrieverSettings
from retrieval.store import PassageStore
from retrieval.types import Document, Encoder, Scope
from retrieval.writer import STORE, CollectionSettings, IngestOptions

CALLERS = 32
SUBJECTS = ("The pump", "A reserve valve", "Each operator", "The depot", "Our supplier", "The night shift", "A sensor")
VERBS = ("inspects", "replaces", "records", "delivers", "measures", "calibrates", "reports", "isolates")
OBJECTS = ("the main filter", "a spare gasket", "every shipment", "the cooling circuit", "two panels", "the safety log")


class SyntheticLoader:
    """One file that says how many documents there are; each is one passage of about twenty words."""

    suffixes: tuple[str, ...] = (".synthetic",)

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        for number in range(int(path.read_text())):
            text = sentence(number)
            digest = hashlib.sha256(text.encode()).hexdigest()
            yield Document(id=f"d{number}", source=path.name, title=f"Record {number}", text=text, sha256=digest)


def sentence(number: int) -> str:
    """Text of document `number`, always the same."""
    rng = random.Random(number)
    what = f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}"
    return f"{what} on day {rng.randrange(365)} in hall {rng.randrange(90)}. Reference {number}."


def question(number: int) -> str:
    rng = random.Random(-number)
    return f"Who {rng.choice(VERBS)} {rng.choice(OBJECTS)} in hall {rng.randrange(90)} on day {rng.randrange(365)}?"


def line(name: str, times: list[float]) -> None:
    median, tail = np.percentile(np.array(times) * 1e3, [50, 99])
    print(f"{name:<34} median {median:7.2f} ms   p99 {tail:7.2f} ms")


async def timed(call: Callable[[str], Awaitable[object]], texts: list[str]) -> list[float]:
    times = []
    for text in texts:
        start = time.perf_counter()
        await call(text)
        times.append(time.perf_counter() - start)
    return times


async def measure(collection: Collection, encoder: Encoder, queries: list[str]) -> None:
    scope = Scope(k=9)
    async with Batcher(encoder) as batcher:
        retriever = CollectionRetriever({"bench": collection}, batcher)
        inline = CollectionRetriever({"bench": collection}, batcher, RetrieverSettings(inline_until=1_000_000))
        await timed(lambda text: retriever.retrieve(text, scope), queries[:20])
        line("encode", await timed(batcher.encode_query, queries))
        vectors = dict(zip(queries, await batcher.encode_queries(queries), strict=True))
        searches: dict[str, Callable[[str], object]] = {
            "search, vectors": lambda text: collection.search(vectors[text][None], 9),
            "search, words": lambda text: collection.find(Question(text=text, vector=None), 9),
            "search, both": lambda text: collection.find(Question(text=text, vector=vectors[text]), 9),
        }
        for name, search in searches.items():

            async def one_search(text: str, search: Callable[[str], object] = search) -> None:
                search(text)

            line(name, await timed(one_search, queries))
        start = time.thread_time()
        for text in queries:
            searches["search, both"](text)
        used = (time.thread_time() - start) / len(queries) * 1e3
        print(f"{'search, both: processor time':<34} mean   {used:7.2f} ms")
        line("retrieve (encode + both)", await timed(lambda text: retriever.retrieve(text, scope), queries))
        line("retrieve, on the event loop only", await timed(lambda text: inline.retrieve(text, scope), queries))
        gate = asyncio.Semaphore(CALLERS)

        async def one(text: str) -> None:
            async with gate:
                await retriever.retrieve(text, scope)

        start = time.perf_counter()
        await asyncio.gather(*(one(text) for text in queries))
        print(f"{f'{CALLERS} callers at once':<34} {len(queries) / (time.perf_counter() - start):7.0f} questions/s")
    beside_faiss(collection, np.stack(list(vectors.values())))


def beside_faiss(collection: Collection, queries: npt.NDArray[np.float32]) -> None:
    """The same vectors in faiss's own exact index, one query at a time, and how much of its answer ours holds."""
    index = FaissIndex.load(next(collection.directory.glob("index-*")), signature=collection.signature())
    ids = PassageStore.open(collection.directory / STORE).rows()
    stored = index.vectors(ids.tolist())
    raw = faiss.IndexFlatIP(stored.shape[1])
    raw.add(stored)
    times, exact = [], []
    for query in queries:
        start = time.perf_counter()
        _, found = raw.search(query[None], 10)
        times.append(time.perf_counter() - start)
        exact.append({int(ids[at]) for at in found[0]})
    line("raw faiss, exact", times)
    start = time.perf_counter()
    ours = index.search(queries, 10)
    seconds = time.perf_counter() - start
    same = sum(len(want & {row for row, _ in got}) for want, got in zip(exact, ours, strict=True))
    print(f"{'recall@10 against exact':<34} {same / (10 * len(queries)):7.4f}")
    print(f"{'vectors, all queries in one batch':<34} {len(queries) / seconds:7.0f} questions/s")


@contextmanager
def kept(directory: str | None) -> Iterator[Path]:
    if directory:
        Path(directory).mkdir(parents=True, exist_ok=True)
        yield Path(directory)
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--encoder", choices=["onnx", "hash"], default="onnx")
    parser.add_argument("--keep", default=None)
    options = parser.parse_args()
    encoder: Encoder = default_encoder() if options.encoder == "onnx" else HashEncoder()
    with kept(options.keep) as directory:
        source = directory / "all.synthetic"
        if not source.exists() or source.read_text() != str(options.passages):
            source.write_text(str(options.passages))
        with Collection.open(directory / "collection", CollectionSettings(), encoder) as collection:
            start = time.perf_counter()
            report = collection.ingest([source], IngestOptions(loaders=(SyntheticLoader(),)))
            seconds = time.perf_counter() - start
            stats = collection.stats()
            print(f"{stats.index.live} passages, {stats.index.kind}, {options.encoder}; ingested in {seconds:.1f} s")
            each = stats.bytes_on_disk / max(1, stats.index.live)
            print(f"{report.encoded / seconds:.0f} passages/s, {each:.0f} bytes each on disk")
            asyncio.run(measure(collection, encoder, [question(number) for number in range(options.queries)]))


if __name__ == "__main__":
    main()

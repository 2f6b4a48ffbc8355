"""Query to hits over synthetic passages.

    python -m bench.retrieval [--passages 10000] [--queries 500] [--encoder onnx]

Prints the median and the 99th percentile, in milliseconds, of encoding a query, of searching with its vector, and of
both through the retriever that the gateway uses; then questions per second with 32 callers at once. The target for
10,000 passages is a median under 10 ms. Ingest time is printed too: it is mostly the encoder.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import numpy as np

from retrieval.collection import Collection
from retrieval.encode import Batcher, HashEncoder, default_encoder
from retrieval.retriever import CollectionRetriever, RetrieverSettings
from retrieval.types import Document, Encoder, Scope
from retrieval.writer import CollectionSettings, IngestOptions

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
        vectors = await batcher.encode_queries(queries)

        async def search(text: str) -> None:
            collection.search(vectors[queries.index(text)][None], 9)

        line("search", await timed(search, queries))
        line("retrieve (encode + search)", await timed(lambda text: retriever.retrieve(text, scope), queries))
        line("retrieve, on the event loop only", await timed(lambda text: inline.retrieve(text, scope), queries))
        gate = asyncio.Semaphore(CALLERS)

        async def one(text: str) -> None:
            async with gate:
                await retriever.retrieve(text, scope)

        start = time.perf_counter()
        await asyncio.gather(*(one(text) for text in queries))
        print(f"{f'{CALLERS} callers at once':<34} {len(queries) / (time.perf_counter() - start):7.0f} questions/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--encoder", choices=["onnx", "hash"], default="onnx")
    options = parser.parse_args()
    encoder: Encoder = default_encoder() if options.encoder == "onnx" else HashEncoder()
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "all.synthetic"
        source.write_text(str(options.passages))
        with Collection.open(Path(directory) / "collection", CollectionSettings(), encoder) as collection:
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

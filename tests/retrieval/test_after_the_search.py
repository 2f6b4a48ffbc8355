"""What becomes of hits after the search: a reranker in time or not, spreading, neighbours in the document."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.collection import Collection
from retrieval.errors import SearchError
from retrieval.rerank import EndpointReranker, EndpointSettings
from retrieval.retriever import CollectionRetriever, RetrieverSettings
from retrieval.split import SplitSettings
from retrieval.spread import spread
from retrieval.types import Hit, Passage, Scope
from retrieval.writer import IngestOptions
from tests.retrieval.library import SETTINGS, TOPICS, CountingEncoder, write_library
from tests.retrieval.sources import JsonLoader, write_json


class Direct:
    async def encode_query(self, text: str) -> np.ndarray:
        return np.asarray(CountingEncoder().encode_queries([text])[0])


class RerankServer(ThreadingHTTPServer):
    """Prefers the text that holds `favourite`; answers `reply` instead where it is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.favourite = ""
        self.reply: tuple[int, bytes] | None = None
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/rerank"

    def answer(self, body: dict[str, Any]) -> tuple[int, bytes]:
        self.requests.append(body)
        if self.reply is not None:
            return self.reply
        texts = body.get("documents") or body["texts"]
        scores = [(n, float(self.favourite in text)) for n, text in enumerate(texts)][::-1]
        if "texts" in body:
            return 200, json.dumps([{"index": n, "score": score} for n, score in scores]).encode()
        return 200, json.dumps({"results": [{"index": n, "relevance_score": score} for n, score in scores]}).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RerankServer

    def do_POST(self) -> None:
        status, content = self.server.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[RerankServer]:
    with RerankServer() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=30) as opened:
        yield opened


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "library", SETTINGS, CountingEncoder()) as opened:
        opened.ingest([write_library(tmp_path / "docs")])
        yield opened


@pytest.mark.parametrize("dialect", ["cohere", "tei"])
async def test_a_reranker_decides_which_hit_is_first(
    library: Collection, server: RerankServer, client: httpx.Client, dialect: Any
) -> None:
    server.favourite = "lampblack"
    reranker = EndpointReranker(EndpointSettings(url=server.url, dialect=dialect, model="m"), client)
    found = await CollectionRetriever({"lib": library}, Direct(), None, reranker).retrieve(TOPICS[0], Scope(k=1))
    assert "lampblack" in found.hits[0].passage.text
    assert found.detail == ""


@pytest.mark.parametrize(
    "reply",
    [
        (500, b"broken"),
        (200, b"not json"),
        (200, b'{"results": []}'),
        (200, b'{"results": [{"index": 0, "relevance_score": NaN}]}'),
        (200, b"[]"),
    ],
)
async def test_a_broken_reranker_costs_its_order_only_and_is_named(
    library: Collection, server: RerankServer, client: httpx.Client, reply: tuple[int, bytes]
) -> None:
    server.reply = reply
    reranker = EndpointReranker(EndpointSettings(url=server.url), client)
    plain = await CollectionRetriever({"lib": library}, Direct()).retrieve(TOPICS[0], Scope())
    found = await CollectionRetriever({"lib": library}, Direct(), None, reranker).retrieve(TOPICS[0], Scope())
    assert found.hits == plain.hits
    assert found.detail.startswith("reranker: ")


async def test_a_reranker_that_is_late_does_not_hold_up_the_answer(library: Collection) -> None:
    released = threading.Event()

    class Slow:
        def score(self, query: str, texts: Any) -> list[float]:
            released.wait()
            return [0.0 for _ in texts]

    settings = RetrieverSettings(rerank_timeout_s=0.01)
    try:
        found = await CollectionRetriever({"lib": library}, Direct(), settings, Slow()).retrieve(TOPICS[0], Scope())
    finally:
        released.set()
    assert TOPICS[0] in found.hits[0].passage.text
    assert "no answer within 0.01 s" in found.detail


def test_a_reranker_that_is_away_is_an_error_of_retrieval(client: httpx.Client) -> None:
    with pytest.raises(SearchError, match="cannot be reached"):
        EndpointReranker(EndpointSettings(url="http://127.0.0.1:9/rerank"), client).score("q", ["a", "b"])


def hit(text: str, score: float = 0.5) -> Hit:
    return Hit(
        passage=Passage(id=text, document_id="d", title="", text=text, start=0, end=len(text), sha256=text), score=score
    )


def test_passages_that_say_the_same_in_other_order_give_way_to_others() -> None:
    hits = [hit("the heron weighs 24 kilograms"), hit("24 kilograms the heron weighs"), hit("ferries sail at nine")]
    assert [each.passage.text for each in spread(hits, 2, 0.5)] == [hits[0].passage.text, hits[2].passage.text]
    assert spread(hits, 2, 0.0) == tuple(hits[:2])


@given(st.lists(st.text("ab ", max_size=8), unique=True, max_size=12), st.integers(0, 12), st.floats(0, 1))
def test_spreading_loses_no_hit_invents_none_and_keeps_the_best_first(texts: list[str], k: int, share: float) -> None:
    hits = [hit(text) for text in texts]
    chosen = spread(hits, k, share)
    assert len(chosen) == min(k, len(hits))
    names = [each.passage.id for each in chosen]
    assert len(set(names)) == len(names)
    assert set(names) <= set(texts)
    if chosen and share < 1.0:
        assert chosen[0] == hits[0]


async def test_neighbours_come_after_the_hits_from_the_same_document_and_only_to_those_who_may_see_it(
    tmp_path: Path,
) -> None:
    settings = replace(SETTINGS, split=SplitSettings(target_tokens=16))
    rows = [
        {"id": "open", "text": "\n\n".join(f"{topic}." for topic in TOPICS)},
        {"id": "closed", "text": f"{TOPICS[2]} at night.", "metadata": {"groups": "board"}},
    ]
    with Collection.open(tmp_path / "c", settings, CountingEncoder()) as collection:
        collection.ingest([write_json(tmp_path / "a.json", rows)], IngestOptions(loaders=(JsonLoader(),)))
        wide = CollectionRetriever({"c": collection}, Direct(), RetrieverSettings(neighbours=1))
        hits = (await wide.retrieve(TOPICS[2], Scope(k=1))).hits
        board = (await wide.retrieve("night", Scope(k=1, groups=frozenset({"board"})))).hits
        public = collection.beside(board[0].passage, 1, Scope())
    assert len(hits) == 3
    assert TOPICS[2] in hits[0].passage.text
    assert hits[1].passage.end <= hits[0].passage.start < hits[0].passage.end <= hits[2].passage.start
    assert {each.score for each in hits} == {hits[0].score}
    assert [each.passage.document_id for each in board] == ["closed"]
    assert public == []

import json
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from retrieval.encode import OpenAIEncoder, OpenAIEncoderSettings
from retrieval.errors import EncodeError

from .embedding_server import EmbeddingServer, serving


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with serving() as running:
        yield running


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=10) as opened:
        yield opened


class Waits(list[float]):
    """Takes the place of sleeping and remembers how long it would have been."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def settings(server: EmbeddingServer, **changed: object) -> OpenAIEncoderSettings:
    return OpenAIEncoderSettings(**{"base_url": server.url, "model": "m", **changed})  # type: ignore[arg-type]


def test_the_dimension_is_learnt_and_results_come_in_order(server: EmbeddingServer, client: httpx.Client) -> None:
    encoder = OpenAIEncoder.open(settings(server, revision="7"), client)
    texts = [f"text number {n}" for n in range(5)]
    assert np.allclose(encoder.encode_passages(texts), server.encoder.encode_passages(texts), atol=1e-5)
    assert encoder.dimension == 96
    assert encoder.signature().revision == "7"


def test_large_inputs_go_in_requests_the_endpoint_accepts(server: EmbeddingServer, client: httpx.Client) -> None:
    encoder = OpenAIEncoder(settings(server, batch_items=4, batch_tokens=100), client, 96)
    texts = ["short"] * 9 + ["w" * 90] * 3
    vectors = encoder.encode_passages(texts)
    assert np.allclose(vectors, server.encoder.encode_passages(texts), atol=1e-5)
    sizes = [len(request["input"]) for request in server.requests]
    assert max(sizes) <= 4
    assert sum(sizes) == 12
    assert all(sum(map(len, request["input"])) <= 100 for request in server.requests)


def test_shortened_vectors_are_asked_for_by_name(server: EmbeddingServer, client: httpx.Client) -> None:
    OpenAIEncoder.open(settings(server, dimensions=96), client)
    assert server.requests[0] == {"model": "m", "input": ["dimension"], "encoding_format": "float", "dimensions": 96}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_failure_costs_a_wait_and_not_the_ingest(
    server: EmbeddingServer, client: httpx.Client, status: int
) -> None:
    waits = Waits()
    server.replies.extend([(status, {"retry-after": "2"}, b"busy"), (status, {"retry-after": "600"}, b"busy")])
    encoder = OpenAIEncoder(settings(server, longest_wait_s=5), client, 96, sleep=waits)
    assert encoder.encode_queries(["a"]).shape == (1, 96)
    assert waits == [2, 5]


def test_an_endpoint_that_stays_down_is_given_up_on_with_its_own_words(
    server: EmbeddingServer, client: httpx.Client
) -> None:
    waits = Waits()
    server.replies.extend([(503, {}, b"model is loading")] * 9)
    with pytest.raises(EncodeError, match=r"failed 3 times.*model is loading") as caught:
        OpenAIEncoder(settings(server, attempts=3), client, 96, sleep=waits).encode_queries(["a"])
    assert caught.value.hint
    assert len(waits) == 2
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 422, 302])
def test_a_refusal_is_not_repeated(server: EmbeddingServer, client: httpx.Client, status: int) -> None:
    server.replies.append((status, {}, b'{"error": {"message": "no such model"}}'))
    with pytest.raises(EncodeError, match=f"{status}.*no such model"):
        OpenAIEncoder(settings(server), client, 96, sleep=Waits()).encode_queries(["a"])
    assert len(server.requests) == 1


BAD = [
    b"<html>",
    b"{}",
    b'{"data": []}',
    b'{"data": [{"index": 0}]}',
    b'{"data": [{"index": 1, "embedding": [1.0]}]}',
    b'{"data": [{"index": 0, "embedding": "AAAA"}]}',
    b'{"data": [{"index": 0, "embedding": []}]}',
    json.dumps({"data": [{"index": 0, "embedding": [float("nan")] * 96}]}).encode(),
    json.dumps({"data": [{"index": 0, "embedding": [1.0] * 95}]}).encode(),
]


@pytest.mark.parametrize("content", BAD)
def test_an_answer_that_is_no_vector_never_enters_an_index(
    server: EmbeddingServer, client: httpx.Client, content: bytes
) -> None:
    server.replies.append((200, {}, content))
    with pytest.raises(EncodeError, match=r"127\.0\.0\.1") as caught:
        OpenAIEncoder(settings(server), client, 96).encode_queries(["a"])
    assert caught.value.hint


def test_an_endpoint_that_is_not_there_is_named(client: httpx.Client) -> None:
    nowhere = OpenAIEncoderSettings(base_url="http://127.0.0.1:9/v1", model="m", attempts=2)
    with pytest.raises(EncodeError, match=r"127\.0\.0\.1:9.*failed 2 times.*ConnectError"):
        OpenAIEncoder.open(nowhere, client, sleep=Waits())


def test_a_base_url_that_is_none_is_named(client: httpx.Client) -> None:
    with pytest.raises(EncodeError, match="not-a-url"):
        OpenAIEncoder.open(OpenAIEncoderSettings(base_url="not-a-url", model="m", attempts=1), client, sleep=Waits())

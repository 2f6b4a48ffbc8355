"""What every encoder promises, over each one that runs here."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.encode import (
    HashEncoder,
    OnnxEncoder,
    OnnxSettings,
    OpenAIEncoder,
    OpenAIEncoderSettings,
    default_encoder,
)
from retrieval.types import Encoder

from .embedding_server import EmbeddingServer, serving

TEXTS = [
    "The harbour pilot guides the tanker through the strait.",
    "A pilot guides tankers into the harbour.",
    "Bread rises slowly in a cold kitchen.",
    "",
    "x",
    "Ünïcödé and \U0001f600 and 你好",
    "word " * 150,
]
Open = Callable[[str, str], Encoder]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddingServer]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=30) as opened:
        yield opened


@pytest.fixture(scope="module", params=["hash", "onnx", "openai"])
def opened(request: pytest.FixtureRequest, server: EmbeddingServer, client: httpx.Client) -> Open:
    """(query prefix, passage prefix) to an encoder."""

    def hashed(query: str, passage: str) -> Encoder:
        return HashEncoder(query_prefix=query, passage_prefix=passage)

    def onnx(query: str, passage: str) -> Encoder:
        return OnnxEncoder.shipped(OnnxSettings(query_prefix=query, passage_prefix=passage))

    def openai(query: str, passage: str) -> Encoder:
        chosen = OpenAIEncoderSettings(base_url=server.url, model="m", query_prefix=query, passage_prefix=passage)
        return OpenAIEncoder.open(chosen, client)

    return {"hash": hashed, "onnx": onnx, "openai": openai}[request.param]


@pytest.fixture(scope="module")
def encoder(opened: Open) -> Encoder:
    return opened("", "")


def test_an_encoder_is_one_to_the_type_checker_and_at_run_time(encoder: Encoder) -> None:
    assert isinstance(encoder, Encoder)


def test_every_text_has_one_unit_vector_in_its_place(encoder: Encoder) -> None:
    vectors = encoder.encode_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), encoder.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert encoder.signature().dimension == encoder.dimension
    assert encoder.signature().max_tokens == encoder.max_tokens


def test_no_texts_give_no_vectors(encoder: Encoder) -> None:
    assert encoder.encode_passages([]).shape == (0, encoder.dimension)
    assert encoder.encode_queries([]).shape == (0, encoder.dimension)


def test_a_text_has_the_same_vector_alone_and_in_any_company(encoder: Encoder) -> None:
    together = encoder.encode_passages(TEXTS)
    alone = np.vstack([encoder.encode_passages([text]) for text in TEXTS])
    assert ((together * alone).sum(axis=1) > 0.9999).all()
    turned = encoder.encode_passages(TEXTS[::-1])[::-1]
    assert ((together * turned).sum(axis=1) > 0.9999).all()


def test_a_related_text_lies_nearer_than_an_unrelated_one(encoder: Encoder) -> None:
    query = encoder.encode_queries(["harbour pilots and tankers"])[0]
    near, far = encoder.encode_passages([TEXTS[1], TEXTS[2]]) @ query
    assert near > far + 0.1


def test_several_threads_get_what_one_would_get(encoder: Encoder) -> None:
    expected = encoder.encode_passages(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        for vectors in pool.map(encoder.encode_passages, [TEXTS] * 4):
            assert np.allclose(vectors, expected, atol=1e-3)


def test_configured_prefixes_really_reach_the_model(opened: Open) -> None:
    encoder = opened("query: ", "passage: ")
    plain = opened("", "")
    text = ["how do pilots board"]
    assert not np.allclose(encoder.encode_queries(text), encoder.encode_passages(text), atol=1e-3)
    assert np.allclose(encoder.encode_queries(text), plain.encode_queries(["query: " + text[0]]), atol=1e-3)
    assert np.allclose(encoder.encode_passages(text), plain.encode_passages(["passage: " + text[0]]), atol=1e-3)
    assert (encoder.signature().query_prefix, encoder.signature().passage_prefix) == ("query: ", "passage: ")
    assert encoder.signature() != plain.signature()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=[]), max_size=80))
def test_token_spans_lie_in_the_text_in_order(encoder: Encoder, text: str) -> None:
    spans: Sequence[tuple[int, int]] = encoder.token_offsets(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    starts = [start for start, _ in spans]
    assert starts == sorted(starts)


def test_token_spans_are_exact_for_letters_outside_ascii(encoder: Encoder) -> None:
    text = "né \U0001f600 fünf"
    spans = encoder.token_offsets(text)
    covered = {position for start, end in spans for position in range(start, end)}
    assert covered == {position for position, letter in enumerate(text) if not letter.isspace()}


def test_a_text_beyond_the_limit_is_cut_and_counted_and_never_silently(
    encoder: Encoder, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(encoder, (HashEncoder, OnnxEncoder, OpenAIEncoder))
    before = encoder.cut
    long = "ab " * (encoder.max_tokens + 50)
    vectors = encoder.encode_passages(["short", long, long + "the end is another"])
    assert encoder.cut == before + 2
    assert f"{encoder.max_tokens} tokens" in caplog.text
    assert vectors[1] @ vectors[2] > 0.99


def test_the_default_encoder_needs_no_download_and_states_its_limit() -> None:
    signature = default_encoder().signature()
    assert (signature.dimension, signature.max_tokens) == (384, 256)
    assert signature.model == "sentence-transformers/all-MiniLM-L6-v2"
    assert signature.revision

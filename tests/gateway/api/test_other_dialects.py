"""`/v1/completions` and `/v1/embeddings` through the official SDK: grounded and checked where they can be."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any

import openai
import pytest

from gateway.errors import OverloadedError, RequestError
from gateway.upstream.embeddings import LocalEmbeddings
from gateway.upstream.scripted import ScriptedUpstream, text_script
from retrieval.encode.batcher import Batcher
from retrieval.encode.hash import HashEncoder
from retrieval.errors import EncodeError
from tests.gateway.kit import gateway, static

TEXT = "It flies 40 km [1]."


def answering() -> ScriptedUpstream:
    return ScriptedUpstream(lambda request: text_script(TEXT, stream=request.stream))


async def test_a_prompt_is_grounded_and_answered_alike_plain_and_streamed() -> None:
    upstream = answering()
    async with gateway(upstream, retriever=static("The Falcon flies 40 km.")) as gate:
        plain = await gate.openai.completions.create(model="test", prompt="How far does it fly?", max_tokens=20)
        stream = await gate.openai.completions.create(model="test", prompt="How far does it fly?", stream=True)
        streamed = [chunk async for chunk in stream]
    assert plain.object == "text_completion"
    assert plain.choices[0].text == "".join(c.choices[0].text for c in streamed if c.choices) == TEXT
    assert plain.choices[0].finish_reason == "stop"
    grounding: Any = plain.model_extra
    assert grounding["grounding"]["retrieval"]["status"] == "grounded"
    assert all("The Falcon flies 40 km." in served.request.body.decode() for served in upstream.served)
    assert [record.path for record in gate.records] == ["/v1/completions"] * 2


async def test_a_model_that_goes_on_writing_a_text_is_reached_unread_where_the_route_forwards() -> None:
    async with gateway(answering(), other_paths="forward") as gate:
        with pytest.raises(openai.BadRequestError) as error:
            await gate.openai.completions.create(model="test", prompt="Once upon", suffix="the end")
    assert error.value.code == "unsupported_path"  # the scripted double has no such path: it was asked all the same


async def test_what_completions_cannot_do_here_is_refused_by_name() -> None:
    async with gateway(answering()) as gate:
        with pytest.raises(openai.BadRequestError) as error:
            await gate.openai.completions.create(model="test", prompt="Once upon", suffix="the end")
    assert (error.value.code, error.value.param) == ("unsupported_parameter", "suffix")


def embeddings(encoding: Any, encoder: HashEncoder) -> LocalEmbeddings:
    return LocalEmbeddings(
        "docs",
        encoding,
        count=lambda text: len(encoder.token_offsets(text)),
        dimension=encoder.dimension,
        max_tokens=encoder.max_tokens,
    )


async def asked(local: LocalEmbeddings, **fields: Any) -> bytes:
    async with local.forward("POST", "/embeddings", {}, json.dumps(fields).encode(), None) as reply:
        return b"".join([piece async for piece in reply.body])


async def test_texts_become_the_vectors_of_the_encoder_as_numbers_or_as_the_sdk_asks() -> None:
    encoder = HashEncoder(8)
    async with Batcher(encoder) as batcher:
        local = embeddings(batcher, encoder)
        numbers = json.loads(await asked(local, model="m", input=["one two", "three"]))
        packed = json.loads(await asked(local, input="one two", encoding_format="base64"))
    assert [item["index"] for item in numbers["data"]] == [0, 1]
    assert numbers["model"] == "m"
    assert numbers["usage"]["total_tokens"] == 3
    vector = numbers["data"][0]["embedding"]
    assert vector == pytest.approx(encoder.encode_passages(["one two"])[0].tolist())
    assert struct.unpack("<8f", base64.b64decode(packed["data"][0]["embedding"])) == pytest.approx(vector)


@pytest.mark.parametrize(
    "fields",
    [
        {"input": []},
        {"input": ""},
        {"input": [1, 2]},
        {"input": "a", "dimensions": 4},
        {"input": "word " * 10_000},
        {"input": ["a"] * 3_000},
        {"input": "a", "encoding_format": "hex"},
        {},
    ],
    ids=str,
)
async def test_an_embedding_that_would_be_of_something_else_is_refused(fields: dict[str, Any]) -> None:
    encoder = HashEncoder(8)
    async with Batcher(encoder) as batcher:
        with pytest.raises(RequestError):
            await asked(embeddings(batcher, encoder), **fields)


class Broken:
    async def encode_queries(self, texts: Sequence[str]) -> Any:
        raise EncodeError("the endpoint is down")

    encode_passages = encode_queries


async def test_an_encoder_that_is_away_is_told_as_such() -> None:
    with pytest.raises(OverloadedError, match="down"):
        await asked(embeddings(Broken(), HashEncoder(8)), input="a")

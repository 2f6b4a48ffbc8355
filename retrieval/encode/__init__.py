"""Texts to vectors: encoders, and the queue in front of them.

`default_encoder()` opens the int8 MiniLM that ships with this package.
"""

from __future__ import annotations

from retrieval.encode.batcher import Batcher, BatcherSettings
from retrieval.encode.hash import HashEncoder
from retrieval.encode.onnx import OnnxEncoder, OnnxSettings
from retrieval.encode.openai import OpenAIEncoder, OpenAIEncoderSettings
from retrieval.encode.sentence_transformer import SentenceTransformerEncoder, SentenceTransformerSettings

__all__ = [
    "Batcher",
    "BatcherSettings",
    "HashEncoder",
    "OnnxEncoder",
    "OnnxSettings",
    "OpenAIEncoder",
    "OpenAIEncoderSettings",
    "SentenceTransformerEncoder",
    "SentenceTransformerSettings",
    "default_encoder",
]


def default_encoder(settings: OnnxSettings | None = None) -> OnnxEncoder:
    """The shipped encoder, opened. Raises `EncodeError` when its files are missing."""
    return OnnxEncoder.shipped(settings)

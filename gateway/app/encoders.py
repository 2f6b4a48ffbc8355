"""Encoders by their configuration. Heavy libraries are imported only for the kind that needs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gateway.config.model import EncoderConfig
from gateway.errors import ConfigError
from retrieval.types import Encoder


def build_encoder(config: EncoderConfig) -> Encoder:
    """The encoder of a section. Raises `EncodeError` when its model or its server is not there."""
    makers: dict[str, Callable[[EncoderConfig], Encoder]] = {
        "onnx": _onnx,
        "hash": _hash,
        "openai": _openai,
        "sentence_transformer": _sentence_transformer,
    }
    return makers[config.kind](config)


def _onnx(config: EncoderConfig) -> Encoder:
    from retrieval.encode.onnx import OnnxEncoder, OnnxSettings

    settings = OnnxSettings(
        threads=config.threads,
        query_prefix=config.query_prefix or None,
        passage_prefix=config.passage_prefix or None,
    )
    return OnnxEncoder.open(Path(config.model), settings) if config.model else OnnxEncoder.shipped(settings)


def _hash(config: EncoderConfig) -> Encoder:
    from retrieval.encode.hash import HashEncoder

    return HashEncoder(config.dimension or 384, query_prefix=config.query_prefix, passage_prefix=config.passage_prefix)


def _openai(config: EncoderConfig) -> Encoder:
    import httpx

    from retrieval.encode.openai import OpenAIEncoder, OpenAIEncoderSettings

    headers = {"authorization": f"Bearer {config.api_key.get_secret_value()}"} if config.api_key else {}
    settings = OpenAIEncoderSettings(
        base_url=config.base_url or "https://api.openai.com/v1",
        model=_named(config),
        dimensions=config.dimension,
        max_tokens=config.max_tokens or 8191,
        query_prefix=config.query_prefix,
        passage_prefix=config.passage_prefix,
    )
    return OpenAIEncoder.open(settings, httpx.Client(headers=headers, timeout=60))


def _sentence_transformer(config: EncoderConfig) -> Encoder:
    from retrieval.encode.sentence_transformer import SentenceTransformerEncoder, SentenceTransformerSettings

    return SentenceTransformerEncoder.open(
        SentenceTransformerSettings(
            name=_named(config),
            max_tokens=config.max_tokens or 0,
            query_prefix=config.query_prefix,
            passage_prefix=config.passage_prefix,
        )
    )


def _named(config: EncoderConfig) -> str:
    if not config.model:
        raise ConfigError(f"an encoder of kind '{config.kind}' needs model: <name of a model>")
    return config.model

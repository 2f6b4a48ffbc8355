"""An encoder on ONNX Runtime and a tokenizer file: no torch, no model hub.

The model directory holds `config.json` (model, revision, dimension, max_tokens, file, prefixes), `tokenizer.json` and
the graph, whose inputs are `input_ids` and `attention_mask` (int64, batch x tokens) and whose output is the pooled unit
vector (float32, batch x dimension). `retrieval.train.export` writes such a directory.

Knows nothing of passages, queues or indexes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from retrieval.encode.base import SignedEncoder, token_batches, unit_rows
from retrieval.errors import EncodeError
from retrieval.types import Signature

if TYPE_CHECKING:
    import onnxruntime as ort

    from retrieval.types import Vectors

BATCH_TOKENS = 1024
SHIPPED = "minilm-l6-v2"
REBUILD = "reinstall the package, or rebuild the files with `make models`"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxSettings:
    """How a model is run.

    `threads` work on one batch together; `batch_tokens` bounds a padded batch: larger ones gain nothing on a processor
    and hold memory. `spin` lets idle threads wait actively, which answers a little sooner and burns a core between
    calls: off, since an event loop shares the cores. Prefixes of `None` are the model's own.
    """

    threads: int = 2
    batch_tokens: int = BATCH_TOKENS
    spin: bool = False
    query_prefix: str | None = None
    passage_prefix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxModel:
    """The opened parts of a model directory."""

    session: ort.InferenceSession
    tokenizer: Tokenizer
    signature: Signature


class OnnxEncoder(SignedEncoder):
    """`Encoder` over an opened ONNX model; safe to call from several threads."""

    def __init__(self, model: OnnxModel, *, batch_tokens: int = BATCH_TOKENS) -> None:
        super().__init__(model.signature)
        self._session = model.session
        self._tokenizer = model.tokenizer
        self._batch_tokens = batch_tokens

    @classmethod
    def open(cls, directory: Path, settings: OnnxSettings | None = None) -> OnnxEncoder:
        """Reads a model directory. Raises `EncodeError` naming the file that is missing or cannot be read."""
        settings = settings or OnnxSettings()
        model = OnnxModel(
            signature=_signature(directory, settings),
            tokenizer=_tokenizer(directory / "tokenizer.json"),
            session=_session(directory / str(_config(directory)["file"]), settings),
        )
        return cls(model, batch_tokens=settings.batch_tokens)

    @classmethod
    def shipped(cls, settings: OnnxSettings | None = None) -> OnnxEncoder:
        """The int8 MiniLM that comes with this package. Raises `EncodeError` when its files are missing."""
        with resources.as_file(resources.files("retrieval") / "models" / SHIPPED) as directory:
            return cls.open(directory, settings)

    def token_offsets(self, text: str) -> Sequence[tuple[int, int]]:
        offsets: Sequence[tuple[int, int]] = self._tokenizer.encode(_plain(text), add_special_tokens=False).offsets
        return offsets

    def _encode(self, prefix: str, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        ids = [
            encoding.ids for encoding in self._tokenizer.encode_batch_fast([_plain(prefix + text) for text in texts])
        ]
        self._cut.record(sum(len(entry) > self.max_tokens for entry in ids))
        ids = [self._shortened(entry) for entry in ids]
        vectors = np.empty((len(ids), self.dimension), dtype=np.float32)
        for batch in token_batches([len(entry) for entry in ids], self._batch_tokens):
            vectors[batch] = self._run([ids[position] for position in batch])
        return unit_rows(vectors)

    def _shortened(self, ids: list[int]) -> list[int]:
        # The last token is the end mark that the model was trained with: it stays.
        return ids if len(ids) <= self.max_tokens else [*ids[: self.max_tokens - 1], ids[-1]]

    def _run(self, ids: Sequence[list[int]]) -> Vectors:
        width = max(map(len, ids))
        tokens = np.zeros((len(ids), width), dtype=np.int64)
        mask = np.zeros_like(tokens)
        for row, entry in enumerate(ids):
            tokens[row, : len(entry)] = entry
            mask[row, : len(entry)] = 1
        try:
            result: Vectors = self._session.run(None, {"input_ids": tokens, "attention_mask": mask})[0]
        except Exception as error:  # the runtime raises its own unrelated classes
            raise EncodeError(f"the model failed on a batch of {len(ids)}: {error}", hint=REBUILD) from error
        return result


def _plain(text: str) -> str:
    # The tokenizer refuses lone surrogates; a question mark costs the same one code point, so offsets stay.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _config(directory: Path) -> dict[str, Any]:
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EncodeError(f"no encoder model at {directory}: config.json is missing", hint=REBUILD) from error
    except (OSError, ValueError) as error:
        raise EncodeError(f"{path} cannot be read: {error}", hint=REBUILD) from error
    missing = {"model", "revision", "dimension", "max_tokens", "file"} - (
        config.keys() if isinstance(config, dict) else set()
    )
    if missing:
        raise EncodeError(f"{path} lacks {', '.join(sorted(missing))}", hint=REBUILD)
    return dict(config)


def _signature(directory: Path, settings: OnnxSettings) -> Signature:
    config = _config(directory)

    def prefix(chosen: str | None, name: str) -> str:
        return str(config.get(name, "")) if chosen is None else chosen

    return Signature(
        model=str(config["model"]),
        revision=str(config["revision"]),
        dimension=int(config["dimension"]),
        max_tokens=int(config["max_tokens"]),
        query_prefix=prefix(settings.query_prefix, "query_prefix"),
        passage_prefix=prefix(settings.passage_prefix, "passage_prefix"),
    )


def _tokenizer(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the tokenizer library raises bare Exception
        raise EncodeError(f"{path} cannot be read: {error}", hint=REBUILD) from error
    # A tokenizer file may carry its own cut and padding; cutting is counted here, padding is per batch.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _session(path: Path, settings: OnnxSettings) -> ort.InferenceSession:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # shapes differ from call to call, a pattern would be kept for each
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if settings.spin else "0")
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime raises its own unrelated classes
        raise EncodeError(f"{path} cannot be opened: {error}", hint=REBUILD) from error

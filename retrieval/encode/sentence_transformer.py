"""An encoder by any model name through sentence-transformers. Needs the extra `models`; torch comes with it.

Knows nothing of passages, queues or indexes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval.encode.base import SignedEncoder, approximate_offsets, unit_rows
from retrieval.errors import EncodeError
from retrieval.types import Signature

if TYPE_CHECKING:
    from retrieval.types import Vectors

INSTALL = "pip install 'grounding-gateway[models]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceTransformerSettings:
    """Which model and how. `name` is a hub name or a directory, `revision` a hub commit or tag.

    `max_tokens` of 0 is the model's own limit. Many models need their prefixes (`query: `, `passage: `) to work at all:
    see the model's card. `trust_remote_code` runs code that comes with the model: off unless you wrote it.
    """

    name: str
    revision: str | None = None
    device: str = "cpu"
    max_tokens: int = 0
    batch_size: int = 32
    query_prefix: str = ""
    passage_prefix: str = ""
    trust_remote_code: bool = False


class SentenceTransformerEncoder(SignedEncoder):
    """`Encoder` over a loaded sentence-transformers model."""

    def __init__(self, model: Any, signature: Signature, *, batch_size: int = 32) -> None:
        super().__init__(signature)
        self._model = model
        self._batch_size = batch_size

    @classmethod
    def open(cls, settings: SentenceTransformerSettings) -> SentenceTransformerEncoder:
        """Loads the model. Raises `EncodeError` when the extra is not installed or the model cannot be had."""
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise EncodeError("the sentence_transformer encoder needs the extra `models`", hint=INSTALL) from error
        try:
            model = SentenceTransformer(
                settings.name,
                revision=settings.revision,
                device=settings.device,
                trust_remote_code=settings.trust_remote_code,
            )
        except Exception as error:  # hub, file, version and memory errors share no class
            raise EncodeError(
                f"model {settings.name!r} cannot be loaded: {error}",
                hint="check the name, or give a directory that holds the model; a hub may need HF_TOKEN or a proxy",
            ) from error
        if settings.max_tokens:
            model.max_seq_length = settings.max_tokens
        signature = Signature(
            model=settings.name,
            revision=_fingerprint(model),
            dimension=len(model.encode("dimension", show_progress_bar=False)),
            max_tokens=int(model.max_seq_length or 512),
            query_prefix=settings.query_prefix,
            passage_prefix=settings.passage_prefix,
        )
        return cls(model, signature, batch_size=settings.batch_size)

    def token_offsets(self, text: str) -> Sequence[tuple[int, int]]:
        tokenizer = self._model.tokenizer
        if not getattr(tokenizer, "is_fast", False):
            return approximate_offsets(text)
        spans = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)
        return [(int(start), int(end)) for start, end in spans["offset_mapping"]]

    def _encode(self, prefix: str, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        whole = [prefix + text for text in texts]
        # A text of n code points rarely has more than n tokens: only long ones are counted.
        long = [text for text in whole if len(text) > self.max_tokens]
        self._cut.record(sum(len(self.token_offsets(text)) + 2 > self.max_tokens for text in long))
        try:
            vectors = self._model.encode(
                whole, batch_size=self._batch_size, convert_to_numpy=True, show_progress_bar=False
            )
        except RuntimeError as error:
            raise EncodeError(
                f"model {self._signature.model!r} failed on {len(whole)} texts: {error}",
                hint="lower batch_size if memory ran out",
            ) from error
        return unit_rows(vectors)


def _fingerprint(model: Any) -> str:
    """A digest of the weights: two models of one name and dimension never pass for each other."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()[:16]

"""A small cross-encoder that reads a fact beside the passage's sentences that matter, on ONNX Runtime; no torch.

Four stances (MiniLM fine-tuned on open pairs, see the model card), of which callers get the log-odds of support. Texts
are prepared by `reading`; it knows no features and no aggregation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from checks.errors import ModelFileError

if TYPE_CHECKING:
    import onnxruntime as ort

Floats = npt.NDArray[np.float32]

SHIPPED: Final = Path(__file__).resolve().parent.parent / "models" / "facts-entailment"
FACT_TOKENS: Final = 80
TOKENS: Final = 143
STANCES: Final = ("supports", "partial", "refutes", "irrelevant")
_REBUILD: Final = "reinstall the package or run `make entailment`"


class Entailment:
    """An opened model; safe to call from several threads."""

    def __init__(self, session: ort.InferenceSession, tokenizer: Tokenizer, version: str) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._first, self._border = tokenizer.token_to_id("[CLS]") or 0, tokenizer.token_to_id("[SEP]") or 0
        self.version = version
        """Name and content hash of the model, as it stands in records."""

    @classmethod
    def read(cls, directory: Path = SHIPPED) -> Entailment:
        """The model in `directory` (about 0.3 s, 60 MB of memory); raises `ModelFileError`."""
        try:
            about: dict[str, Any] = json.loads((directory / "config.json").read_text(encoding="utf-8"))
            graph = directory / "model.int8.onnx"
            tokenizer = Tokenizer.from_str((directory / "tokenizer.json").read_text(encoding="utf-8"))
            return cls(_session(graph), tokenizer, str(about["version"]))
        except Exception as error:  # the runtime and the tokenizer library raise classes of their own
            raise ModelFileError(f"cannot read the entailment model {directory}: {error}", hint=_REBUILD) from error

    def log_odds(self, texts: Sequence[tuple[str, str]]) -> Floats:
        """Log-odds of support for each (fact, sentences) as `reading` gives them, shape `(n,)`.

        One text at a time: on a processor a batch gains next to nothing over that, and the value of a text would
        depend, in its last digits, on the others.
        """
        found = np.empty(len(texts), dtype=np.float32)
        for at, (ids, types) in enumerate(self.encode(texts)):
            tokens = np.array([ids], dtype=np.int64)
            inputs = {
                "input_ids": tokens,
                "token_type_ids": np.array([types], dtype=np.int64),
                "attention_mask": np.ones_like(tokens),
            }
            logits: Floats = self._session.run(None, inputs)[0][0]
            found[at] = logits[0] - np.logaddexp.reduce(logits[1:])
        return found

    def encode(self, texts: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """(token ids, token types) of each text: the fact up to `FACT_TOKENS`, all of it up to `TOKENS`."""
        sides = self._tokenizer.encode_batch_fast(
            [_plain(side) for text in texts for side in text], add_special_tokens=False
        )
        found = []
        for fact, sentences in zip(sides[::2], sides[1::2], strict=True):
            left = fact.ids[:FACT_TOKENS]
            right = sentences.ids[: TOKENS - 3 - len(left)]
            ids = [self._first, *left, self._border, *right, self._border]
            found.append((ids, [0] * (len(left) + 2) + [1] * (len(right) + 1)))
        return found


def graph_version(graph: bytes) -> str:
    """The version of a model by its graph's bytes."""
    return f"facts-entailment-{sha256(graph).hexdigest()[:12]}"


def _plain(text: str) -> str:
    # The tokenizer refuses lone surrogates.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _session(path: Path) -> ort.InferenceSession:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # the facts of an answer are judged side by side as it is
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # shapes differ from call to call, a pattern would be kept for each
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

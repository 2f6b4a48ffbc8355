"""`grounding-gateway evaluate facts`: runs the evaluation of `checks.evaluate` and writes what comes of it."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.errors import ChecksError
from checks.evaluate import plots, report
from checks.evaluate.baselines import OverlapClassifier, self_check
from checks.evaluate.calibration import Calibration
from checks.evaluate.facts import Findings, Task, answer_tasks, fact_tasks, judge_sets
from checks.evaluate.labelled import LabelledSet, read_sets
from checks.facts.aggregate import Aggregation
from checks.facts.classify import LocalClassifier
from checks.facts.judged import JudgedClassifier
from checks.types import FactClassifier, Judge
from gateway.app.judging import open_judge
from gateway.cli.output import USAGE, emit, fail, note
from gateway.config.load import load
from gateway.config.locate import locate
from gateway.config.problems import listed, suggestion

AGGREGATIONS = (Aggregation(kind="strict"), Aggregation(kind="graded"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for on the command line."""

    data: Path
    part: str
    sets: tuple[str, ...]
    judge: str | None
    config: Path | None
    limit: int | None
    budget: float | None
    out: Path | None


def evaluate(wanted: Wanted, *, as_json: bool) -> None:
    """Read, judge, print, and write files where wanted."""
    try:
        sets = read_sets(wanted.data, part=wanted.part, names=wanted.sets, limit=wanted.limit)
    except ChecksError as error:
        fail(str(error), error.hint, USAGE)
    findings, versions = asyncio.run(_judged(sets, wanted))
    data = report.as_data(findings, versions, wanted.budget)
    tasks = report.pooled(findings.tasks)
    if wanted.out is not None:
        _write(wanted.out, json.dumps(data, ensure_ascii=False, indent=1), tasks)
        _write_calibrations(wanted.out, report.pooled(findings.by_label), versions)
    emit(data, as_json=as_json, table=(report.COLUMNS, report.rows(tasks)))
    if not as_json and wanted.budget is not None:
        emit(None, as_json=False, text="\n".join(_thresholds(data["thresholds"])))


def _thresholds(found: list[dict[str, Any]]) -> list[str]:
    """One line for each set and classifier."""
    lines = []
    for row in found:
        what = f"{row['set']}, {row['classifier']}: false alarms within {row['budget']:g}"
        if row["threshold"] is None:
            lines.append(f"{what}: no fail_threshold keeps it, {row['why']}")
            continue
        caught = "no wrong fact is labelled" if row["recall"] is None else f"{row['recall']:.1%} of wrong facts fail"
        lines.append(f"{what}: aggregation: {{kind: graded, fail_threshold: {row['threshold']}}}, {caught}")
    return lines


async def _judged(sets: list[LabelledSet], wanted: Wanted) -> tuple[Findings, dict[str, str]]:
    local = LocalClassifier.read()
    classifiers: dict[str, FactClassifier] = {
        "local": local,
        "features": LocalClassifier.read(entailment=False),
        "overlap": OverlapClassifier(local.lexicon),
    }
    findings = Findings()
    async with AsyncExitStack() as stack:
        judge = await _judge(wanted, stack)
        if judge is not None:
            classifiers[f"judge {judge.name}"] = JudgedClassifier(judge)
        for name, classifier in classifiers.items():
            note(f"{name}: {sum(len(labelled.facts) for labelled in sets)} facts")
            found = await judge_sets(sets, classifier, name, AGGREGATIONS)
            if not found.tasks:
                note(f"{name}: nothing could be judged, so it is not in the table")
            findings.tasks += found.tasks
            findings.by_class += found.by_class
            findings.by_label += found.by_label
        if judge is not None:
            await _self_check(sets, judge, findings)
    versions = {name: classifier.version for name, classifier in classifiers.items()}
    return findings, versions | {f"aggregation {a.kind}": a.version for a in AGGREGATIONS}


async def _self_check(sets: list[LabelledSet], judge: Judge, findings: Findings) -> None:
    name = f"self-check {judge.name}"
    for labelled in sets:
        note(f"{name}: {labelled.name}, {len(labelled.facts)} facts")
        checked = await self_check(judge, labelled.facts)
        if all(fact.score is None for fact in checked):
            note(f"{name}: nothing could be judged, so it is not in the table")
        for aggregation in AGGREGATIONS:
            findings.tasks += fact_tasks(labelled, checked, name, aggregation.kind)
            findings.tasks += answer_tasks(labelled, checked, name, aggregation)


async def _judge(wanted: Wanted, stack: AsyncExitStack) -> Judge | None:
    if wanted.judge is None:
        return None
    loaded = load(locate(wanted.config, os.environ, Path.cwd()), os.environ)
    if wanted.judge not in loaded.judges:
        known = listed(loaded.judges) or "none"
        fail(f"there is no judge '{wanted.judge}'{suggestion(wanted.judge, loaded.judges)}", f"known: {known}", USAGE)
    return await stack.enter_async_context(open_judge(wanted.judge, loaded.judges[wanted.judge]))


def _write_calibrations(folder: Path, tasks: list[Task], versions: dict[str, str]) -> None:
    """One file for each set and classifier: what `aggregation.calibration` of a route takes."""
    for task in tasks:
        name = "-".join(f"calibration {task.dataset} {task.classifier}".split())
        Calibration(classifier=versions[task.classifier], judged=task.judged).write(folder / f"{name}.json")


def _write(folder: Path, text: str, tasks: list[Task]) -> None:
    """facts.json, and three plots for each question of each set that has both classes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "facts.json").write_text(f"{text}\n", encoding="utf-8")
    by_question: dict[tuple[str, str, str], list[Task]] = {}
    for task in tasks:
        if report.two_sided(task):
            by_question.setdefault((task.dataset, task.level, task.what), []).append(task)
    for (dataset, level, what), own in by_question.items():
        stem = f"{dataset}-{level}-{what.replace(' ', '-')}"
        title = f"{dataset}, {level}: {what}"
        (folder / f"{stem}-roc.svg").write_text(plots.roc(title, own), encoding="utf-8")
        (folder / f"{stem}-threshold.svg").write_text(plots.thresholds(title, own), encoding="utf-8")
        calibrated = [task for task in own if task.judged.probability is not None]
        if calibrated:
            (folder / f"{stem}-reliability.svg").write_text(plots.calibration(title, calibrated), encoding="utf-8")
    note(f"written: facts.json and {len(by_question)} x plots in {folder}")

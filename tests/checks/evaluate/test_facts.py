"""Labelled facts through a classifier and an aggregation, into figures, a table, JSON and plots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from checks.errors import LabelledDataError
from checks.evaluate import plots, report
from checks.evaluate.baselines import OverlapClassifier, self_check
from checks.evaluate.facts import Findings, Task, answer_tasks, fact_tasks, judge_sets
from checks.evaluate.labelled import read_sets
from checks.facts.aggregate import Aggregation
from checks.facts.classify import LocalClassifier
from checks.judge.scripted import ScriptedJudge
from checks.types import Classified, FactClassifier, JudgeCall, Pair, Reason, Status
from tests.checks.evaluate.rows import ROWS, row, written

STRICT = Aggregation(kind="strict")


@pytest.fixture(scope="module")
def local() -> LocalClassifier:
    return LocalClassifier.read()


class Broken:
    """A classifier that can judge nothing."""

    version = "broken"

    async def classify(self, pairs: Sequence[Pair]) -> tuple[Sequence[Classified], Sequence[JudgeCall]]:
        return [Classified(None, reason=Reason.JUDGE_UNAVAILABLE) for _ in pairs], ()


def task(findings: Findings, what: str, level: str | None = None) -> Task:
    (found,) = [t for t in findings.tasks if t.what == what and level in (None, t.level)]
    return found


async def judged(folder: Path, classifier: FactClassifier) -> Findings:
    return await judge_sets(read_sets(written(folder)), classifier, "it", (STRICT,))


async def test_each_level_counts_what_was_labelled_and_nothing_else(tmp_path: Path, local: LocalClassifier) -> None:
    findings = await judged(tmp_path, local)
    pairs = task(findings, "support against rest").judged
    assert (len(pairs.score), pairs.positive.sum()) == (9, 3)  # the text without a stance is left out
    assert task(findings, "support against refutation").judged.positive.sum() == 3
    wrong = task(findings, "false against true").judged
    assert (len(wrong.score), wrong.positive.sum()) == (5, 2)
    rest = task(findings, "anything but true")
    assert (len(rest.judged.score), rest.unjudged) == (6, 1)  # the fact without evidence
    answers = task(findings, "wrong against right").judged
    assert (len(answers.score), answers.positive.sum()) == (4, 2)


async def test_a_changed_number_is_ranked_below_the_right_one(tmp_path: Path, local: LocalClassifier) -> None:
    findings = await judged(tmp_path, local)
    for what in ("false against true", "wrong against right", "support against refutation"):
        (line,) = [line for line in report.rows(findings.tasks) if line[2] == what]
        assert line[8].startswith("1.000"), what


async def test_what_could_not_be_judged_is_counted_and_never_scored(tmp_path: Path) -> None:
    findings = await judged(tmp_path, Broken())
    assert findings.tasks == []
    assert report.rows(report.pooled(findings.tasks)) == []
    assert report.as_data(findings, {})["by_class"][0]["labels"] == {}


async def test_the_same_data_gives_the_same_numbers_twice(tmp_path: Path, local: LocalClassifier) -> None:
    sets = read_sets(written(tmp_path))
    first, again = [json.dumps(report.as_data(await judge_sets(sets, local, "local", (STRICT,)), {})) for _ in range(2)]
    assert first == again


async def test_every_label_has_its_figures_and_where_its_facts_went(tmp_path: Path, local: LocalClassifier) -> None:
    findings = await judged(tmp_path, local)
    (table,) = report.as_data(findings, {})["by_class"]
    assert table["labels"]["false"]["given"]["false"] == 2
    assert table["labels"]["true"]["recall"][0] == 1.0
    assert set(table["labels"]) == {"true", "false", "not_supported", "needs_no_verification"}


async def test_several_sets_are_also_counted_together(tmp_path: Path) -> None:
    folder = written(tmp_path)
    dev = folder / "facts" / "dev"
    (dev / "second.jsonl").write_text((dev / "museum.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    overlap = OverlapClassifier(LocalClassifier.read().lexicon)
    tasks = report.pooled((await judge_sets(read_sets(folder), overlap, "overlap", (STRICT,))).tasks)
    (together,) = [t for t in tasks if t.dataset == "all" and t.what == "false against true"]
    assert len(together.judged.score) == 10
    assert len(set(together.judged.group)) == 10  # equal names in two sets are two groups


async def test_the_self_check_sees_no_document_and_its_silence_is_no_verdict(tmp_path: Path) -> None:
    (labelled,) = read_sets(written(tmp_path))
    judge = ScriptedJudge(
        [
            (lambda prompt: "430" in prompt.user, {"verdict": "wrong", "confidence": 90}),
            (lambda prompt: "1978" in prompt.user, "I would rather not say"),
            ("self_check", {"verdict": "right", "confidence": 80}),
        ]
    )
    checked = await self_check(judge, labelled.facts)
    assert all("mayor Ada Lind" not in prompt.user for prompt in judge.prompts)
    assert [fact.status for fact in checked[:4]] == [Status.PASSED, Status.FAILED, Status.PASSED, Status.NOT_CHECKED]
    (found, _) = fact_tasks(labelled, checked, "self-check it", "strict")
    assert (len(found.judged.score), found.unjudged) == (4, 1)
    assert answer_tasks(labelled, checked, "self-check it", STRICT)


async def test_the_gain_over_the_self_check_is_told_with_its_interval(tmp_path: Path, local: LocalClassifier) -> None:
    sets = read_sets(written(tmp_path))
    findings = await judge_sets(sets, local, "local", (STRICT,))
    judge = ScriptedJudge([("self_check", {"verdict": "right", "confidence": 80})])
    checked = await self_check(judge, sets[0].facts)
    findings.tasks += fact_tasks(sets[0], checked, "self-check it", "strict")
    gains = {(g["question"]): g["auc_difference"] for g in report.as_data(findings, {})["against_self_check"]}
    assert gains["false against true"][0] == 0.5


async def test_plots_are_whole_drawings_and_names_cannot_break_them(tmp_path: Path, local: LocalClassifier) -> None:
    (found,) = [t for t in (await judged(tmp_path, local)).tasks if t.what == "false against true"]
    for draw in (plots.roc, plots.thresholds, plots.calibration):
        root = ElementTree.fromstring(draw('<a & "b">', [found]))
        assert root.tag.endswith("svg")
        assert any(node.tag.endswith("polyline") for node in root)
    assert "nan" not in plots.thresholds("t", [found])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "museum.jsonl"),
        ("[]", "museum.jsonl:1"),
        (json.dumps({**ROWS[0], "label": "maybe"}), "label 'maybe'"),
        (json.dumps({**ROWS[0], "claim": ""}), "'claim'"),
        (json.dumps({**ROWS[0], "evidence": None}), "'evidence'"),
        (json.dumps(row(1, "x", "true", {"y": "agrees"})), "stance 'agrees'"),
        (json.dumps(row(1, "x", "true", {"": "supports"})), "evidence 1"),
    ],
)
def test_a_broken_row_is_named_with_file_line_and_remedy(tmp_path: Path, line: str, said: str) -> None:
    folder = written(tmp_path)
    (folder / "facts" / "dev" / "museum.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(LabelledDataError) as caught:
        read_sets(folder)
    assert said in str(caught.value)
    assert caught.value.hint


def test_a_folder_of_files_is_enough_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    dev = written(tmp_path) / "facts" / "dev"
    assert [s.name for s in read_sets(dev)] == ["museum"]
    with pytest.raises(LabelledDataError, match="no set 'musuem'") as caught:
        read_sets(dev, names=("musuem",))
    assert "museum" in caught.value.hint
    with pytest.raises(LabelledDataError, match=r"no \*\.jsonl"):
        read_sets(tmp_path / "nowhere")


def test_a_limit_keeps_whole_groups_and_always_the_same_ones(tmp_path: Path) -> None:
    rows = [row(n, f"Claim {n}.", "true", {"Text.": "supports"}, group=f"g{n // 3}") for n in range(30)]
    folder = written(tmp_path, rows)
    (first,), (again,) = read_sets(folder, limit=10), read_sets(folder, limit=10)
    assert first == again
    assert len(first.facts) == 9
    assert len({fact.group for fact in first.facts}) == 3

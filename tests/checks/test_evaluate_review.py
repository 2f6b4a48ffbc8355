"""The figures of an evaluation: counted by hand, with honest intervals, the same on every run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.errors import LabelledDataError
from checks.evaluate.injection import injected
from checks.evaluate.issues import LabelledIssue, read_labelled, sample, text_scene
from checks.evaluate.measures import Measures, Share, phi, phi_interval
from checks.evaluate.plot import svg
from checks.evaluate.review import Labelled, evaluate
from checks.evaluate.simulate import Quality, Setting, simulate
from checks.review.types import Issue
from checks.types import IssueLabel, JudgePrompt
from tests.checks.review.judges import HALLUCINATION, UNDETERMINED, VALID, asks, judge, said

WRONG, RIGHT, OPEN = IssueLabel.HALLUCINATION, IssueLabel.VALID, IssueLabel.UNDETERMINED


def claim(number: int, label: IssueLabel) -> LabelledIssue:
    issue = Issue(number=0, format="labelled", path="change.diff", body=f"Claim {number}.")
    return LabelledIssue(id=str(number), data_set="crscore", issue=issue, label=label, diff="@@ -1 +1 @@\n-a\n+b")


def test_the_counts_are_those_of_the_four_cells() -> None:
    measures = Measures((True, True, True, False, False, False, False), (True, True, False, True, False, False, False))
    assert (measures.recall, measures.precision) == (Share(2, 3), Share(2, 3))
    assert measures.false_positives == Share(1, 4)
    assert measures.kept == Share(4, 7)
    assert measures.base_rate == Share(3, 7)
    assert measures.f1 == pytest.approx(2 / 3)


def test_nothing_to_divide_by_is_no_zero() -> None:
    assert Share(0, 0).value is None
    assert Measures((False, False), (False, False)).precision.value is None
    assert phi([True, True], [True, False]) is None


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 263, 0.2551, 0.3662)]
)
def test_intervals_of_shares_are_those_of_the_literature(hits: int, total: int, low: float, high: float) -> None:
    assert Share(hits, total).interval == (pytest.approx(low, abs=5e-4), pytest.approx(high, abs=5e-4))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_phi_is_a_correlation(pairs: list[tuple[bool, bool]]) -> None:
    one, two = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    value = phi(one, two)
    assert value == phi(two, one)
    if value is not None:
        assert -1.0 - 1e-9 <= value <= 1.0 + 1e-9
        assert phi(one, [not other for other in two]) == pytest.approx(-value)
        assert phi(one, one) == pytest.approx(1.0)


def test_an_interval_is_the_same_on_every_run() -> None:
    one, two = [True, False] * 20, [True, True, False, False] * 10
    assert phi_interval(one, two) == phi_interval(one, two)


def test_a_sample_holds_as_many_wrong_as_right_issues_and_grows_by_appending() -> None:
    issues = [claim(n, WRONG if n % 5 == 0 else OPEN if n % 7 == 0 else RIGHT) for n in range(100)]
    twenty = sample(issues, 20, 1)
    assert [one.label for one in twenty].count(WRONG) == 10
    assert not [one for one in sample(issues, 100, 1) if one.label is OPEN]
    assert sample(issues, 30, 1)[:20] == twenty
    assert sample(issues, 20, 2) != twenty


async def test_every_variant_is_measured_on_the_same_issues_and_no_judge_is_asked_twice() -> None:
    """One judge knows the even claims, the other the claims below four: what each variant makes of it is countable."""
    issues = [claim(n, WRONG if n < 4 else RIGHT) for n in range(8)]
    labelled = [Labelled(id=one.id, scene=text_scene(one), label=one.label) for one in issues]

    def number(prompt: str) -> int:
        return int(prompt.partition("Claim ")[2].partition(".")[0])

    even = judge("even", lambda prompt: said(HALLUCINATION if number(prompt.user) % 2 == 0 else VALID))
    low = judge("low", lambda prompt: said(HALLUCINATION if number(prompt.user) < 2 else UNDETERMINED), asks("x.py"))
    report = await evaluate([*labelled, Labelled(id="open", scene=labelled[0].scene, label=OPEN)], [even, low], hops=2)
    found = {one.name: (one.measures.recall.hits, one.measures.false_positives.hits) for one in report.results}
    assert found == {
        "single even": (2, 2),
        "single low": (2, 0),
        "or": (3, 2),
        "and": (1, 0),
        "multi_hop 1": (2, 0),
        "multi_hop 2": (2, 0),
    }
    assert report.issues == 8
    asked = [prompt.user for prompt in (*even.prompts, *low.prompts) if prompt.purpose == "evaluate"]
    assert len(asked) == 16
    assert json.loads(json.dumps(report.told()))["variants"][0]["recall"]["of"] == 4


async def test_a_judge_that_cannot_be_read_lowers_recall_and_is_counted() -> None:
    labelled = [Labelled(id="1", scene=text_scene(claim(1, WRONG)), label=WRONG)]
    report = await evaluate(labelled, [judge("a", "hm")])
    assert report.results[0].measures.unjudged == 1
    assert report.results[0].measures.recall == Share(0, 1)
    assert report.abstained == {"a": 1}


@pytest.mark.parametrize(("correlation", "either", "both"), [(0.55, 0.56, 0.25)])
def test_drawn_votes_give_the_published_ensembles(correlation: float, either: float, both: float) -> None:
    """45% and 36% alone, correlated as published: `or` 56%, `and` 25%; a hop lifts recall far above either."""
    report = simulate(Setting(correlation=correlation, quality=Quality(unsure=(0.35, 0.35)), issues=4_000))
    recall = {one.name: one.measures.recall.value or 0.0 for one in report.results}
    assert recall["or"] == pytest.approx(either, abs=0.04)
    assert recall["and"] == pytest.approx(both, abs=0.04)
    assert recall["multi_hop 1"] > recall["or"] + 0.1
    assert report.agreements[0].hallucinations == pytest.approx(0.37, abs=0.06)


def test_judges_that_err_together_make_a_second_one_worth_less() -> None:
    gains = []
    for correlation in (0.0, 0.8):
        report = simulate(Setting(correlation=correlation, issues=4_000))
        recall = {one.name: one.measures.recall.value or 0.0 for one in report.results}
        gains.append(recall["or"] - recall["single one"])
    assert gains[0] > gains[1] + 0.05


def test_a_plot_shows_every_variant_by_name() -> None:
    report = simulate(Setting(issues=500))
    drawn = svg(report, "A <title>")
    assert all(f">{one.name}</text>" in drawn for one in report.results)
    assert "A &lt;title&gt;" in drawn


def test_labelled_issues_of_both_shapes_are_read(tmp_path: Path) -> None:
    (tmp_path / "crscore_claims.jsonl").write_text(
        json.dumps({"id": "c", "diff": "+a", "claim": "A is added.", "label": "valid", "language": "py"}) + "\n"
    )
    record = {
        "id": "a", "repo": "o/n", "head_sha": "1" * 40, "base_sha": "2" * 40, "path": "a.cpp", "line": 9,
        "start_line": 12, "end_line": 9, "side": "LEFT", "comment": "Leaks.", "label": "hallucination",
    }  # fmt: skip
    (tmp_path / "aacr_bench.jsonl").write_text(json.dumps(record) + "\n")
    one, two = read_labelled(tmp_path)
    assert (one.data_set, one.label, one.diff) == ("crscore", RIGHT, "+a")
    assert (two.issue.start_line, two.issue.end_line, two.issue.side.value) == (9, 12, "LEFT")
    assert two.pin is not None
    assert two.pin.revision == "1" * 40


def test_a_broken_line_of_labelled_data_is_named(tmp_path: Path) -> None:
    (tmp_path / "crscore_claims.jsonl").write_text('{"id": 1}\nnot json\n')
    with pytest.raises(LabelledDataError, match=r"crscore_claims\.jsonl:"):
        read_labelled(tmp_path)


async def test_orders_that_turn_a_judge_are_counted_and_steadfast_judges_are_not_accused() -> None:
    labelled = [Labelled(id=str(n), scene=text_scene(claim(n, RIGHT)), label=RIGHT) for n in range(8)]

    def gullible(prompt: JudgePrompt) -> dict[str, Any]:
        issue = prompt.user.partition("<<<ISSUE")[2]
        return said(HALLUCINATION if HALLUCINATION in issue else VALID)

    judges = [judge("gullible", gullible), judge("firm", said(VALID)), judge("mute", "hm")]
    found = {(one.judge, one.place): one.flipped for one in await injected(labelled, judges)}
    assert found == {
        ("gullible", "issue"): Share(8, 8),
        ("gullible", "code"): Share(0, 8),
        ("firm", "issue"): Share(0, 8),
        ("firm", "code"): Share(0, 8),
        ("mute", "issue"): Share(0, 0),
        ("mute", "code"): Share(0, 0),
    }

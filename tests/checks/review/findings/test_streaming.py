"""Answers that are still being written, and answers that were cut: whole issues are kept and none is invented."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.review.findings import apply, read_review, settled, treat
from checks.review.types import Completeness, Issue, Treated, Treatment
from tests.checks.review.findings import samples
from tests.checks.review.findings.samples import ALL


def facts(issue: Issue) -> tuple[object, ...]:
    return (
        issue.start,
        issue.end,
        issue.path,
        issue.start_line,
        issue.end_line,
        issue.title,
        issue.body,
        issue.severity,
    )


@pytest.mark.parametrize("name", ALL)
def test_what_has_left_while_streaming_is_never_taken_back(name: str) -> None:
    text = ALL[name].text
    whole = [facts(issue) for issue in read_review(text).issues]
    reached = 0
    for length in range(len(text) + 1):
        prefix = text[:length]
        border = settled(prefix)
        assert reached <= border <= length
        reached = border
        early = [facts(issue) for issue in read_review(prefix).issues if issue.end <= border]
        assert early == [fact for fact in whole if fact[1] <= border]


@pytest.mark.parametrize("name", ["headings", "bullets", "table", "pipes", "permalinks", "list", "rdjsonl", "workflow"])
def test_an_issue_leaves_before_the_next_one_is_written(name: str) -> None:
    text = ALL[name].text
    first, second = read_review(text).issues[:2]
    assert first.end <= settled(text[: second.end + 1])


@pytest.mark.parametrize("name", ALL)
def test_a_cut_answer_keeps_its_whole_issues_and_invents_none(name: str) -> None:
    text = ALL[name].text
    whole = [facts(issue)[:6] for issue in read_review(text).issues]
    for length in range(len(text)):
        cut = read_review(text[:length], truncated=True)
        got = [facts(issue)[:6] for issue in cut.issues]
        # What the head of an object says may be told behind its list, where the cut answer never came.
        known = [fact for fact in whole if fact[1] < length]
        assert got == whole[: len(got)]
        assert len(got) >= len(known) - 1
        assert cut.completeness is Completeness.TRUNCATED


def test_a_cut_json_answer_loses_only_the_issue_it_was_cut_in() -> None:
    text = samples.LIST.text
    first, second = read_review(text).issues
    assert len(read_review(text[: second.end - 1]).issues) == 1
    assert len(read_review(text[: second.end]).issues) == 2
    assert read_review(text[: second.end]).completeness is Completeness.TRUNCATED
    assert read_review(text[: first.end - 1]).issues == ()


_PIECES = st.sampled_from(
    [
        *(sample.text for sample in (samples.LIST, samples.BULLETS, samples.TABLE, samples.HEADINGS, samples.WORKFLOW)),
        samples.PERMALINKS.text,
        samples.GROUPS.text,
        "```json\n" + samples.LIST.text + "\n```\n",
        "Some prose with `code`, {braces} and [marks].\n",
        "```\nunclosed\n",
        "\n\n",
        "---\n",
        "## Next\n",
        '{"a": [1, 2',
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_PIECES, min_size=1, max_size=4).map("\n".join), st.data())
def test_issues_of_mixed_answers_never_change_once_settled(text: str, data: st.DataObject) -> None:
    whole = [facts(issue) for issue in read_review(text).issues]
    for length in data.draw(st.lists(st.integers(0, len(text)), max_size=12)):
        border = settled(text[:length])
        early = [facts(issue) for issue in read_review(text[:length]).issues if issue.end <= border]
        assert early == [fact for fact in whole if fact[1] <= border]


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(sorted(ALL)), min_size=2, max_size=2), st.sampled_from(["\n", "\n\n"]), st.data())
def test_a_verdict_on_one_format_takes_nothing_from_another(
    names: list[str], between: str, data: st.DataObject
) -> None:
    first, second = (ALL[name] for name in names)
    text = first.text + between + second.text
    review = read_review(text)
    spans = sorted((issue.start, issue.end) for issue in review.issues)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    what = {issue.number: Treated(treatment=Treatment.DROP) for issue in review.issues}
    assert read_review(apply(text, treat(review, what))).issues == ()
    whole = [facts(issue)[:6] for issue in review.issues]
    for length in data.draw(st.lists(st.integers(0, len(text)), max_size=6)):
        got = [facts(issue)[:6] for issue in read_review(text[:length], truncated=True).issues]
        assert got == whole[: len(got)]

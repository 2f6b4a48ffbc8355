"""What has gone wrong for others, in the words of what a user lost, and what depends on issues that left."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from checks.review.findings import RULES, Rule, apply, read_review, treat
from checks.review.types import Review, Severity, Treated, Treatment
from tests.checks.review.findings import samples

DROP = Treated(treatment=Treatment.DROP)


def dropped(review: Review, *numbers: int, schema: dict[str, Any] | None = None) -> str:
    what = {number: Treated(treatment=Treatment.DROP, note="gone") for number in numbers}
    return apply(review.text, treat(review, what, schema=schema))


@pytest.mark.parametrize(
    "code",
    [
        "Use\\n```python\\nx = 1\\n```\\nhere",
        "Use\n```python\nx = 1\n```\nhere",
        'Use ```x``` and [brackets} and \\"quotes\\" here',
        "A lone ``` fence",
    ],
    ids=["escaped", "raw", "inline", "unbalanced"],
)
@pytest.mark.parametrize("fence", ["```", "````", "~~~", ""])
def test_findings_do_not_vanish_behind_a_code_fence_in_a_text(code: str, fence: str) -> None:
    block = f'[{{"file": "a.py", "line": 1, "message": "{code}"}}, {{"file": "b.py", "line": 2, "message": "second"}}]'
    text = f"Result:\n\n{fence}{'json' if fence else ''}\n{block}\n{fence}\n\nDone.\n"
    review = read_review(text)
    assert [(issue.path, issue.start_line) for issue in review.issues] == [("a.py", 1), ("b.py", 2)]
    assert dropped(review, 0).count("{") == block.count("{") - 1 - code.count("{")


def test_the_first_block_is_not_taken_for_the_only_one() -> None:
    example = 'The schema:\n\n```json\n{"type": "object"}\n```\n\n'
    review = read_review(
        example + "```json\n" + samples.LIST.text + "\n```\n\n```json\n" + samples.LIST.text + "\n```\n"
    )
    assert len(review.issues) == 4


def test_an_example_of_code_is_not_taken_for_a_finding() -> None:
    code = 'rows = [{"file": "a.py", "line": 3, "message": "x"}]'
    assert read_review(f"It builds rows:\n\n```python\n{code}\n```\n").issues == ()


def test_a_right_remark_with_a_reversed_range_is_kept_and_put_right() -> None:
    review = read_review('[{"path": "a.py", "start_line": 20, "end_line": 12, "message": "x"}]')
    assert (review.issues[0].start_line, review.issues[0].end_line) == (12, 20)
    assert review.notes == ("issue 1: lines 20-12 were given in reverse order",)
    assert treat(review, {}) == ()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('"12-14"', (12, 14)), ('"L12-L14"', (12, 14)), ('"12 to 14"', (12, 14)), ("[12, 14]", (12, 14)),
        ('"12"', (12, 12)), ("0", (None, None)), ("null", (None, None)), ("-3", (None, None)), ('"?"', (None, None)),
        ("12.0", (12, 12)), ("true", (None, None)), ('{"start": 12, "end": 14}', (12, 14)), ("1e400", (None, None)),
    ],
)  # fmt: skip
def test_a_line_is_understood_however_it_is_written(line: str, expected: tuple[int | None, int | None]) -> None:
    (issue,) = read_review(f'[{{"file": "a.py", "line": {line}, "severity": "high", "message": "x"}}]').issues
    assert (issue.start_line, issue.end_line) == expected
    assert issue.severity is Severity.HIGH


def test_a_windows_path_a_leading_dot_and_a_slash_name_the_same_file() -> None:
    for path in ("src\\\\a.py", "./src/a.py", "/src/a.py", "C:\\\\w\\\\src\\\\a.py"):
        (issue,) = read_review(f'[{{"file": "{path}", "line": 1, "message": "x"}}]', repo_root="C:/w").issues
        assert issue.path == "src/a.py"


def test_evidence_with_the_delimiter_in_it_stays_whole() -> None:
    assert read_review(samples.PIPES.text).issues[0].body == "cat x | sh runs input | twice"


def test_findings_in_the_body_of_a_review_are_not_lost_beside_the_inline_ones() -> None:
    review = read_review(samples.CODERABBIT.text)
    assert len(review.issues) == 3
    assert dropped(review, 0, 1, 2) == "**Actionable comments posted: 0**\n"
    one = dropped(review, 0)
    assert "Nitpick comments (1)" in one
    assert "lib/p.js" not in one
    assert one.count("<details>") == one.count("</details>") == 3


def loose(answer: str) -> Any:
    """The object of an answer whose writer leaves trailing commas and raw line feeds."""
    return json.loads(re.sub(r",\s*(?=[\]}])", "", answer[answer.index("{") : answer.rindex("}") + 1]), strict=False)


def test_counts_verdicts_and_summaries_do_not_contradict_what_is_left() -> None:
    review = read_review(samples.LOOSE.text)
    left = dropped(review, 1)
    data = loose(left)
    assert (data["total"], data["counts"], data["verdict"]) == (1, {"high": 1, "low": 0}, "REQUEST_CHANGES")
    assert data["summary"] == "Two issues. [1 of 2 issues removed by the check against the code.]"
    none = dropped(review, 0, 1)
    data = loose(none)
    assert (data["total"], data["counts"], data["verdict"]) == (0, {"high": 0, "low": 0}, "COMMENT")
    assert data["issues"] == []


def test_a_refusal_without_reasons_is_not_sent_on() -> None:
    github = json.loads(dropped(read_review(samples.GITHUB.text), 0, 1))
    assert (github["event"], github["comments"]) == ("COMMENT", [])
    codex = json.loads(dropped(read_review(samples.CODEX.text), 0, 1))
    assert codex["overall_correctness"] == "patch is correct"
    assert codex["overall_confidence_score"] == 0.8
    assert json.loads(dropped(read_review(samples.CODEX.text), 0))["overall_correctness"] == "patch is incorrect"


def test_a_refusal_is_never_turned_into_an_approval() -> None:
    text = '{"approved": false, "lgtm": false, "issues": [{"file": "a.py", "line": 1, "message": "x"}]}'
    assert json.loads(dropped(read_review(text), 0)) == {"approved": False, "lgtm": False, "issues": []}


def test_a_number_that_was_wrong_before_is_left_alone() -> None:
    text = '{"total": 9, "issues": [{"file": "a.py", "line": 1, "message": "x"}]}'
    assert json.loads(dropped(read_review(text), 0)) == {"total": 9, "issues": []}


def test_announced_numbers_and_the_lists_own_follow_what_is_left() -> None:
    left = dropped(read_review(samples.PERMALINKS.text), 1)
    assert left.startswith("Found 2 issues:\n\n1. The lock")
    assert "\n2. Never read\n" in left
    assert dropped(read_review(samples.PERMALINKS.text), 0, 2).startswith("Found 1 issue:\n\n1. `x`")
    assert dropped(read_review(samples.BULLETS.text), 0, 1) == "I found 0 issues:\n\nEverything else looks fine.\n"


def test_a_table_without_rows_goes_with_its_header() -> None:
    review = read_review("Before.\n\n" + samples.TABLE.text + "\nAfter.\n")
    assert dropped(review, 0, 1) == "Before.\n\nAfter.\n"


_SCHEMA = {
    "type": "object",
    "properties": {"findings": {"$ref": "#/$defs/list"}},
    "$defs": {"list": {"type": "array", "minItems": 1, "items": {"type": "object"}}},
}


def test_an_answer_still_meets_the_callers_schema() -> None:
    left = json.loads(dropped(read_review(samples.CODEX.text), 0, 1, schema=_SCHEMA))
    assert [finding["body"] for finding in left["findings"]] == ["[gone] Tenants share them."]
    assert left["overall_correctness"] == "patch is incorrect"
    optional = {"anyOf": [{"type": "null"}, {"type": "array", "minItems": 2}]}
    schema = {"type": "object", "properties": {"findings": optional}}
    assert len(json.loads(dropped(read_review(samples.CODEX.text), 0, 1, schema=schema))["findings"]) == 2


def test_a_hostile_note_stays_inside_its_mark() -> None:
    note = '"}], "x": [{\n\n# Heading\n```\n<script>|\u202e\x00' + "a" * 5000
    what = Treated(treatment=Treatment.MARK, note=note)
    for sample in samples.ALL.values():
        review = read_review(sample.text, repo_root=sample.repo_root)
        marked = apply(review.text, treat(review, dict.fromkeys(range(len(review.issues)), what)))
        again = read_review(marked, repo_root=sample.repo_root)
        assert [(i.path, i.start_line) for i in again.issues] == [(i.path, i.start_line) for i in review.issues]
        assert "\u202e" not in marked
        assert len(marked) < len(review.text) + 1500 * len(review.issues)


def test_praise_is_never_judged() -> None:
    text = "# Review\n\n## What went well\n\n- `src/a.py:3` [high] quality\n\n## Issues\n\n- `src/b.py:4` leaks\n"
    assert [issue.path for issue in read_review(text).issues] == ["src/b.py"]


def test_a_bot_that_writes_carriage_returns_gets_them_back() -> None:
    for name, sample in samples.ALL.items():
        text = sample.text.replace("\n", "\r\n")
        review = read_review(text, repo_root=sample.repo_root)
        assert apply(text, treat(review, {})) == text
        if name not in ("loose",):
            assert [issue.path for issue in review.issues] == [path for path, *_ in sample.issues]
        left = dropped(review, *range(len(review.issues)))
        assert "\n" not in left.replace("\r\n", "")


def test_every_format_has_its_rule_for_what_depends_on_its_issues() -> None:
    formats = {sample.format for sample in samples.ALL.values()}
    assert formats <= {rule.format for rule in RULES}
    assert {rule.rule for rule in RULES} == set(Rule)
    page = (Path(__file__).parents[4] / "docs" / "review-formats.md").read_text()
    for rule in RULES:
        assert f"| `{rule.format}` | {rule.field} | {rule.rule.value} | {rule.how} |" in page

"""Every format: its issues are found where they are, and what happens to one is written back in the same format."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
import yaml

from checks.review.findings import apply, read_review, treat
from checks.review.types import Completeness, Review, Severity, Side, Treated, Treatment
from checks.types import IssueLabel
from tests.checks.review.findings import samples
from tests.checks.review.findings.samples import ALL, OTHERS, Sample

DROP = Treated(treatment=Treatment.DROP)
MARK = Treated(treatment=Treatment.MARK, label=IssueLabel.HALLUCINATION, note='no "such" <file> | `x`\n{a}: #b')


def read(sample: Sample) -> Review:
    return read_review(sample.text, repo_root=sample.repo_root)


def told(review: Review) -> list[tuple[str | None, int | None, int | None, str]]:
    return [(issue.path, issue.start_line, issue.end_line, issue.title) for issue in review.issues]


def everything(review: Review, what: Treated) -> str:
    return apply(review.text, treat(review, {issue.number: what for issue in review.issues}))


@pytest.mark.parametrize("name", ALL)
def test_no_issue_of_a_format_is_missed_misplaced_or_invented(name: str) -> None:
    sample = ALL[name]
    review = read(sample)
    assert told(review) == list(sample.issues)
    assert review.formats == (sample.format,)
    assert review.completeness is Completeness.COMPLETE
    assert [issue.number for issue in review.issues] == list(range(len(sample.issues)))
    assert all(0 <= issue.start < issue.end <= len(sample.text) for issue in review.issues)


@pytest.mark.parametrize("name", ALL)
def test_a_review_without_verdicts_goes_out_byte_for_byte(name: str) -> None:
    review = read(ALL[name])
    assert treat(review, {}) == ()
    assert everything(review, Treated()) == ALL[name].text


@pytest.mark.parametrize("name", ALL)
def test_removing_one_issue_leaves_the_others_as_they_were(name: str) -> None:
    review = read(ALL[name])
    for gone in review.issues:
        left = read_review(apply(review.text, treat(review, {gone.number: DROP})), repo_root=ALL[name].repo_root)
        kept = [issue for issue in review.issues if issue is not gone]
        assert told(left) == [(issue.path, issue.start_line, issue.end_line, issue.title) for issue in kept]
        assert [issue.body for issue in left.issues] == [issue.body for issue in kept]


@pytest.mark.parametrize("name", ALL)
def test_a_mark_hides_no_issue_and_moves_none(name: str) -> None:
    review = read(ALL[name])
    marked = everything(review, MARK)
    again = read_review(marked, repo_root=ALL[name].repo_root)
    places = [(issue.path, issue.start_line, issue.end_line) for issue in review.issues]
    assert [(issue.path, issue.start_line, issue.end_line) for issue in again.issues] == places
    assert marked.count("hallucination") + marked.count('"accepted"') == len(review.issues)


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("sarif", "gitlab")])
def test_an_issue_on_a_wrong_line_is_moved_to_the_right_one(name: str) -> None:
    review = read(ALL[name])
    placed = [issue for issue in review.issues if issue.start_line is not None]
    what = {issue.number: Treated(start_line=21, end_line=23) for issue in placed}
    moved = read_review(apply(review.text, treat(review, what)), repo_root=ALL[name].repo_root)
    got = [(issue.path, issue.end_line) for issue in moved.issues if issue.number in what]
    # Where a format has room for one line only, that is the first, or the last as GitHub has it.
    assert [path for path, _ in got] == [issue.path for issue in placed]
    assert {line for _, line in got} <= {21, 23}
    single = {issue.number: Treated(start_line=21, end_line=21) for issue in placed}
    back = read_review(apply(review.text, treat(review, single)), repo_root=ALL[name].repo_root)
    assert {(i.start_line, i.end_line) for i in back.issues if i.number in single} == {(21, 21)}


@pytest.mark.parametrize("name", OTHERS)
def test_a_bots_other_calls_are_not_taken_for_a_review(name: str) -> None:
    review = read_review(OTHERS[name])
    assert review.issues == ()
    assert review.formats == ()


@pytest.mark.parametrize("name", ["rdjson", "github", "gitlab", "quality", "codex", "list", "sarif"])
@pytest.mark.parametrize("what", [DROP, MARK], ids=["drop", "mark"])
def test_a_bot_that_parses_json_can_still_parse_it(name: str, what: Treated) -> None:
    review = read(ALL[name])
    for chosen in ([0], [len(review.issues) - 1], list(range(len(review.issues)))):
        json.loads(apply(review.text, treat(review, dict.fromkeys(chosen, what))))


@pytest.mark.parametrize("what", [DROP, MARK], ids=["drop", "mark"])
def test_a_bot_that_parses_lines_yaml_or_xml_can_still_parse_them(what: Treated) -> None:
    for line in everything(read(samples.RDJSONL), what).splitlines():
        json.loads(line)
    data = yaml.safe_load(
        everything(read(samples.PR_AGENT), what).replace("issue_header: Lost: ack", "issue_header: Lost ack")
    )
    assert len(data["review"]["key_issues_to_review"]) == (0 if what is DROP else 2)
    assert data["review"]["security_concerns"] == "No\n"
    root = ElementTree.fromstring(everything(read(samples.CHECKSTYLE), what).encode())
    assert len(root.findall(".//error")) == (0 if what is DROP else 3)
    assert what is not DROP or not root.findall("file")


def test_a_sarif_viewer_shows_the_verdict_as_a_suppression_with_its_reason() -> None:
    review = read(samples.SARIF)
    results = json.loads(everything(review, MARK))["runs"][0]["results"]
    said = 'no "such" <file> | `x` {a}: #b'
    expected = [{"kind": "external", "status": "accepted", "justification": said}]
    assert [result.get("suppressions") for result in results] == [expected, None, expected]
    unsure = Treated(treatment=Treatment.MARK, label=IssueLabel.UNDETERMINED, note="cannot tell")
    results = json.loads(everything(review, unsure))["runs"][0]["results"]
    assert results[0]["suppressions"][0]["status"] == "underReview"


def test_a_sarif_result_keeps_all_of_its_locations_and_loses_stale_columns_when_moved() -> None:
    review = read(samples.SARIF)
    assert review.issues[0].extra["locations"] == [("src/a%20b.c".replace("%20", " "), 4, 4), ("z.c", 9, 9)]
    assert review.issues[0].body == "fd leaks"
    assert review.issues[1].severity is Severity.HIGH
    moved = json.loads(apply(review.text, treat(review, {0: Treated(start_line=6, end_line=6)})))
    region = moved["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 6}


def test_a_moved_github_comment_is_not_refused_for_a_range_of_one_line() -> None:
    review = read(samples.GITHUB)
    moved = json.loads(apply(review.text, treat(review, {0: Treated(start_line=9, end_line=9)})))
    assert {key: moved["comments"][0].get(key) for key in ("line", "start_line", "start_side")} == {
        "line": 9,
        "start_line": None,
        "start_side": None,
    }
    moved = json.loads(apply(review.text, treat(review, {1: Treated(start_line=3, end_line=5)})))
    assert (moved["comments"][1]["start_line"], moved["comments"][1]["line"]) == (3, 5)


def test_a_remark_on_removed_code_stays_on_the_old_side_under_the_old_path() -> None:
    assert [issue.side for issue in read(samples.GITHUB).issues] == [Side.RIGHT, Side.LEFT]
    assert [issue.side for issue in read(samples.GITLAB).issues] == [Side.RIGHT, Side.LEFT]
    assert read(samples.GITLAB).issues[1].path == "i.py"


def test_a_suggestion_with_a_longer_fence_keeps_the_shorter_fence_in_it() -> None:
    issue = read(samples.GITHUB).issues[0]
    assert issue.suggestion == "const p = `x`;\n```\ny();"
    assert issue.body == "It is read twice."


def test_code_of_a_sandbox_is_found_in_the_repository() -> None:
    assert read_review(samples.CODEX.text).issues[0].path == "box/repo/s/c.py"
    assert read(samples.CODEX).issues[0].severity is Severity.CRITICAL


def test_a_permalink_tells_which_commit_was_reviewed() -> None:
    assert {issue.revision for issue in read(samples.PERMALINKS).issues} == {"0123456789abcdef0123456789abcdef01234567"}


def test_a_nitpick_counts_as_low_and_keeps_what_its_header_says() -> None:
    issues = read(samples.CODERABBIT).issues
    assert [issue.severity for issue in issues] == [Severity.LOW, Severity.HIGH, Severity.CRITICAL]
    assert [issue.extra["tier"] for issue in issues] == ["nitpick", "nitpick", "actionable"]


@pytest.mark.parametrize(
    "header",
    [
        "_⚠️ Potential issue_",
        "_⚠️ Potential issue_ | _🟠 Major_",
        "_⚠️ Potential issue_ | _🟠 Major_ | _⚡ Quick win_",
        "_🎯 Functional correctness_ | _🟠 Major_ | _🏗️ Heavy lift_ | _confidence high_",
    ],
)
def test_every_shape_of_a_comments_header_is_read(header: str) -> None:
    text = f"In `a/b.js` around lines 3-4:\n\n{header}\n\n**Twice released.**\n\nIt throws.\n"
    (issue,) = read_review(text).issues
    assert (issue.path, issue.start_line, issue.end_line) == ("a/b.js", 3, 4)
    assert issue.title == "Twice released."
    assert issue.body == "It throws."
    assert issue.category
    assert (issue.severity is Severity.HIGH) == ("Major" in header)


def test_a_posted_comment_without_a_place_of_its_own_is_still_an_issue() -> None:
    text = "_⚠️ Potential issue_ | _🔴 Critical_\n\n**Twice released.**\n\nIt throws.\n"
    (issue,) = read_review(text).issues
    assert (issue.path, issue.title, issue.severity) == (None, "Twice released.", Severity.CRITICAL)


def test_a_severity_that_stands_only_in_a_badge_is_read() -> None:
    badge = "**<sub><sub>![P1 Badge](https://img.example.org/P1-orange)</sub></sub>  Keep the lock**"
    body = json.dumps(f"{badge}\\n\\nIt is lost.".replace("\\n", "\n"))
    (issue,) = read_review(f'[{{"path": "a.py", "line": 3, "body": {body}}}]').issues
    assert (issue.title, issue.body, issue.severity) == ("Keep the lock", "It is lost.", Severity.HIGH)


def test_the_tool_call_of_a_review_is_read_and_stays_an_object() -> None:
    arguments = '{"path":"src/a.py","line":12,"side":"RIGHT","body":"Never closed."}'
    review = read_review(arguments)
    assert told(review) == [("src/a.py", 12, 12, "")]
    # Nothing may stand in the place of a tool's arguments: the issue is marked in place of removed.
    assert json.loads(apply(arguments, treat(review, {0: Treated(treatment=Treatment.DROP, note="no file")}))) == {
        "path": "src/a.py",
        "line": 12,
        "side": "RIGHT",
        "body": "[no file]\n\nNever closed.",
    }
    wrapped = json.dumps({"review": {"comments": [{"file": "a.py", "line": 3, "severity": "high", "comment": "No."}]}})
    assert told(read_review(wrapped)) == [("a.py", 3, 3, "")]


def test_issues_listed_per_file_know_their_file() -> None:
    text = '{"files": [{"path": "a.py", "issues": [{"line": 3, "message": "x"}]}, {"path": "b.py", "issues": []}]}'
    assert [(issue.path, issue.start_line) for issue in read_review(text).issues] == [("a.py", 3)]


def test_issues_listed_per_severity_know_their_severity() -> None:
    text = '{"critical": [{"file": "a.py:7-9", "message": "x"}], "low": [{"file": "b.py", "line": 3, "message": "y"}]}'
    issues = read_review(text).issues
    assert [(i.path, i.start_line, i.end_line, i.severity) for i in issues] == [
        ("a.py", 7, 9, Severity.CRITICAL),
        ("b.py", 3, 3, Severity.LOW),
    ]


def test_an_answer_with_several_blocks_keeps_them_apart_and_in_order() -> None:
    first, last = f"First:\n\n```json\n{samples.LIST.text}\n```\n\n", f"```json\n{samples.CODEX.text}```\n"
    text = f"{first}Then:\n\n{samples.BULLETS.text}\n{last}"
    review = read_review(text)
    assert [issue.format for issue in review.issues] == ["json"] * 2 + ["markdown"] * 2 + ["codex"] * 2
    assert len({issue.block for issue in review.issues}) == 3
    left = read_review(everything(review, DROP))
    assert left.issues == ()
    assert "Everything else looks fine." in everything(review, DROP)


_SECTIONS = """## Code Review

### 🔴 Critical Issues

**1. SQL injection in `app/db.py:45`**

It concatenates.

**2. Missing check** (`app/api.py`, lines 10-12)

Anyone can call.

### 🟡 Minor

- `app/util.py:3` unused import
- **app/x.py:9**: rename it

### `app/y.py`

- **Line 12**: missing await
- **Lines 20-24**: leak

### ✅ Positives

- Good tests in `tests/a.py:3`

## Summary

Fix the first before merging.
"""
_SHAPES = {
    "sections": (
        _SECTIONS,
        [
            ("app/db.py", 45, "SQL injection", Severity.CRITICAL),
            ("app/api.py", 10, "Missing check", Severity.CRITICAL),
            ("app/util.py", 3, "unused import", Severity.LOW),
            ("app/x.py", 9, "rename it", Severity.LOW),
            ("app/y.py", 12, "missing await", None),
            ("app/y.py", 20, "leak", None),
        ],
    ),
    "tags": (
        "Here are the issues I found:\n\n1. **[HIGH] Race** - `p.go:88`\n   - Fix: lock\n"
        "2. **[LOW] Typo** - `n.go:3`\n\nAll else is good.\n",
        [("p.go", 88, "Race", Severity.HIGH), ("n.go", 3, "Typo", Severity.LOW)],
    ),
    "compiler": (
        "Found 2 problems:\na/x.c:12:5: error: use after free\na/y.c:9: warning: unused\n",
        [("a/x.c", 12, "", Severity.HIGH), ("a/y.c", 9, "", Severity.MEDIUM)],
    ),
    "links": (
        "Found 1 issue:\n\n1. Not handled ([a.ts L3](https://h.org/o/r/blob/0123456789abcdef/a.ts#L3-L5))\n",
        [("a.ts", 3, "Not handled", None)],
    ),
    "nits": ("**Nits:**\n\n- src/a.py:12 - rename `x`\n", [("src/a.py", 12, "rename `x`", None)]),
    "seer": (
        '[{"encoded_location": "/src/a.py:3~9", "title": "boom", "short_description": "x"}]',
        [("src/a.py", 3, "boom", None)],
    ),
    "nested": (
        '{"review": {"findings": [{"location": {"file": "a.py", "start_line": 3}, '
        '"issue": "bad", "severity": "LOW"}]}}',
        [("a.py", 3, "bad", Severity.LOW)],
    ),
}


@pytest.mark.parametrize("name", _SHAPES)
def test_issues_in_the_shapes_models_write_unasked_are_not_missed(name: str) -> None:
    text, expected = _SHAPES[name]
    review = read_review(text)
    assert [(issue.path, issue.start_line, issue.title, issue.severity) for issue in review.issues] == expected
    assert everything(review, Treated()) == text
    assert read_review(everything(review, DROP)).issues == ()


@pytest.mark.parametrize(
    "text",
    [
        "fix: null in src/a.py:12\n\nThe following issues are fixed:\n\n- null in src/a.py:12\n- typo",
        "LGTM! No issues found. I checked `src/a.py:10` and `src/b.py:20`.",
        "The bug comes from `src/a.py:12`. Steps:\n\n1. `src/a.py:12` opens it\n2. `src/b.py:3` reads it\n",
        "Here is the patch:\n\n```diff\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n-x\n+y\n```\n",
        "### `src/a.ts`\n\n- Lines 3-9: parses the input\n- Line 12: calls it\n",
    ],
    ids=["commit message", "approval", "steps", "patch", "walkthrough"],
)
def test_places_named_in_plain_talk_are_not_taken_for_issues(text: str) -> None:
    assert read_review(text).issues == ()

"""Whatever an answer holds: reading never raises, loses nothing, and takes bounded time."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.review.findings import apply, read_review, settled, treat
from checks.review.types import Treated, Treatment
from checks.types import IssueLabel
from tests.checks.review.findings.samples import ALL, OTHERS

_WHATS = st.builds(
    Treated,
    treatment=st.sampled_from(Treatment),
    note=st.text(max_size=20),
    label=st.sampled_from([None, *IssueLabel]),
    start_line=st.one_of(st.none(), st.integers(1, 99)),
    end_line=st.one_of(st.none(), st.integers(1, 99)),
)
_CORPUS = [sample.text for sample in ALL.values()] + list(OTHERS.values())
_SHREDS = sorted({line for text in _CORPUS for line in text.splitlines(keepends=True)})


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A review with pieces cut out, doubled, and put in, as models and networks damage them."""
    text = draw(st.sampled_from(_CORPUS))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        text = text[:start] + draw(st.one_of(st.text(max_size=6), st.sampled_from(_SHREDS))) + text[end:]
    return text


shredded = st.lists(st.sampled_from(_SHREDS), max_size=40).map("".join)
_TOKENS = (
    *('{"file":', "[", "]", "{", "}", '"a.py"', ",", '"line":1', "\n", "```", "`", "|", "- ", "# ", "\\", "a.py:3"),
    *("<details>", "</details>", "\ud800", "\x00", "\r", "é", "::error file=a,line=1::x", "key_issues_to_review:\n"),
    *("relevant_file: |\n", "<checkstyle>", "  ", "**", '"', "'"),
)
tokens = st.lists(st.sampled_from(_TOKENS), max_size=60).map("".join)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(damaged(), shredded, tokens, st.text(max_size=200)), st.data())
def test_no_answer_is_lost_or_changed_where_no_verdict_says_so(text: str, data: st.DataObject) -> None:
    review = read_review(text, truncated=data.draw(st.booleans()))
    assert review.text == text
    assert treat(review, {}) == ()
    assert 0 <= settled(text) <= len(text)
    numbers = st.integers(0, max(0, len(review.issues)))
    edits = treat(review, data.draw(st.dictionaries(numbers, _WHATS, max_size=4)))
    position = 0
    for edit in edits:
        assert position <= edit.start <= edit.end <= len(text)
        position = edit.end
    assert sum(edit.end - edit.start for edit in edits) <= len(text)
    for issue in review.issues:
        assert 0 <= issue.start < issue.end <= len(text)
        assert (issue.start_line is None) == (issue.end_line is None)
        assert issue.title or issue.body or issue.suggestion


_LINE = st.one_of(st.integers(-2, 99), st.sampled_from(["3", "3-9", "L4", None, [2, 5], ""]))
_WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
_ISSUE = st.fixed_dictionaries(
    {"file": st.sampled_from(["a.py", "src/b c.ts", "é/x.go"]), "line": _LINE, "title": _WORDS.filter(str.strip)},
    optional={"severity": st.sampled_from(["high", "P3", "?"]), "description": _WORDS, "suggestion": _WORDS,
              "extra": st.dictionaries(_WORDS, st.one_of(st.none(), st.integers(), _WORDS), max_size=2)},
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(
    st.lists(_ISSUE, min_size=1, max_size=6),
    st.sampled_from(["bare", "findings", "fenced", "lines"]),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
    st.data(),
)
def test_issues_that_stay_stay_to_the_letter_and_the_rest_is_still_json(
    issues: list[dict[str, object]], shape: str, indent: int | None, ascii_only: bool, data: st.DataObject
) -> None:
    def write(value: object) -> str:
        return json.dumps(value, indent=indent if shape != "lines" else None, ensure_ascii=ascii_only)

    text = {
        "bare": lambda: write(issues),
        "findings": lambda: write({"note": "x", "findings": issues, "end": [1]}),
        "fenced": lambda: f"Hi:\n\n```json\n{write(issues)}\n```\nBye.\n",
        "lines": lambda: "".join(write(issue) + "\n" for issue in issues),
    }[shape]()
    review = read_review(text)
    if shape != "lines" or all(issue["line"] is not None for issue in issues):
        assert len(review.issues) == len(issues)
    gone = data.draw(st.sets(st.sampled_from([issue.number for issue in review.issues]))) if review.issues else set()
    if shape == "lines" and len(review.issues) < 2:
        return
    left = apply(text, treat(review, {number: Treated(treatment=Treatment.DROP) for number in gone}))
    if len(review.issues) == len(issues):
        kept = [issue for number, issue in enumerate(issues) if number not in gone]
        if shape == "lines":
            assert [json.loads(line) for line in left.split("\n") if line] == kept
        elif shape == "fenced":
            assert json.loads(left.removeprefix("Hi:\n\n```json\n").removesuffix("\n```\nBye.\n")) == kept
        else:
            assert json.loads(left) == (kept if shape == "bare" else {"note": "x", "findings": kept, "end": [1]})


_BULK = 2_000_000
_HOSTILE = {
    "lists": "[" * _BULK,
    "objects": '{"a":' * (_BULK // 5),
    "starts": '[{"' * (_BULK // 3),
    "mixed": '[{"a"' * (_BULK // 10) + "}" + '[{"a")' * (_BULK // 12),
    "quotes": '"' * _BULK,
    "closed": "[" * (_BULK // 2) + "]" * (_BULK // 2),
    "quotations": ">" * _BULK,
    "ticks": "`a" * (_BULK // 2),
    "spaces": "{" + " " * _BULK,
    "yaml": "key_issues_to_review:\n" + "- " * (_BULK // 2) + "relevant_file",
    "flow": "key_issues_to_review:\n  " + "[" * 150_000 + "relevant_file",
    "xml": "<checkstyle>" * (_BULK // 12),
    "reports": "<checkstyle></checkstyle>" * (_BULK // 25),
    "commands": "::error file=a,line=1:" * (_BULK // 22),
    "paths": "a/b.py:" * (_BULK // 7),
    "suggestions": "### a.py:1 x\n" + "```suggestion\n" * 15_000,
    "folds": "<details>\n<summary>a.py (1)</summary>\n" * 9_000,
    "bars": "|" * _BULK,
    "emphasis": "**" * (_BULK // 2),
    "links": "1. https://a/b/blob/" * (_BULK // 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _HOSTILE)
def test_an_answer_made_to_hang_the_gateway_does_not(name: str) -> None:
    # Anything that is not linear takes hours on these.
    assert len(read_review(_HOSTILE[name]).issues) <= 1


def test_a_review_of_thousands_of_issues_is_read_up_to_a_limit_that_is_told() -> None:
    text = "[" + '{"file": "a.py", "line": 1, "title": "x"},' * 2500 + "]"
    review = read_review(text)
    assert len(review.issues) == 2000
    assert review.notes == ("of one kind at most 2000 issues are read",)

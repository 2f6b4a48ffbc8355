"""What a client sees of a verdict: citations that hold, offsets that fit, nothing that was to be withheld."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.types import (
    CheckedFact,
    CheckedIssue,
    Evidence,
    FactLabel,
    IssueLabel,
    Probabilities,
    Reason,
    Segment,
    Status,
    Verdict,
)
from gateway.wire.annotations import (
    Source,
    citations,
    complaints,
    grounding_object,
    mark_citations,
    merge_annotations,
    moved,
    shown_evidence,
    without_facts,
)
from gateway.wire.spans import OffsetMap, drop_spans
from retrieval.types import Hit, Passage

EVEN: Probabilities = (0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2)


def passage(number: int, title: str = "Returns") -> Passage:
    return Passage(
        id=f"p{number}",
        document_id=f"d{number}",
        title=title,
        text="Thirty days.",
        start=5,
        end=17,
        sha256=f"{number}" * 64,
    )


def source(number: int, **fields: Any) -> Source:
    return Source(number, Hit(passage(number, **fields), 0.83333), f"https://gw/v1/sources/p{number}")


def evidence(number: int, label: FactLabel = FactLabel.TRUE, probability: float = 0.9) -> Evidence:
    return Evidence(passage(number), 0.5, label, probability, EVEN, quote="Thirty days.", quote_end=12)


def fact(
    text: str, start: int, label: FactLabel | None = FactLabel.TRUE, *proof: Evidence, status: Status | None = None
) -> CheckedFact:
    bad = label in (FactLabel.FALSE, FactLabel.ABSURD)
    return CheckedFact(
        Segment(text, start, start + len(text)),
        status or (Status.FAILED if bad else Status.PASSED),
        label,
        probabilities=EVEN if label else None,
        reason=None if label else Reason.TIMEOUT,
        evidence=proof,
    )


def verdict(*facts: CheckedFact, status: Status = Status.PASSED, **fields: Any) -> Verdict:
    return Verdict("fact_check", status, facts=facts, **fields)


@dataclass(frozen=True)
class Exchange:
    exchange_id: str = "x1"
    route: str = "support"
    retrieval_status: str = "grounded"
    answered_by: tuple[str, bool] | None = None
    sources: tuple[Source, ...] = (source(1), source(2))
    action: str = "annotate"


def test_only_facts_that_passed_and_their_supporting_sources_are_cited() -> None:
    facts = [
        fact("Yes 😀.", 0, FactLabel.TRUE, evidence(1, probability=0.8), evidence(2), evidence(2, FactLabel.FALSE)),
        fact("No.", 7, FactLabel.FALSE, evidence(1)),
        fact("Half.", 11, FactLabel.HALF_TRUE, evidence(1)),
        fact("Hm.", 17, FactLabel.TRUE, evidence(1, FactLabel.NOT_SUPPORTED)),
        fact("Who.", 21, FactLabel.TRUE, evidence(9)),
        fact("Odd.", 26, FactLabel.TRUE, evidence(1), status=Status.FAILED),
    ]
    cited = citations(verdict(*facts), Exchange().sources)
    assert cited == [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": 0,
                "end_index": 6,
                "title": "Returns",
                "url": f"https://gw/v1/sources/p{n}",
            },
        }
        for n in (2, 1)
    ]


def test_a_citation_always_has_a_title_and_a_url() -> None:
    untitled = source(1, title="")
    (cited,) = citations(verdict(fact("Yes.", 0, FactLabel.TRUE, evidence(1))), [untitled])
    assert cited["url_citation"]["title"] == "d1"
    assert cited["url_citation"]["url"]


def test_marks_that_the_model_wrote_cite_the_source_with_that_number() -> None:
    text = "Ä 😀 thirty days [1], or more [1, 2] [7].\n```\na [1]\n```\n`b[1]` [1](http://x) [1]: x\n~~~\n[2]"
    cited = mark_citations(text, Exchange().sources)
    spans = [(c["url_citation"]["start_index"], c["url_citation"]["end_index"]) for c in cited]
    assert [text[start:end] for start, end in spans] == ["[1]", "[1, 2]", "[1, 2]"]
    assert [c["url_citation"]["url"][-1] for c in cited] == ["1", "1", "2"]


def test_upstream_annotations_come_first_and_nothing_is_said_twice() -> None:
    ours = citations(verdict(fact("Yes.", 0, FactLabel.TRUE, evidence(1))), Exchange().sources)
    own = [{"type": "file_citation", "file_citation": {"file_id": "f"}}, *ours]
    assert merge_annotations(own, ours) == own
    assert merge_annotations([], [*ours, *ours]) == ours


def test_the_grounding_object_has_the_documented_shape() -> None:
    failed = verdict(
        fact("Ten.", 0, FactLabel.FALSE, evidence(2, FactLabel.FALSE, 0.91)), status=Status.FAILED, choice=1
    )
    shape = grounding_object(Exchange(sources=(source(2),)), [failed])
    assert json.loads(json.dumps(shape)) == {
        "version": 1,
        "exchange_id": "x1",
        "route": "support",
        "retrieval": {
            "status": "grounded",
            "sources": [
                {
                    "number": 2, "document_id": "d2", "passage_id": "p2", "title": "Returns",
                    "url": "https://gw/v1/sources/p2", "score": 0.8333, "start": 5, "end": 17, "sha256": "2" * 64,
                }
            ],
        },
        "checks": [
            {
                "choice": 1, "kind": "fact_check", "status": "failed", "reason": None, "action": "annotate",
                "facts": [
                    {
                        "text": "Ten.", "start": 0, "end": 4, "label": "false",
                        "probabilities": dict(zip([label.value for label in FactLabel], EVEN, strict=True)),
                        "evidence": [{"source": 2, "label": "false", "probability": 0.91, "quote": "Thirty days."}],
                    }
                ],
            }
        ],
    }  # fmt: skip


def test_a_fact_that_could_not_be_judged_says_why_and_has_no_label() -> None:
    unchecked = verdict(fact("Ten.", 0, None), status=Status.NOT_CHECKED, reason=Reason.TIMEOUT)
    (check,) = grounding_object(Exchange(), [unchecked])["checks"]
    assert (check["status"], check["reason"]) == ("not_checked", "timeout")
    assert check["facts"] == [
        {"text": "Ten.", "start": 0, "end": 4, "label": None, "probabilities": {}, "evidence": [], "reason": "timeout"}
    ]


def test_issues_of_a_review_are_listed_with_their_votes() -> None:
    issue = CheckedIssue(
        "a.py", 3, 4, "Null dereference", Status.FAILED, IssueLabel.HALLUCINATION,
        votes=({"judge": "a", "hop": 1, "label": "hallucination", "reason": "guarded", "raw": "long"},),
        hop={"asked": "b.py", "matched": "src/b.py", "how": "suffix", "tokens": 9},
    )  # fmt: skip
    review = Verdict("code_review", Status.FAILED, issues=(issue,))
    (check,) = grounding_object(Exchange(), [review])["checks"]
    assert check["issues"] == [
        {
            "path": "a.py", "start_line": 3, "end_line": 4, "title": "Null dereference",
            "severity": None, "start": 0, "end": 0, "label": "hallucination", "action": "keep",
            "votes": [{"judge": "a", "hop": 1, "label": "hallucination", "reason": "guarded"}],
            "hop": {"asked": "b.py", "matched": "src/b.py", "how": "suffix"},
            "evidence": [],
        }
    ]  # fmt: skip
    assert "Null" not in json.dumps(grounding_object(Exchange(), [review], withheld=True))
    assert complaints([review]) == {0: ["Null dereference"]}


def test_a_blocked_answer_is_not_given_away_by_its_verdict() -> None:
    blocked = verdict(fact("The secret.", 4, FactLabel.FALSE, evidence(1, FactLabel.FALSE)), status=Status.FAILED)
    shape = grounding_object(Exchange(), [blocked], withheld=True)
    assert "secret" not in json.dumps(shape)
    (shown,) = shape["checks"][0]["facts"]
    assert (shown["start"], shown["end"], shown["label"], shown["evidence"][0]["source"]) == (4, 15, "false", 1)


def test_the_evidence_shown_is_the_evidence_that_decided() -> None:
    proof = [evidence(n, FactLabel.TRUE, 0.99) for n in range(5)] + [evidence(9, FactLabel.FALSE, 0.6)]
    assert [item.passage.id for item in shown_evidence(fact("X.", 0, FactLabel.FALSE, *proof))] == ["p9", "p0", "p1"]


def test_complaints_name_what_failed_and_nothing_else() -> None:
    good = verdict(fact("Yes.", 0), choice=1)
    bad = verdict(fact("No. ", 0, FactLabel.ABSURD), fact("Yes.", 5), status=Status.FAILED, choice=2)
    assert complaints([good, bad]) == {2: ["No."]}


def test_filtered_answers_keep_a_verdict_whose_offsets_fit() -> None:
    text = "Ä 😀 is so. It is not! But é́ stays."
    pieces = ["Ä 😀 is so.", "It is not!", "But é́ stays."]
    facts = [
        fact(piece, text.index(piece), label)
        for piece, label in zip(pieces, [FactLabel.TRUE, FactLabel.FALSE, FactLabel.TRUE], strict=True)
    ]
    kept, left = without_facts(verdict(*facts), text, lambda item: item.status is Status.FAILED)
    assert left == "Ä 😀 is so. But é́ stays."
    assert [left[f.segment.start : f.segment.end] for f in kept.facts] == [pieces[0], "", pieces[2]]
    assert [f.segment.text for f in kept.facts] == [pieces[0], "", pieces[2]]
    assert kept.facts[1].label is FactLabel.FALSE


TEXTS = st.text(st.sampled_from("ab .!\n-|[1]*é́😀 "), max_size=60)


@given(TEXTS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5))
def test_offsets_still_name_the_same_text_after_sentences_were_removed(text: str, spans: list[tuple[int, int]]) -> None:
    left, offsets = drop_spans(text, spans)
    assert left == "".join(text[start:end] for start, end in offsets.kept)
    for start in range(len(text)):
        for end in (start + 1, start + 4):
            piece = offsets.cut(start, text[start:end])
            span = offsets.span(start, min(end, len(text)))
            assert (span is None) == (piece == "")
            if span is not None:
                assert left[span[0] : span[1]] == piece
        assert 0 <= offsets.point(start) <= len(left)
    removed = {offset for start, end in spans for offset in range(start, min(end, len(text)))}
    assert not removed.intersection(
        offset for start, end in offsets.kept for offset in range(start, end) if text[offset] not in "*"
    )
    stays = [character for offset, character in enumerate(text) if offset not in removed and character in "abé😀"]
    assert [character for character in left if character in "abé😀"] in (stays, [])


def drop(text: str, *sentences: str) -> str:
    return drop_spans(text, [(text.index(s), text.index(s) + len(s)) for s in sentences])[0]


@pytest.mark.parametrize(
    ("text", "sentences", "left"),
    [
        ("One. Two. Three.", ["Two."], "One. Three."),
        ("One. Two. Three.", ["One."], "Two. Three."),
        ("One. Two. Three.", ["Three."], "One. Two."),
        ("One. Two. Three.", ["One.", "Two.", "Three."], ""),
        ("One.\n\nTwo.\n\nThree.", ["Two."], "One.\n\nThree."),
        ("One.\n\nTwo.", ["Two."], "One."),
        ("One.\n\nTwo.", ["One."], "Two."),
        ("List:\n- one\n- two\n- three", ["two"], "List:\n- one\n- three"),
        ("1. One.\n2. Two.\n3. Three.\n", ["Two."], "1. One.\n3. Three.\n"),
        ("- [ ] one\n- [x] two", ["two"], "- [ ] one"),
        ("> One.\n> Two.", ["One."], "> Two."),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |", ["1 | 2"], "| a | b |\n|---|---|\n| 3 | 4 |"),
        ("One [1]. Two [2] [3]. Three.", ["Two [2] [3]."], "One [1]. Three."),
        ("One. Two. [2][3] Three.", ["Two."], "One. Three."),
        ("**One. Two.** Three.", ["One."], "**Two.** Three."),
        ("**One. Two.** Three.", ["Two.**"], "**One.** Three."),
        ("- Yes. No.\n- So.", ["No."], "- Yes.\n- So."),
        ("Да. Нет 😀. Да.", ["Нет 😀."], "Да. Да."),
        ("One. Yes.", ["One."], "Yes."),
    ],
)
def test_a_removed_sentence_leaves_clean_text(text: str, sentences: list[str], left: str) -> None:
    assert drop(text, *sentences) == left


def test_what_left_sentence_by_sentence_has_offsets_in_what_left() -> None:
    facts = [fact("One.", 0), fact("Two.", 5, FactLabel.FALSE), fact("Three.", 10)]
    shown = moved(verdict(*facts), OffsetMap(((0, 5), (10, 16))))
    left = "One. Three."
    assert [left[f.segment.start : f.segment.end] for f in shown.facts] == ["One.", "", "Three."]
    assert shown.facts[1] == replace(facts[1], segment=Segment("", 5, 5))
    cut = moved(verdict(*facts), OffsetMap(((0, 4),)))
    assert [f.segment.text for f in cut.facts] == ["One.", "", ""]

"""One issue before the panel: hop by hop, with every way a judge or a file can be missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from checks.errors import CassetteError, ReviewSetupError
from checks.review.cache import MemoryReplies
from checks.review.cassette import AbsentJudge, Cassette
from checks.review.decide import Outcome, Request, Variant
from checks.review.ensemble import Ensemble, Judged, Trace
from checks.review.panel import Limits, Panel
from checks.review.prompts import Exhibit, Matter
from checks.review.scene import Asked, Found, TextScene
from checks.types import Judge, JudgePrompt, Reason
from tests.checks.review.judges import (
    HALLUCINATION,
    UNAVAILABLE,
    UNDETERMINED,
    VALID,
    CountingJudge,
    DeadJudge,
    asks,
    judge,
    said,
)

OWN = Exhibit(path="a.py", blob="blob-a", text="import b\nb.run()\n")
MATTER = Matter(issue="`b.run` may fail.", place="In a.py, line 2:", exhibits=(OWN,))


@dataclass
class ListedScene:
    """A scene that finds files in a mapping by their exact path."""

    files: dict[str, str]
    matter: Matter = MATTER
    asked: list[Asked] = field(default_factory=list)

    @property
    def listing(self) -> tuple[str, ...]:
        return tuple(self.files)

    async def find(self, asked: Asked, shown: tuple[Exhibit, ...], hop: int) -> Found:
        self.asked.append(asked)
        text = self.files.get(asked.file_path)
        if text is None:
            return Found(request=Request.REFUSED)
        if asked.file_path in {exhibit.path for exhibit in shown}:
            return Found(request=Request.SHOWN, matched=asked.file_path, how="exact")
        exhibit = Exhibit(path=asked.file_path, blob=f"blob-{asked.file_path}", text=text, hop=hop)
        return Found(request=Request.FOUND, matched=asked.file_path, how="exact", exhibits=(exhibit,))


async def run(
    judges: Sequence[Judge], scene: Any = None, *, hops: int = 1, variant: Variant = Variant.MULTI_HOP
) -> tuple[Judged, Trace]:
    trace = Trace()
    ensemble = Ensemble(variant, len(judges), hops)
    judged = await ensemble.judge(scene or ListedScene({"b.py": "def run(): ..."}), Panel(judges), trace)
    return judged, trace


def seeing(path: str, then: str, before: str = UNDETERMINED) -> Any:
    """Says `then` once a file is shown, `before` until then."""
    return lambda prompt: said(then if f"file {path}" in prompt.user else before)


async def test_a_judge_that_lacks_context_gets_the_file_it_asks_for_and_may_change_its_mind() -> None:
    unsure = judge("b", seeing("b.py", HALLUCINATION), asks("b.py"))
    judged, trace = await run([judge("a", said(VALID)), unsure])
    assert judged.outcome is Outcome.HALLUCINATION
    assert judged.rule == "multi_hop.any_hallucination"
    assert [(one.judge, one.hop, one.vote.value) for one in trace.ballots] == [
        ("a", 0, "valid"), ("b", 0, "undetermined"), ("a", 1, "valid"), ("b", 1, "hallucination"),
    ]  # fmt: skip
    assert [exhibit.path for exhibit in trace.exhibits] == ["a.py", "b.py"]
    assert [hop.told()["how"] for hop in trace.hops] == ["exact"]


async def test_a_judge_sure_without_context_does_not_outrank_one_that_lacks_it() -> None:
    unsure = judge("b", seeing("b.py", VALID), asks("b.py"))
    sure = judge("a", seeing("b.py", VALID, before=HALLUCINATION))
    judged, _ = await run([sure, unsure])
    assert judged.outcome is Outcome.VALID


@pytest.mark.parametrize("path", ["", "nowhere.py", "a.py"])
async def test_an_issue_stays_when_the_file_asked_for_is_empty_absent_or_shown_already(path: str) -> None:
    unsure = judge("b", said(UNDETERMINED), asks(path))
    scene = ListedScene({"a.py": "shown", "b.py": "other"})
    judged, trace = await run([judge("a", said(HALLUCINATION)), unsure], scene)
    assert judged.outcome is Outcome.VALID
    assert judged.rule == "multi_hop.no_further_file"
    assert len(trace.ballots) == 2


async def test_two_unsure_judges_each_get_their_file_and_both_see_both() -> None:
    one = judge("a", said(UNDETERMINED), asks("b.py"))
    two = judge("b", seeing("c.py", VALID), asks("c.py"))
    judged, trace = await run([one, two], ListedScene({"b.py": "1", "c.py": "2"}))
    assert [exhibit.path for exhibit in trace.exhibits] == ["a.py", "b.py", "c.py"]
    assert judged.outcome is Outcome.UNDETERMINED
    assert "file b.py" in two.prompts[-1].user
    assert "file c.py" in one.prompts[-1].user


async def test_the_same_file_asked_for_twice_is_shown_once() -> None:
    pair = [judge(name, said(UNDETERMINED), asks("b.py")) for name in "ab"]
    _, trace = await run(pair)
    assert [exhibit.path for exhibit in trace.exhibits] == ["a.py", "b.py"]


@pytest.mark.parametrize("hops", [1, 2, 3])
async def test_no_more_files_are_asked_for_than_the_route_allows(hops: int) -> None:
    paths = ["b.py", "c.py", "d.py", "e.py"]

    def next_file(prompt: JudgePrompt) -> dict[str, str]:
        return asks(next(path for path in paths if f"file {path}" not in prompt.user))

    unsure = judge("b", said(UNDETERMINED), None)
    unsure = type(unsure)([("evaluate", said(UNDETERMINED)), ("request_file", next_file)], name="b")
    judged, trace = await run([judge("a", said(VALID)), unsure], ListedScene(dict.fromkeys(paths, "x")), hops=hops)
    assert [hop.hop for hop in trace.hops] == list(range(1, hops + 1))
    assert judged.outcome is Outcome.UNDETERMINED
    assert len(trace.ballots) == 2 * (hops + 1)


async def test_a_judge_that_fails_to_name_a_file_leaves_the_issue_unjudged_and_not_valid() -> None:
    judged, trace = await run([judge("a", said(VALID)), judge("b", said(UNDETERMINED), "no idea")])
    assert judged.outcome is Outcome.ABSTAIN
    assert judged.reason is Reason.JUDGE_REPLY_INVALID
    assert trace.hops[0].told()["asked"] is None


@pytest.mark.parametrize("variant", [Variant.OR, Variant.MULTI_HOP])
async def test_one_dead_judge_is_no_verdict_of_valid(variant: Variant) -> None:
    judged, _ = await run([judge("a", said(VALID)), judge("b", UNAVAILABLE)], variant=variant)
    assert judged.label is None
    assert judged.reason is Reason.JUDGE_UNAVAILABLE


async def test_a_judge_that_raises_abstains_and_the_review_goes_on() -> None:
    class Broken(CountingJudge):
        async def judge(self, prompt: Any, schema: Any) -> Any:
            raise RuntimeError("broken")

    judged, trace = await run([judge("a", said(HALLUCINATION)), Broken("b")], variant=Variant.OR)
    assert judged.outcome is Outcome.HALLUCINATION
    assert trace.ballots[1].reason is Reason.JUDGE_UNAVAILABLE
    assert "broken" in trace.ballots[1].why


async def test_a_dead_judge_is_waited_for_a_few_times_and_then_left_alone() -> None:
    dead = DeadJudge()
    panel = Panel([dead, judge("a", said(VALID))], Limits(call_s=0.01, give_up_after=2, calls_at_once=1))
    ensemble = Ensemble(Variant.OR, 2)
    for _ in range(5):
        judged = await ensemble.judge(TextScene(MATTER), panel, Trace())
        assert judged.label is None
    assert dead.calls == 2


async def test_a_review_stops_asking_when_it_has_cost_what_it_may() -> None:
    dear = CountingJudge("dear", cost=0.4)
    panel = Panel([dear], Limits(max_cost_usd=1.0, calls_at_once=1))
    reasons = [(await Ensemble(Variant.SINGLE, 1).judge(TextScene(MATTER), panel, Trace())).reason for _ in range(4)]
    assert dear.calls == 2
    assert reasons == [None, None, Reason.TOO_LONG, Reason.TOO_LONG]
    assert panel.spent_usd <= 1.0


async def test_the_same_question_about_the_same_code_is_never_paid_for_twice() -> None:
    replies, one = MemoryReplies(), judge("a", said(HALLUCINATION))
    for expected in (1, 0):
        trace = Trace()
        panel = Panel([one], replies=replies)
        judged = await Ensemble(Variant.SINGLE, 1).judge(TextScene(MATTER), panel, trace)
        assert judged.outcome is Outcome.HALLUCINATION
        assert len(trace.calls) == expected
    assert len(one.prompts) == 1
    assert trace.ballots[0].cached
    changed = Matter(
        issue=MATTER.issue, place=MATTER.place, exhibits=(Exhibit(path="a.py", blob="c", text="b.run(1)"),)
    )
    await Ensemble(Variant.SINGLE, 1).judge(TextScene(changed), Panel([one], replies=replies), Trace())
    other_model = Panel([one], replies=replies, versions={"a": "newer"})
    await Ensemble(Variant.SINGLE, 1).judge(TextScene(MATTER), other_model, Trace())
    assert len(one.prompts) == 3


async def test_a_failed_call_is_made_again_next_time() -> None:
    replies, broken = MemoryReplies(), judge("a", "not json")
    for _ in range(2):
        await Ensemble(Variant.SINGLE, 1).judge(TextScene(MATTER), Panel([broken], replies=replies), Trace())
    assert len(broken.prompts) == 2


async def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    replies, one = MemoryReplies(2), judge("a", said(VALID))
    for issue in ("1", "2", "1", "3", "1", "2"):
        scene = TextScene(Matter(issue=issue, place="", exhibits=(OWN,)))
        await Ensemble(Variant.SINGLE, 1).judge(scene, Panel([one], replies=replies), Trace())
    assert len(replies) == 2
    assert len(one.prompts) == 4


async def test_a_cassette_gives_the_same_verdict_without_a_model(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    two = [judge("a", said(VALID)), judge("b", seeing("b.py", HALLUCINATION), asks("b.py"))]
    ensemble = Ensemble(Variant.MULTI_HOP, 2)
    with Cassette(tape) as recording:
        first, paid = Trace(), await ensemble.judge(ListedScene({"b.py": "x"}), Panel(two, replies=recording), Trace())
    with Cassette(tape, read_only=True) as replayed:
        silent = [AbsentJudge("a"), AbsentJudge("b")]
        again = await ensemble.judge(ListedScene({"b.py": "x"}), Panel(silent, replies=replayed), first)
        assert again.outcome is paid.outcome is Outcome.HALLUCINATION
        assert not first.calls
        missing = await ensemble.judge(ListedScene({"b.py": "changed"}), Panel(silent, replies=replayed), Trace())
    assert missing.label is None
    assert "not on the cassette" in missing.ballots[0].why
    assert "b.run" not in tape.read_text()


async def test_a_damaged_cassette_names_its_line(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    tape.write_text('\n{"key": "k"}\n')
    with pytest.raises(CassetteError, match=r"tape\.jsonl:2"), Cassette(tape, read_only=True):
        pass


async def test_a_cassette_keeps_no_call_that_failed(tmp_path: Path) -> None:
    with Cassette(tmp_path / "tape.jsonl") as tape:
        panel = Panel([judge("a", UNAVAILABLE), judge("b", "gibberish")], replies=tape)
        await Ensemble(Variant.OR, 2).judge(TextScene(MATTER), panel, Trace())
    kept = [json.loads(line) for line in (tmp_path / "tape.jsonl").read_text().splitlines()]
    assert [line["reason"] for line in kept] == ["judge_reply_invalid"]


@pytest.mark.parametrize(
    ("variant", "judges", "hops"),
    [
        (Variant.SINGLE, 2, 1), (Variant.OR, 1, 1), (Variant.AND, 1, 1), (Variant.MAJORITY, 2, 1),
        (Variant.MULTI_HOP, 2, 0), (Variant.MULTI_HOP, 2, 9),
    ],
)  # fmt: skip
def test_a_variant_that_cannot_work_is_refused_before_the_first_review(
    variant: Variant, judges: int, hops: int
) -> None:
    with pytest.raises(ReviewSetupError) as refused:
        Ensemble(variant, judges, hops)
    assert refused.value.hint

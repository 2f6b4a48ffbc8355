"""A judge's reply is believed only as far as it can be held against the code it was shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.judge.scripted import ScriptedJudge
from checks.review.prompts import Exhibit, Matter, evaluation_prompt, evaluation_schema
from checks.review.votes import Ballot, Vote, ballot, stands_in
from checks.types import Reason

CODE = "def load(path):\n    with open(path) as file:\n        return json.load(file)\n"
FILE = Exhibit(path="app/load.py", blob="b1", text=CODE)


def said(evaluation: str = "Hallucination", **more: Any) -> dict[str, Any]:
    asked = {f"{kind}_{n}": f"{kind} {n}" for n in (1, 2, 3) for kind in ("question", "answer")}
    return {**asked, "quotes": [], "absent": [], "evaluation": evaluation, "evaluation_reason": "because", **more}


async def cast(reply: Any) -> Ballot:
    judge = ScriptedJudge([("evaluate", reply)])
    prompt = evaluation_prompt(Matter(issue="x", place="In app/load.py:", exhibits=(FILE,)))
    return ballot("a", 0, await judge.judge(prompt, evaluation_schema()), [FILE])


async def test_the_three_words_of_the_method_are_the_three_votes_however_they_are_spelled() -> None:
    assert (await cast(said("Valid Issue"))).vote is Vote.VALID
    assert (await cast(said("hallucination"))).vote is Vote.HALLUCINATION
    assert (await cast(said("UNDETERMINED"))).vote is Vote.UNDETERMINED
    assert (await cast(said("Valid Issue"))).questions[2] == ("question 3", "answer 3")


@pytest.mark.parametrize(
    "reply",
    [
        "I think this is a hallucination.",
        json.dumps(said("Objection")),
        json.dumps(said())[:-20],
        json.dumps({"evaluation": "Hallucination"}),
        json.dumps(said("Valid Issue")) + json.dumps(said("Hallucination")),
        "",
    ],
)
async def test_a_reply_that_cannot_be_read_is_an_abstention_and_no_objection_to_the_issue(reply: str) -> None:
    found = await cast(reply)
    assert found.vote is Vote.ABSTAIN
    assert found.reason is Reason.JUDGE_REPLY_INVALID


async def test_a_judge_that_quotes_code_which_is_not_there_does_not_count() -> None:
    found = await cast(said(quotes=["with open(path) as file:", "yaml.safe_load(file)"]))
    assert found.vote is Vote.ABSTAIN
    assert found.said == "hallucination"
    assert "yaml.safe_load" in found.why


async def test_a_judge_that_calls_absent_what_stands_in_the_file_does_not_count() -> None:
    found = await cast(said(absent=["json.load"]))
    assert found.vote is Vote.ABSTAIN
    assert "app/load.py" in found.why
    assert (await cast(said(absent=["json.loads", "yaml"]))).vote is Vote.HALLUCINATION
    assert (await cast(said("Valid Issue", absent=["json.load"]))).vote is Vote.VALID


@pytest.mark.parametrize(
    "quote",
    [
        "with open(path) as file:",
        "2| with open(path) as file:",
        "2: with open(path) as file:\n3:     return json.load(file)",
        "`return json.load(file)`",
        "with  open(path)  as file:\n return json.load(file)",
        "def load(path): ... return json.load(file)",
        "",
        "}",
    ],
)
def test_a_true_quote_is_recognised_however_the_judge_lays_it_out(quote: str) -> None:
    assert stands_in(quote, CODE)


@pytest.mark.parametrize(
    "quote",
    [
        "with open(path, 'rb') as file:",
        "return json.load(file) ... def load(path)",
        "def load(path: str)",
        "import json",
    ],
)
def test_a_quote_that_was_changed_or_put_out_of_order_is_not(quote: str) -> None:
    assert not stands_in(quote, CODE)


def test_a_quote_from_a_diff_may_come_without_the_marks_of_its_lines() -> None:
    diff = "@@ -1,2 +1,3 @@\n context\n+import optparse\n+import sys\n-import os"
    assert stands_in("import optparse\nimport sys", diff)
    assert stands_in("+import optparse\n+import sys", diff)
    assert not stands_in("import argparse", diff)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200), st.data())
def test_every_part_of_a_file_is_a_quote_of_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    quote = text[start:end]
    if "..." not in quote and "…" not in quote and not any(line.strip()[:1].isdigit() for line in quote.splitlines()):
        assert stands_in(quote, text)

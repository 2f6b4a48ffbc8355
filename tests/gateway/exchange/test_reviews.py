"""A review keeps every character that no verdict is about, streamed or plain, wherever in the answer it stands."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.upstream.scripted import Script, ScriptedUpstream
from tests.gateway.exchange.reviewing import Misfit, WordReview
from tests.gateway.exchange.running import Reply, Setting
from tests.gateway.exchange.test_parity import plain, seen, streamed
from tests.gateway.kit import gateway, route_config, without

KEPT = "Review 🚲 of «the change»\n\n"
REAL = "[a.py:3] The lock is never released. "
MADE_UP = "[b.py:7] A made up null. "
SEVERE = "[c.py:9] A severe made up overflow. "
TAIL = "\nThanks!\n"
MIXED = KEPT + REAL + MADE_UP + SEVERE + TAIL
FILTERED = KEPT + REAL + "(?) " + SEVERE + TAIL
MARKED = KEPT + REAL + "(?) " + MADE_UP + "(?) " + SEVERE + TAIL
CHECK = {"kind": "plugin", "name": "words"}
ROUTES: dict[str, dict[str, Any]] = {
    "held-annotate": {"check": CHECK, "release": "held", "action": "annotate"},
    "held-filter": {"check": CHECK, "release": "held", "action": "filter"},
    "held-block": {"check": CHECK, "release": "held", "action": "block"},
    "live-annotate": {"check": CHECK, "release": "live", "action": "annotate"},
    "detached-annotate": {"check": CHECK, "release": "detached", "action": "annotate"},
}


async def ask_both(
    route: dict[str, Any], texts: list[str], cuts: list[int], check: WordReview | None = None, **fields: Any
) -> tuple[Reply, Reply]:
    def setting(script: Script) -> Setting:
        return Setting(ScriptedUpstream(script), check or WordReview(), None, route)

    return (
        await setting(plain(texts)).ask(stream=False, n=len(texts), **fields),
        await setting(streamed(texts, cuts)).ask(
            stream=True, n=len(texts), stream_options={"include_usage": True}, **fields
        ),
    )


async def ask_script(route: dict[str, Any], script: Script, *, stream: bool = False, **fields: Any) -> Reply:
    return await Setting(ScriptedUpstream(script), WordReview(), None, route).ask(stream=stream, **fields)


def content(reply: Reply) -> str:
    return str(reply.completion["choices"][0]["message"]["content"])


def issues(reply: Reply) -> list[dict[str, Any]]:
    return [issue for check in reply.completion["grounding"]["checks"] for issue in check["issues"]]


@pytest.mark.parametrize("route", ROUTES)
@given(
    pieces=st.lists(st.sampled_from([KEPT, REAL, MADE_UP, SEVERE, TAIL, "é"]), min_size=1, max_size=5),
    cuts=st.lists(st.integers(0, 200), max_size=12),
)
@settings(max_examples=12, deadline=None)
def test_a_streamed_review_never_gets_another_text_verdict_or_record(
    route: str, pieces: list[str], cuts: list[int]
) -> None:
    one, other = asyncio.run(ask_both(ROUTES[route], ["".join(pieces)], cuts))
    assert seen(one) == seen(other)
    (record,), (streamed_record,) = one.records, other.records
    ignored = ("stream", "request_body", "sent_body", "answer_body")
    assert without(record, *ignored) == without(streamed_record, *ignored)


async def test_a_filtered_review_loses_its_hallucination_and_no_other_character() -> None:
    for reply in await ask_both(ROUTES["held-filter"], [MIXED], [5, 40, 41]):
        assert content(reply) == FILTERED
        assert reply.completion["choices"][0]["finish_reason"] == "stop"
        (check,) = reply.completion["grounding"]["checks"]
        assert (check["status"], check["action"]) == ("failed", "filter")


async def test_nothing_of_a_removed_issue_leaves_by_its_verdict() -> None:
    for reply in await ask_both(ROUTES["held-filter"], [MIXED], []):
        assert b"null" not in reply.body.replace(b":null", b"")
        kept, removed, severe = issues(reply)
        assert (removed["title"], removed["label"], removed["action"]) == ("", "hallucination", "drop")
        assert removed["votes"] == [{"judge": "one", "hop": 0, "label": "hallucination", "reason": None}]
        assert kept["votes"][0]["reason"].startswith("the code says so")
        assert severe["action"] == "mark"
        # In the ledger is all of it, for those who may read it.
        assert "A made up null." in [fact.text for fact in reply.records[0].checks[0].facts]


async def test_offsets_of_issues_fit_the_text_that_left() -> None:
    for name, text in (("held-filter", FILTERED), ("held-annotate", MARKED), ("live-annotate", MIXED)):
        for reply in await ask_both(ROUTES[name], [MIXED], [7]):
            assert content(reply) == text
            spans = {issue["path"]: text[issue["start"] : issue["end"]] for issue in issues(reply)}
            assert spans["a.py"] == REAL
            assert spans["c.py"] == SEVERE
            assert spans["b.py"] == ("" if name == "held-filter" else MADE_UP)


async def test_a_held_review_is_marked_in_place_and_a_live_one_only_by_its_verdict() -> None:
    for reply in await ask_both(ROUTES["held-annotate"], [MIXED], [3]):
        assert content(reply) == MARKED
        assert reply.completion["grounding"]["checks"][0]["action"] == "annotate"
    for name in ("live-annotate", "detached-annotate"):
        for reply in await ask_both(ROUTES[name], [MIXED], [3]):
            assert content(reply) == MIXED
            assert [fact.label for fact in reply.records[0].checks[0].facts].count("hallucination") == 2


async def test_a_review_without_a_bad_issue_arrives_in_the_bytes_it_was_sent_in() -> None:
    script = plain([KEPT + REAL + TAIL])
    reply = await ask_script(ROUTES["held-filter"], script)
    before, after = dict(script.steps[0]), reply.json  # type: ignore[call-overload]
    assert after.pop("grounding")["checks"][0]["action"] == "none"
    assert after == before


async def test_a_review_that_loses_everything_is_an_empty_review_not_an_error() -> None:
    for reply in await ask_both(ROUTES["held-filter"], [MADE_UP], [4]):
        assert reply.status == 200
        assert not reply.completion["choices"][0]["message"]["content"]
        assert reply.records[0].outcome == "completed"


async def test_each_choice_of_several_is_edited_by_its_own_verdict() -> None:
    texts = [MADE_UP + REAL, "No review at all.", SEVERE + MADE_UP]
    for reply in await ask_both(ROUTES["held-filter"], texts, [9]):
        said = [choice["message"]["content"] for choice in reply.completion["choices"]]
        assert said == [REAL, "No review at all.", "(?) " + SEVERE]
        assert [check["status"] for check in reply.completion["grounding"]["checks"]] == [
            "failed",
            "not_checked",
            "failed",
        ]


async def test_a_bots_other_calls_pass_on_unchanged_and_say_why() -> None:
    for reply in await ask_both(ROUTES["held-filter"], ['{"score": 8, "why": "fine"}'], [4]):
        assert content(reply) == '{"score": 8, "why": "fine"}'
        (check,) = reply.completion["grounding"]["checks"]
        assert (check["status"], check["reason"], check["issues"]) == ("not_checked", "no_facts", [])


async def test_a_review_that_does_not_hold_is_blocked_without_a_word_of_it() -> None:
    for reply in await ask_both(ROUTES["held-block"], [MIXED], [4]):
        assert reply.status == 422
        assert b"null" not in reply.body.replace(b":null", b"")
        assert b"the code says so" not in reply.body


async def test_a_repair_names_the_issues_that_do_not_hold_and_keeps_the_rest_of_the_prompt() -> None:
    asked: list[Any] = []

    def answer(request: Any) -> Script:
        asked.append(json.loads(request.body))
        return plain([MIXED if len(asked) == 1 else REAL])

    setting = Setting(
        ScriptedUpstream(answer), WordReview(), None, {"check": CHECK, "release": "held", "action": "repair"}
    )
    reply = await setting.ask(stream=False)
    assert content(reply) == REAL
    *before, said, complaint = asked[1]["messages"]
    assert before == asked[0]["messages"]
    assert said == {"role": "assistant", "content": MIXED}
    assert "- A made up null." in complaint["content"]
    assert "code under review" in complaint["content"]
    assert "documents" not in complaint["content"]


# -- tool calls --------------------------------------------------------------------------------------------------------


def calling(arguments: list[str], said: str | None = None) -> dict[str, Any]:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "comment", "arguments": text}}
        for n, text in enumerate(arguments)
    ]
    message = {"role": "assistant", "content": said, "refusal": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    return {"id": "c1", "object": "chat.completion", "created": 7, "model": "m", "choices": [choice]}


def calling_stream(arguments: list[str], said: str | None = None) -> Script:
    def event(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [choice]}

    steps = [event({"role": "assistant", "content": said})]
    for n, text in enumerate(arguments):
        function = {"name": "comment", "arguments": text[:5]}
        steps.append(event({"tool_calls": [{"index": n, "id": f"c{n}", "type": "function", "function": function}]}))
        steps.append(event({"tool_calls": [{"index": n, "function": {"arguments": text[5:]}}]}))
    return Script(steps=(*steps, event({}, "tool_calls")))


async def test_a_review_in_the_arguments_of_tool_calls_is_filtered_there() -> None:
    arguments = [json.dumps({"body": MADE_UP + REAL}), json.dumps({"path": "x"}), json.dumps({"body": SEVERE})]
    for script, stream in (
        (Script(steps=(calling(arguments, said="On it."),)), False),
        (calling_stream(arguments, said="On it."), True),
    ):
        reply = await ask_script(ROUTES["held-filter"], script, stream=stream)
        message = reply.completion["choices"][0]["message"]
        said = [call["function"]["arguments"] for call in message["tool_calls"]]
        assert said == [json.dumps({"body": REAL}), arguments[1], json.dumps({"body": "(?) " + SEVERE})]
        assert [call["id"] for call in message["tool_calls"]] == ["c0", "c1", "c2"]
        assert message["content"] == "On it."
        assert [issue["part"] for issue in issues(reply)] == ["tool_calls[0]", "tool_calls[0]", "tool_calls[2]"]
        assert reply.completion["grounding"]["checks"][0]["status"] == "failed"
        parts = [fact.issue["part"] for fact in reply.records[0].checks[0].facts]
        assert parts == ["tool_calls[0]", "tool_calls[0]", "tool_calls[2]"]


async def test_an_agents_turn_without_a_review_passes_on_unchanged() -> None:
    script = Script(steps=(calling([json.dumps({"file": "a.py"})]),))
    reply = await ask_script(ROUTES["held-filter"], script)
    after = reply.json
    assert after.pop("grounding")["checks"][0]["reason"] == "no_facts"
    assert after == script.steps[0]


# -- what the check is told --------------------------------------------------------------------------------------------


async def test_the_check_knows_repository_revision_messages_and_the_wanted_schema() -> None:
    check = WordReview()
    schema = {"type": "object", "properties": {"issues": {"type": "array", "minItems": 1}}}
    tool = {"type": "function", "function": {"name": "comment", "parameters": {"type": "object"}}}
    setting = Setting(
        ScriptedUpstream(Script(steps=(calling([json.dumps({"body": MADE_UP})], said=REAL),))),
        check,
        None,
        {**ROUTES["held-filter"], "request_options": {"repository": True}},
    )
    await setting.ask(
        stream=False,
        messages=[{"role": "system", "content": "Review."}, {"role": "user", "content": "diff --git a/a.py b/a.py"}],
        grounding={"repository": "app", "revision": "abc123", "base_revision": "main"},
        response_format={"type": "json_schema", "json_schema": {"name": "r", "schema": schema}},
        tools=[tool],
    )
    by_answer = {case.answer: case.options for case in check.cases}
    options = by_answer[REAL]
    assert (options["repository"], options["revision"], options["base_revision"]) == ("app", "abc123", "main")
    assert options["messages"] == (("system", "Review."), ("user", "diff --git a/a.py b/a.py"))
    assert options["schema"] == schema
    assert by_answer[json.dumps({"body": MADE_UP})]["schema"] == {"type": "object"}


@pytest.mark.parametrize("stream", [False, True])
async def test_edits_that_do_not_fit_the_answer_change_nothing_in_it(stream: bool) -> None:
    script = streamed([MIXED], [4]) if stream else plain([MIXED])
    route = {**ROUTES["held-annotate"]}
    reply = await Setting(ScriptedUpstream(script), Misfit(), None, route).ask(stream=stream)
    assert content(reply) == MIXED
    assert reply.records[0].check_reason == "judge_unavailable"


# -- what stands beside the text ---------------------------------------------------------------------------------------


async def test_what_spells_or_cites_the_text_fits_it_afterwards_or_goes() -> None:
    cited = [
        {"type": "url_citation", "url_citation": {"start_index": at, "end_index": at + len(text), "url": "u"}}
        for text in (KEPT, MADE_UP, SEVERE)
        for at in (MIXED.index(text),)
    ]
    body = plain([MIXED]).steps[0]
    assert isinstance(body, dict)
    choice = body["choices"][0]
    choice["logprobs"] = {"content": [{"token": MIXED, "logprob": -1.0, "bytes": None, "top_logprobs": []}]}
    choice["message"] |= {"annotations": cited, "reasoning_content": "They made up a null?"}
    reply = await ask_script(ROUTES["held-filter"], Script(steps=(body,)))
    choice = reply.json["choices"][0]
    spans = [(note["url_citation"]["start_index"], note["url_citation"]["end_index"])
             for note in choice["message"]["annotations"]]  # fmt: skip
    assert [FILTERED[start:end] for start, end in spans] == [KEPT, SEVERE]
    assert choice["logprobs"] is None
    assert "reasoning_content" not in choice["message"]
    reply = await ask_script(ROUTES["held-annotate"], Script(steps=(body,)))
    # Marks take nothing out, so what was thought may stay.
    assert reply.json["choices"][0]["message"]["reasoning_content"] == "They made up a null?"


# -- the record --------------------------------------------------------------------------------------------------------


async def test_an_issue_is_recorded_with_its_votes_hop_files_evidence_cost_and_action() -> None:
    (reply, _) = await ask_both(ROUTES["held-filter"], [MIXED], [])
    (check,) = reply.records[0].checks
    removed = check.facts[1]
    assert (removed.label, removed.status, removed.rule) == ("hallucination", "failed", "any_hallucination")
    assert MIXED[removed.start : removed.end] == MADE_UP
    assert removed.issue == {
        "path": "b.py", "start_line": 7, "end_line": 7, "severity": "low", "action": "drop", "part": "",
        "votes": [{"judge": "one", "hop": 0, "label": "hallucination", "abstained": None, "cached": None}],
        "hops": [{"asked": "lib/b.py", "matched": "src/lib/b.py", "how": "suffix"}],
        "files": [{"path": "b.py", "blob": "b10b", "start_line": 1, "end_line": 9, "hop": 0}],
        "evidence": ["path_absent"],
        "cost_usd": 0.25,
    }  # fmt: skip
    assert removed.detail["votes"][0]["reason"] == "the code says so about A made up null."
    assert [call.fact_position for call in check.calls] == [0, 1, 2]
    assert check.details == {"repository": None, "revision": "abc123"}


async def test_a_review_that_you_already_have_is_checked_and_given_back_filtered_and_marked() -> None:
    check = WordReview()
    config = route_config(check=CHECK, release="held", action="filter", request_options={"repository": True})
    upstream = ScriptedUpstream(plain([""]))
    async with gateway(upstream, check=check, config=config) as served:
        body = {"answer": MIXED, "route": "test", "repository": "app", "revision": "abc123"}
        reply = (await served.http.post("/v1/check", json=body)).json()
        assert (reply["status"], reply["filtered"], reply["marked"]) == ("failed", FILTERED, MARKED)
        assert [issue["title"] for issue in reply["grounding"]["checks"][0]["issues"]][1] == "A made up null."
        assert check.cases[0].options["revision"] == "abc123"
        reply = (await served.http.post("/v1/check", json={"answer": "Nothing.", "route": "test"})).json()
        assert (reply["reason"], "filtered" in reply) == ("no_facts", False)

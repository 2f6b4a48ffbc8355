"""A streamed answer and a plain one are the same answer: content, annotations, verdict and record."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.scripted import ScriptedCheck
from checks.types import FactLabel, Reason
from gateway.config.modes import TABLE, Action, Release
from gateway.upstream.scripted import Script, ScriptedUpstream
from tests.gateway.exchange.running import Reply, Setting
from tests.gateway.kit import static, without

SENTENCES = ("It goes 40 km [1].", "It weighs 3 kg [2].", "Это красный велосипед 🚲.", "Ask me more!", "Is it blue?")
RULES = (("3 kg", FactLabel.FALSE), ("blue", Reason.TIMEOUT))
CELLS = [(release, action) for (release, action), cell in TABLE.items() if not cell.refused]


def plain(texts: list[str], **extra: Any) -> Script:
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    envelope = {"id": "c1", "object": "chat.completion", "created": 7, "model": "m"}
    return Script(steps=({**envelope, "choices": choices, "usage": usage, **extra},))


def streamed(texts: list[str], cuts: list[int], **extra: Any) -> Script:
    envelope = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m", **extra}

    def event(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**envelope, "choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    steps = [event(index, {"role": "assistant", "content": ""}) for index in range(len(texts))]
    for index, text in enumerate(texts):
        borders = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
        steps += [event(index, {"content": text[a:b]}) for a, b in pairwise(borders)]
    steps += [event(index, {}, "stop") for index in range(len(texts))]
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    steps.append({**envelope, "choices": [], "usage": usage})
    return Script(steps=tuple(steps))


async def both(route: dict[str, Any], texts: list[str], cuts: list[int]) -> tuple[Reply, Reply]:
    def setting(script: Script) -> Setting:
        return Setting(
            ScriptedUpstream(script),
            ScriptedCheck(RULES),
            static("It goes 40 km on one charge.", "It weighs 2 kg."),
            route,
        )

    return (
        await setting(plain(texts)).ask(stream=False, n=len(texts)),
        await setting(streamed(texts, cuts)).ask(stream=True, n=len(texts), stream_options={"include_usage": True}),
    )


def seen(reply: Reply) -> Any:
    """What a client can tell about an answer."""
    if reply.status != 200:
        return reply.status, reply.json
    completion = reply.completion
    choices = [
        {
            "content": choice["message"]["content"],
            "refusal": choice["message"].get("refusal"),
            "annotations": choice["message"].get("annotations") or [],
            "finish_reason": choice["finish_reason"],
        }
        for choice in completion["choices"]
    ]
    return reply.status, choices, completion.get("grounding"), completion.get("usage")


@pytest.mark.parametrize(("release", "action"), CELLS)
@given(
    sentences=st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 200), max_size=12),
    response=st.sampled_from(["error", "refusal"]),
)
@settings(max_examples=25, deadline=None)
def test_a_stream_never_gets_another_verdict_or_record_than_a_plain_answer(
    release: Release, action: Action, sentences: list[str], cuts: list[int], response: str
) -> None:
    if release is Release.SENTENCE and action is Action.BLOCK:
        response = "refusal"
    route = {"release": release.value, "action": action.value, "block_response": response}
    one, other = asyncio.run(both(route, [" ".join(sentences)], cuts))
    cut_off = release is Release.SENTENCE and one.records[0].outcome == "blocked"
    assert seen(one)[: 3 if cut_off else 4] == seen(other)[: 3 if cut_off else 4]
    (record,), (streamed_record,) = one.records, other.records
    ignored = ("stream", "request_body", "sent_body", "answer_body")
    if cut_off:
        ignored = (*ignored, "usage", "finish_reasons")  # the upstream was cut off before it told
    assert without(record, *ignored) == without(streamed_record, *ignored)


@given(cuts=st.lists(st.integers(0, 200), max_size=12))
@settings(max_examples=20, deadline=None)
def test_each_of_several_choices_keeps_its_own_verdict_in_both_modes(cuts: list[int]) -> None:
    texts = ["It goes 40 km.", "It weighs 3 kg.", "It is red."]
    one, other = asyncio.run(both({"release": "held"}, texts, cuts))
    assert seen(one) == seen(other)
    statuses = [check["status"] for check in one.json["grounding"]["checks"]]
    assert statuses == ["passed", "failed", "passed"]


@given(cuts=st.lists(st.integers(0, 200), max_size=12))
@settings(max_examples=20, deadline=None)
def test_one_bad_choice_blocks_all_of_them_and_no_word_of_any_leaves(cuts: list[int]) -> None:
    texts = ["It goes 40 km.", "It weighs 3 kg."]
    for reply in asyncio.run(both({"release": "held", "action": "block"}, texts, cuts)):
        assert reply.status == 422
        assert b"3 kg" not in reply.body
        assert b"It goes" not in reply.body
        assert reply.headers["x-should-retry"] == "false"


@given(text=st.text(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=30))
@settings(max_examples=60, deadline=None)
def test_no_text_is_lost_whatever_it_is_and_however_it_was_cut(text: str, cuts: list[int]) -> None:
    text = text.encode("utf-8", "replace").decode()
    for release in ("live", "held", "sentence"):
        one, other = asyncio.run(both({"release": release}, [text], cuts))
        assert one.completion["choices"][0]["message"]["content"] == text
        streamed_content = other.completion["choices"][0]["message"]["content"] or ""
        assert streamed_content.rstrip() == text.rstrip()


def test_the_rejected_sentence_never_leaves_a_sentence_route() -> None:
    text = "It goes 40 km. It weighs 3 kg. It is red."
    for action, response in (("block", "refusal"), ("filter", "error")):
        route = {"release": "sentence", "action": action, "block_response": response}
        for reply in asyncio.run(both(route, [text], list(range(len(text))))):
            assert b"3 kg" not in reply.body
            assert b"40 km" in reply.body

"""Every allowed cell of release x action over the wire: the same verdict either way, and no byte that failed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from tests.acceptance.asking import BOTH, Said, ask, ask_raw, body
from tests.acceptance.conftest import House
from tests.acceptance.settings import CELLS
from tests.servers.upstream import Reply, chat_events, chunk, completion, json_reply, sse_reply

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

GOOD = "The Falcon weighs 3 kg. It flies 40 km."
MIXED = "The Falcon weighs 3 kg. Its wrong range is 90 km. It was sold in 2019."
BAD = "Its wrong range is 90 km."
UPSTREAM_MODES = [False, True]
WITHHOLDING = ["held-block", "held-refusal", "held-filter", "sentence-block", "sentence-filter"]


def answer(text: str, stream: bool) -> Reply:
    return sse_reply(chat_events(text, usage=True)) if stream else json_reply(completion(text))


async def said_by(house: House, route: str, text: str, *, stream: bool, upstream_streams: bool | None = None) -> Said:
    house.upstream.enqueue(answer(text, stream if upstream_streams is None else upstream_streams))
    return await ask(house.client(route), stream=stream)


@pytest.mark.parametrize("upstream_streams", UPSTREAM_MODES, ids=["upstream plain", "upstream streams"])
@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
@pytest.mark.parametrize("route", [name for name in CELLS if name != "detached-annotate"])
async def test_a_true_answer_arrives_whole_with_its_sources(
    house: House, route: str, stream: bool, upstream_streams: bool
) -> None:
    said = await said_by(house, route, GOOD, stream=stream, upstream_streams=upstream_streams)
    assert said.text == GOOD
    assert (said.finishes, said.labels) == ({0: "stop"}, ["true", "true"])
    assert said.checks[0]["status"] == "passed"
    spans = [(note["url_citation"]["start_index"], note["url_citation"]["end_index"]) for note in said.annotations[0]]
    assert [GOOD[start:end] for start, end in spans] == ["The Falcon weighs 3 kg.", "It flies 40 km."]
    assert all(note["url_citation"]["url"].startswith(f"{house.base_url}/v1/sources/") for note in said.annotations[0])
    record = await house.record(said.exchange)
    assert (record["outcome"], record["check_status"], record["stream"]) == ("completed", "passed", stream)
    assert [fact["label"] for check in record["checks"] for fact in check["facts"]] == ["true", "true"]


@pytest.mark.parametrize("route", CELLS)
async def test_a_streamed_and_a_plain_answer_get_the_same_verdict(house: House, route: str) -> None:
    """BerriAI/litellm #35257: the guard of one shape did not run on the other, and the log said it had."""
    results = []
    for stream in BOTH:
        house.upstream.enqueue(answer(MIXED, stream), answer(MIXED, stream))
        exchange, shown = await _verdict(house, route, stream)
        record = await house.record(exchange)
        if route == "detached-annotate":
            record = await _checked(house, exchange)
        facts = [
            (check["attempt"], fact["start"], fact["end"], fact["label"], fact["status"])
            for check in record["checks"]
            for fact in check["facts"]
        ]
        results.append((shown, record["outcome"], record["check_status"], record["check_reason"], facts))
        house.upstream.forget()
    assert results[0] == results[1]
    assert results[0][2] == "failed"


async def _verdict(house: House, route: str, stream: bool) -> tuple[str, Any]:
    """The exchange and all that the client was shown of it, errors included."""
    try:
        said = await ask(house.client(route), stream=stream)
    except openai.UnprocessableEntityError as error:
        error_body: Any = error.body
        return error_body["grounding"]["exchange_id"], (422, _neutral(error_body["grounding"]))
    assert said.grounding is not None
    notes = [_neutral(note) for note in said.annotations[0]]
    shown = (said.text, said.refusals[0], said.finishes, notes, _neutral(said.grounding))
    return said.exchange, shown


def _neutral(value: Any) -> Any:
    return {key: item for key, item in value.items() if key != "exchange_id"} if isinstance(value, dict) else value


async def _checked(house: House, exchange: str) -> dict[str, Any]:
    """The record of a detached exchange; it reaches Postgres once, with its verdict."""
    record = await house.record(exchange)
    assert record["checks"] != []
    return record


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("route", WITHHOLDING)
async def test_no_byte_of_a_rejected_sentence_leaves(house: House, route: str, stream: bool) -> None:
    """api7/aisix #466: the end of a stream was checked after its text had left."""
    house.upstream.enqueue(answer(MIXED, stream))
    response = await house.http.post(f"/r/{route}/v1/chat/completions", json=body(stream=stream))
    assert "90 km" not in response.text
    assert "90 km" not in str(response.headers)
    exchange = response.headers["x-grounding-exchange"]
    assert "90 km" not in house.gateway.output
    # What was withheld is in the ledger, for those who may read it.
    assert "90 km" in json.dumps(await house.record(exchange))


@pytest.mark.parametrize("upstream_streams", UPSTREAM_MODES, ids=["upstream plain", "upstream streams"])
@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
@pytest.mark.parametrize("route", WITHHOLDING)
async def test_a_rejected_sentence_does_not_leave_by_a_side_door(
    house: House, route: str, stream: bool, upstream_streams: bool
) -> None:
    """Log-probabilities spell an answer out once more; reasoning and arguments may quote what was rejected."""
    token = {"token": MIXED, "logprob": -0.5, "bytes": list(b"90 km"), "top_logprobs": []}
    events = chat_events(MIXED, pieces=1, logprobs=True)
    whole = completion(MIXED)
    whole["choices"][0]["logprobs"] = {"content": [token], "refusal": None}
    if not route.endswith("filter"):
        events[0]["choices"][0]["delta"]["reasoning_content"] = "Say 90 km."
        whole["choices"][0]["message"]["reasoning_content"] = "Say 90 km."
    house.upstream.enqueue(sse_reply(events) if upstream_streams else json_reply(whole))
    response = await house.http.post(f"/r/{route}/v1/chat/completions", json=body(stream=stream, logprobs=True))
    assert response.status_code in (200, 422)
    assert "90 km" not in response.text
    assert "57, 48" not in response.text
    assert "57,48" not in response.text


@pytest.mark.parametrize("stream", BOTH)
async def test_one_bad_choice_of_several_blocks_the_answer(house: House, stream: bool) -> None:
    texts = {0: GOOD, 1: MIXED}
    events = [
        chunk([{"index": index, "delta": {"role": "assistant", "content": text}}]) for index, text in texts.items()
    ]
    events += [chunk([{"index": index, "delta": {}, "finish_reason": "stop"}]) for index in texts]
    whole = completion()
    whole["choices"] = [
        {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for index, text in texts.items()
    ]
    house.upstream.enqueue(sse_reply(events) if stream else json_reply(whole))
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        await ask(house.client("held-block"), stream=stream, n=2)
    grounding: Any = caught.value.body["grounding"]  # type: ignore[index]
    assert [(check["choice"], check["status"]) for check in grounding["checks"]] == [(0, "passed"), (1, "failed")]


@pytest.mark.parametrize("stream", BOTH)
async def test_a_blocked_answer_is_a_422_that_the_sdk_does_not_ask_for_again(house: House, stream: bool) -> None:
    """BerriAI/litellm #29436, #24347: blocks as 500, so that clients retry and pay again."""
    house.upstream.enqueue(answer(MIXED, stream), answer(GOOD, stream), answer(GOOD, stream))
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        await ask(house.client("held-block", max_retries=2), stream=stream)
    error = caught.value
    assert (error.status_code, error.code) == (422, "grounding_failed")
    assert error.response.headers["x-should-retry"] == "false"
    assert error.response.headers["x-grounding-status"] == "failed"
    assert len(house.upstream.requests) == 1
    grounding: Any = error.body["grounding"]  # type: ignore[index]
    (check,) = grounding["checks"]
    assert (check["status"], check["action"]) == ("failed", "block")
    assert [fact["label"] for fact in check["facts"]] == ["true", "false", "true"]
    assert [(fact["text"], fact["start"], fact["end"]) for fact in check["facts"]][1] == ("", 24, 49)
    record = await house.record(error.response.headers["x-grounding-exchange"])
    assert (record["outcome"], record["status"], record["check_status"]) == ("blocked", 422, "failed")


@pytest.mark.parametrize("stream", BOTH)
async def test_a_refusal_in_place_of_an_error_has_the_shape_of_an_answer(house: House, stream: bool) -> None:
    said = await said_by(house, "held-refusal", MIXED, stream=stream)
    assert said.text == ""
    assert "withheld" in said.refusals[0]
    assert said.finishes == {0: "content_filter"}
    assert said.checks[0]["status"] == "failed"
    assert (await house.record(said.exchange))["outcome"] == "blocked"


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("route", ["held-filter", "sentence-filter"])
async def test_a_filtered_answer_lacks_only_what_failed_and_its_citations_still_fit(
    house: House, route: str, stream: bool
) -> None:
    said = await said_by(house, route, MIXED, stream=stream)
    left = "The Falcon weighs 3 kg. It was sold in 2019."
    assert said.text == left
    assert said.finishes == {0: "stop"}
    spans = [note["url_citation"] for note in said.annotations[0]]
    cited = [left[span["start_index"] : span["end_index"]] for span in spans]
    assert cited == ["The Falcon weighs 3 kg.", "It was sold in 2019."]
    facts = said.checks[0]["facts"]
    assert [left[fact["start"] : fact["end"]] for fact in facts if fact["label"] == "true"] == cited


@pytest.mark.parametrize("stream", BOTH)
async def test_sentences_before_a_failed_one_are_kept_and_the_stream_says_why_it_ends(
    house: House, stream: bool
) -> None:
    said = await said_by(house, "sentence-block", MIXED, stream=stream)
    assert said.text.strip() == "The Falcon weighs 3 kg."
    assert "withheld" in said.refusals[0]
    assert said.finishes == {0: "content_filter"}
    assert (await house.record(said.exchange))["outcome"] == "blocked"


@pytest.mark.parametrize("stream", BOTH)
async def test_a_repaired_answer_replaces_the_bad_one(house: House, stream: bool) -> None:
    house.upstream.enqueue(answer(MIXED, stream), answer(GOOD, stream))
    said = await ask(house.client("held-repair"), stream=stream)
    assert said.text == GOOD
    again = (await house.upstream.request(1)).json
    assert BAD in json.dumps(again["messages"])
    record = await house.record(said.exchange)
    assert [(check["attempt"], check["status"]) for check in record["checks"]] == [(0, "failed"), (1, "passed")]
    assert len(record["attempts"]) == 2


@pytest.mark.parametrize("stream", BOTH)
async def test_a_detached_answer_does_not_wait_for_its_verdict(house: House, stream: bool) -> None:
    house.upstream.enqueue(answer("Its stalling weight is 3 kg.", stream))
    said = await ask(house.client("detached-annotate"), stream=stream)
    assert said.text == "Its stalling weight is 3 kg."
    assert said.checks == []
    await house.judge.asked.wait()
    assert (await house.http.get(f"/v1/exchanges/{said.exchange}")).status_code == 404
    house.judge.let_go.set()
    assert (await house.record(said.exchange))["check_status"] == "passed"


@pytest.mark.parametrize("stream", BOTH)
async def test_a_judge_that_talks_nonsense_gives_no_verdict(house: House, stream: bool) -> None:
    """NVIDIA-NeMo/Guardrails #899: with one model every answer was refused, since its replies could not be read."""
    said = await said_by(house, "held-annotate", "It has a garbled weight of 3 kg.", stream=stream)
    assert (said.checks[0]["status"], said.checks[0]["reason"]) == ("not_checked", "judge_reply_invalid")
    with pytest.raises(openai.UnprocessableEntityError):
        await said_by(house, "fragile", "It has a garbled weight of 3 kg.", stream=stream)


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("route", ["live-annotate", "held-block", "sentence-filter", "held-filter"])
async def test_small_talk_and_empty_answers_are_neither_passed_nor_blocked(
    house: House, route: str, stream: bool
) -> None:
    for text in ("Hello! How can I help you today?", ""):
        said = await said_by(house, route, text, stream=stream)
        assert said.text == text
        assert (said.checks[0]["status"], said.checks[0]["reason"]) == ("not_checked", "no_facts")


@pytest.mark.parametrize("stream", BOTH)
async def test_a_request_may_ask_for_what_the_route_allows_and_for_nothing_else(house: House, stream: bool) -> None:
    client = house.client("choosy")
    house.upstream.enqueue(*(answer(MIXED, stream) for _ in range(3)))
    held = await ask(client, stream=stream, extra_body={"grounding": {"release": "held"}})
    assert held.headers["x-grounding-status"] == "failed"
    off = await ask(client, stream=stream, extra_headers={"x-grounding-check": "off"})
    assert off.checks == [] or off.checks[0]["reason"] == "disabled"
    assert (await house.record(off.exchange))["check_reason"] == "disabled"
    shadow = await ask(client, stream=stream, extra_body={"grounding": {"check": "shadow"}})
    assert shadow.checks == []
    assert (await house.record(shadow.exchange))["check_status"] == "failed"
    with pytest.raises(openai.PermissionDeniedError):
        await ask(client, stream=stream, extra_body={"grounding": {"release": "sentence"}})
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(client, stream=stream, extra_body={"grounding": {"relase": "held"}})
    assert "release" in caught.value.message


@pytest.mark.parametrize("stream", BOTH)
async def test_an_answer_longer_than_may_be_held_follows_the_declared_rule(house: House, stream: bool) -> None:
    """envoyproxy/ai-gateway #494: a streamed body over a buffer's limit failed."""
    long = "The Falcon weighs 3 kg. " * 600
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        await said_by(house, "small", long, stream=stream)
    record = await house.record(caught.value.response.headers["x-grounding-exchange"])
    assert (record["check_status"], record["check_reason"]) == ("not_checked", "too_long")


async def test_keep_alives_flow_while_the_model_thinks_and_while_the_answer_is_checked(house: House) -> None:
    """BerriAI/litellm PR #37322: load balancers drop a connection that is silent."""
    gate = asyncio.Event()
    house.upstream.enqueue(sse_reply(chat_events("Its stalling weight is 3 kg."), gates={0: gate}))
    lines: list[str] = []
    async with house.http.stream("POST", "/r/alive/v1/chat/completions", json=body(stream=True)) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            lines.append(line)
            if line == ": keep-alive" and not gate.is_set():
                gate.set()
                before = len(lines)
            elif line == ": keep-alive" and house.judge.asked.is_set():
                house.judge.let_go.set()
    assert lines[0] == ": keep-alive"
    assert before < len(lines)
    assert house.judge.asked.is_set()
    assert lines[-2:] == ["data: [DONE]", ""]
    text = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in text) == "Its stalling weight is 3 kg."


async def test_a_block_after_a_keep_alive_is_one_error_event_and_no_clean_end(house: House) -> None:
    gate = asyncio.Event()
    house.upstream.enqueue(sse_reply(chat_events(MIXED), gates={0: gate}))
    raw = bytearray()
    async with house.http.stream("POST", "/r/alive/v1/chat/completions", json=body(stream=True)) as response:
        async for piece in response.aiter_raw():
            raw += piece
            gate.set()
    *_, last, empty = bytes(raw).split(b"\n\n")
    assert empty == b""
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert error["code"] == "grounding_failed"
    assert error["grounding"]["checks"][0]["status"] == "failed"
    assert b"[DONE]" not in raw
    assert b"90 km" not in raw


@pytest.mark.parametrize("stream", BOTH)
async def test_the_sdk_raises_for_a_block_after_a_keep_alive(house: House, stream: bool) -> None:
    gate = asyncio.Event()
    events = chat_events(MIXED)
    house.upstream.enqueue(sse_reply(events, gates={0: gate}) if stream else json_reply(completion(MIXED), gate=gate))
    asking = asyncio.create_task(ask(house.client("alive"), stream=stream))
    await house.upstream.request(0)
    gate.set()
    with pytest.raises(openai.APIError):
        await asking


async def test_nothing_but_one_finish_chunk_carries_the_verdict_of_a_stream(house: House) -> None:
    house.upstream.enqueue(sse_reply(chat_events(GOOD, usage=True)))
    place = "/r/live-annotate/v1/chat/completions"
    wire = await ask_raw(house.http, place, stream_options={"include_usage": True})
    chunks = [json.loads(event) for event in wire.events[:-1]]
    assert [i for i, value in enumerate(chunks) if "grounding" in value] == [len(chunks) - 2]
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == []
    annotated = [
        i for i, value in enumerate(chunks) if (value["choices"] or [{}])[0].get("delta", {}).get("annotations")
    ]
    assert annotated == [len(chunks) - 3]

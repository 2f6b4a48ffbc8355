"""What upstreams do to an answer, and what a client of the gateway gets: the same answer, or an honest error."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.acceptance.asking import BOTH, ask, ask_raw, body
from tests.acceptance.conftest import House
from tests.acceptance.settings import KEY, UPSTREAM_KEY
from tests.servers.upstream import (
    FIN,
    RESET,
    Reply,
    chat_events,
    chunk,
    completion,
    error_reply,
    head,
    json_reply,
    raw_reply,
    sse_reply,
    tool_call_events,
)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

TEXT = "Привет. The Falcon weighs 3 kg — about 6.6 lb. 🚁"
ROUTES = ["plain", "held-annotate", "sentence-annotate"]


def answer(stream: bool, text: str = TEXT, **how: Any) -> Reply:
    return sse_reply(chat_events(text), **how) if stream else json_reply(completion(text))


STREAMS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "split at every byte": {"split": 1},
    "CRLF": {"newline": "\r\n"},
    "CR": {"newline": "\r"},
    "comments between events": {"comments": True},
    "no final newline": {"final_newline": False},
    "no done mark": {"done": False},
    "until the connection closes": {"framing": "close"},
    "with a length": {"framing": "length"},
    "no content type": {"content_type": None},
    "gzip": {"encoding": "gzip"},
    "brotli": {"encoding": "br"},
    "zstd": {"encoding": "zstd"},
    "deflate": {"encoding": "deflate"},
    "split, CRLF and comments": {"split": 3, "newline": "\r\n", "comments": True},
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("how", STREAMS)
async def test_no_character_of_an_answer_is_lost_however_the_upstream_streams(
    house: House, how: str, route: str
) -> None:
    """Kong/kong #14499 (an end mark without a blank line), Kong's changelog (Brotli), and every split of the bytes."""
    house.upstream.enqueue(answer(stream=True, **STREAMS[how]))
    said = await ask(house.client(route), stream=True)
    assert (said.text, said.finishes, said.roles[0]) == (TEXT, {0: "stop"}, "assistant")
    record = await house.record(said.exchange)
    assert (record["outcome"], record["body"]["answers"]) == ("completed", {"0": TEXT})


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate"])
async def test_a_compressed_body_reaches_the_client_readable(house: House, encoding: str) -> None:
    """Kong's changelog: an upstream body in Brotli that nobody could decode."""
    house.upstream.enqueue(json_reply(completion(TEXT), encoding=encoding))
    said = await ask(house.client("plain"), stream=False)
    assert said.text == TEXT
    accepted = (await house.upstream.request(0)).headers["accept-encoding"]
    assert encoding in accepted


@pytest.mark.parametrize("route", ROUTES)
async def test_the_shape_of_an_answer_follows_the_request_and_not_the_upstream(house: House, route: str) -> None:
    """gumieri/nenya #18: a stream replayed to a client that asked for a plain answer."""
    house.upstream.enqueue(json_reply(completion(TEXT)), sse_reply(chat_events(TEXT)))
    streamed = await ask(house.client(route), stream=True)
    plain = await ask(house.client(route), stream=False)
    assert streamed.text == plain.text == TEXT
    assert streamed.finishes == plain.finishes == {0: "stop"}
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert plain.headers["content-type"].startswith("application/json")


async def test_a_program_that_uses_the_synchronous_sdk_works_unchanged(house: House) -> None:
    """All that it changes is the base URL."""

    def both() -> tuple[str | None, str]:
        with OpenAI(base_url=f"{house.base_url}/v1", api_key=KEY, max_retries=0) as client:
            plain = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
            chunks = client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            return plain.choices[0].message.content, streamed

    house.upstream.enqueue(answer(stream=False), answer(stream=True))
    assert await asyncio.to_thread(both) == (TEXT, TEXT)


# -- content of every kind ---------------------------------------------------------------------------------------------

CALLS = [("weigh", '{"what": "falcon"}'), ("measure", '{"what": "range", "unit": "km"}'), ("weigh", "{}")]


def whole_calls() -> list[dict[str, Any]]:
    return [
        {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate(CALLS)
    ]


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("route", [*ROUTES, "held-block", "detached-annotate"])
async def test_parallel_tool_calls_keep_their_own_arguments(house: House, route: str, stream: bool) -> None:
    """Portkey-AI/gateway #1275, tensorzero #1266, litellm #5231: an index that is missing or stuck at 0."""
    whole = completion(None, finish="tool_calls", tool_calls=whole_calls())
    house.upstream.enqueue(sse_reply(tool_call_events(CALLS)) if stream else json_reply(whole))
    tools = [{"type": "function", "function": {"name": "weigh", "parameters": {}}}]
    said = await ask(house.client(route), stream=stream, tools=tools, parallel_tool_calls=True)
    calls = [(call["name"], call["arguments"]) for _, call in sorted(said.calls[0].items())]
    assert calls == CALLS
    assert [call["id"] for call in said.calls[0].values()] == ["call_0", "call_1", "call_2"]
    assert said.finishes == {0: "tool_calls"}
    if route != "plain" and route != "detached-annotate":
        assert said.checks[0]["status"] == "not_checked"


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("route", ROUTES)
async def test_every_one_of_several_choices_keeps_its_place(house: House, route: str, stream: bool) -> None:
    """BerriAI/litellm #3276: wrong index of the second choice; #38180: one verdict for all of them."""
    events = [
        chunk([{"index": index, "delta": {"role": "assistant", "content": f"Choice {index} weighs {index} kg."}}])
        for index in (1, 0, 2)
    ]
    events += [chunk([{"index": index, "delta": {}, "finish_reason": "stop"}]) for index in (0, 1, 2)]
    whole = completion()
    whole["choices"] = [
        {
            "index": index,
            "message": {"role": "assistant", "content": f"Choice {index} weighs {index} kg."},
            "finish_reason": "stop",
        }
        for index in (0, 1, 2)
    ]
    house.upstream.enqueue(sse_reply(events) if stream else json_reply(whole))
    said = await ask(house.client(route), stream=stream, n=3)
    assert said.texts == {index: f"Choice {index} weighs {index} kg." for index in (0, 1, 2)}
    assert said.finishes == dict.fromkeys((0, 1, 2), "stop")
    record = await house.record(said.exchange)
    assert record["body"]["answers"] == {str(index): text for index, text in said.texts.items()}
    if route != "plain":
        assert [check["choice"] for check in said.checks] == [0, 1, 2]
        assert [check["choice"] for check in record["checks"]] == [0, 1, 2]


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("route", ROUTES)
async def test_log_probabilities_refusals_and_reasoning_come_through(house: House, route: str, stream: bool) -> None:
    events = chat_events("It weighs 3 kg.", logprobs=True)
    first = events[0]["choices"][0]["delta"]
    first["reasoning_content"] = "Let me weigh it."
    whole = completion("It weighs 3 kg.", reasoning_content="Let me weigh it.")
    token = {"token": "It", "logprob": -0.25, "bytes": None, "top_logprobs": []}
    whole["choices"][0]["logprobs"] = {"content": [token], "refusal": None}
    house.upstream.enqueue(sse_reply(events) if stream else json_reply(whole))
    said = await ask(house.client(route), stream=stream, logprobs=True)
    assert said.text == "It weighs 3 kg."
    assert said.reasoning[0] == "Let me weigh it."
    assert {entry["logprob"] for entry in said.logprobs[0]} == {-0.25}
    refusal = [
        chunk([{"index": 0, "delta": {"role": "assistant", "content": None, "refusal": "I cannot help."}}]),
        chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}]),
    ]
    refused = completion(None)
    refused["choices"][0]["message"]["refusal"] = "I cannot help."
    house.upstream.enqueue(sse_reply(refusal) if stream else json_reply(refused))
    said = await ask(house.client(route), stream=stream)
    assert (said.text, said.refusals[0]) == ("", "I cannot help.")


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("route", ROUTES)
async def test_fields_that_nobody_has_heard_of_pass_both_ways(house: House, route: str, stream: bool) -> None:
    """A client may use tomorrow's API today."""
    events = chat_events("It weighs 3 kg.")
    for event in events:
        event["service_tier"] = "flex"
        event["tomorrow"] = {"deep": [1, 2.50, None]}
    whole = {**completion("It weighs 3 kg."), "service_tier": "flex", "tomorrow": {"deep": [1, 2.5, None]}}
    house.upstream.enqueue(sse_reply(events) if stream else json_reply(whole))
    extra = {"next_year": {"a": [1.0, 1e3]}, "verbosity": "low", "grounding": {}}
    said = await ask(house.client(route), stream=stream, extra_body=extra, reasoning_effort="minimal")
    assert said.extra["service_tier"] == "flex"
    assert said.extra["tomorrow"] == {"deep": [1, 2.5, None]}
    sent = (await house.upstream.request(0)).json
    assert sent["next_year"] == {"a": [1.0, 1e3]}
    assert (sent["verbosity"], sent["reasoning_effort"]) == ("low", "minimal")
    assert "grounding" not in sent


@pytest.mark.parametrize("route", ROUTES)
async def test_usage_comes_on_a_chunk_of_its_own_and_only_when_asked_for(house: House, route: str) -> None:
    """BerriAI/litellm #28735, #8450: a usage chunk with choices in it."""
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    house.upstream.enqueue(*(sse_reply(chat_events(TEXT, usage=True)) for _ in range(2)), json_reply(completion(TEXT)))
    place = f"/r/{route}/v1/chat/completions"
    asked = await ask_raw(house.http, place, stream_options={"include_usage": True})
    *chunks, last, done = asked.events
    assert done == b"[DONE]"
    assert json.loads(last)["choices"] == []
    assert json.loads(last)["usage"] == usage
    assert [json.loads(event).get("usage") for event in chunks] == [None] * len(chunks)
    unasked = await ask_raw(house.http, place)
    assert all(json.loads(event)["choices"] for event in unasked.events[:-1])
    # A plain body from the upstream, a stream to the client: the same rule.
    converted = await ask_raw(house.http, place, stream_options={"include_usage": True})
    assert json.loads(converted.events[-2])["usage"] == usage
    assert json.loads(converted.events[-2])["choices"] == []


@pytest.mark.parametrize("route", ROUTES)
async def test_every_event_ends_with_a_blank_line_and_holds_nothing_but_completion_chunks(
    house: House, route: str
) -> None:
    """Kong/kong #14499; open-webui's `{"sources": ...}` before the first chunk, which breaks strict clients."""
    house.upstream.enqueue(sse_reply(chat_events(TEXT), final_newline=False))
    wire = await ask_raw(house.http, f"/r/{route}/v1/chat/completions")
    assert wire.body.endswith(b"data: [DONE]\n\n")
    parts = wire.body.split(b"\n\n")[:-1]
    assert all(part.startswith(b"data: ") and b"\n" not in part for part in parts)
    objects = [json.loads(event) for event in wire.events[:-1]]
    assert {value["object"] for value in objects} == {"chat.completion.chunk"}
    assert {(value["id"], value["model"]) for value in objects} == {("chatcmpl-test", "test-model")}
    assert objects[0]["choices"][0]["delta"]["role"] == "assistant"  # Portkey-AI/gateway #1399


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [FIN, RESET], ids=["FIN", "RST"])
@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("route", ["plain", "held-annotate", "held-block", "sentence-annotate"])
async def test_an_answer_that_was_cut_off_never_looks_finished(house: House, route: str, after: int, cut: Any) -> None:
    """BerriAI/litellm PR #33222: a reset connection became an empty answer with a clean stop."""
    house.upstream.enqueue(sse_reply(chat_events(TEXT), cut_after=after, cut=cut, framing="close"))
    wire = await ask_raw(house.http, f"/r/{route}/v1/chat/completions")
    assert b"[DONE]" not in wire.body
    assert b'"stop"' not in wire.body
    if wire.status == 200:
        assert json.loads(wire.events[-1])["error"]["code"] == "upstream_cut"
    else:
        assert (wire.status, json.loads(wire.body)["error"]["code"]) == (502, "upstream_cut")
    assert route != "held-block" or wire.status == 502
    record = await house.record(wire.headers["x-grounding-exchange"])
    assert (record["outcome"], record["error_code"]) == ("upstream_error", "upstream_cut")


@pytest.mark.parametrize("stream", BOTH)
async def test_a_cut_answer_is_an_error_to_the_sdk(house: House, stream: bool) -> None:
    if stream:
        house.upstream.enqueue(sse_reply(chat_events(TEXT), cut_after=3, cut=RESET))
    else:
        house.upstream.enqueue(json_reply(completion(TEXT), truncate=40))
    with pytest.raises(openai.APIError):
        await ask(house.client("plain"), stream=stream)


@pytest.mark.parametrize("stream", BOTH)
async def test_a_rate_limit_reaches_the_client_with_its_hints(house: House, stream: bool) -> None:
    limits = [("x-ratelimit-remaining-requests", "0"), ("retry-after", "7"), ("openai-organization", "org")]
    envelope = {"error": {"message": "slow down", "type": "rate_limit", "param": None, "code": "rate"}}
    house.upstream.enqueue(json_reply(envelope, status=429, headers=[*limits, ("set-cookie", "a=b")]))
    with pytest.raises(openai.RateLimitError) as caught:
        await ask(house.client("plain"), stream=stream)
    headers = caught.value.response.headers
    assert {name: headers[name] for name, _ in limits} == dict(limits)
    assert "set-cookie" not in headers
    assert caught.value.body == envelope["error"]
    record = await house.record(headers["x-grounding-exchange"])
    assert (record["outcome"], record["status"]) == ("upstream_error", 429)


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("first", [429, 500, 502, 503, 504])
async def test_a_short_trouble_of_the_upstream_is_not_the_clients_trouble(
    house: House, first: int, stream: bool
) -> None:
    house.upstream.enqueue(error_reply(first, retry_after="0"), answer(stream))
    said = await ask(house.client("retrying"), stream=stream)
    assert said.text == TEXT
    record = await house.record(said.exchange)
    assert [attempt["status"] for attempt in record["attempts"]] == [first, 200]
    assert len(house.upstream.requests) == 2


@pytest.mark.parametrize("stream", BOTH)
async def test_an_answer_that_has_begun_is_never_asked_for_again(house: House, stream: bool) -> None:
    """A second generation would be paid twice, and would not go on where the first one was cut."""
    broken = (
        sse_reply(chat_events(TEXT), cut_after=2, cut=RESET) if stream else json_reply(completion(TEXT), truncate=30)
    )
    house.upstream.enqueue(broken, answer(stream))
    with pytest.raises(openai.APIError):
        await ask(house.client("retrying"), stream=stream)
    assert len(house.upstream.requests) == 1


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (json_reply(b"{broken"), "upstream_protocol"),
        (json_reply(b"", content_type="text/event-stream"), "upstream_protocol"),
        (json_reply(b"<html>Bad gateway</html>", content_type="text/html"), "upstream_protocol"),
        (json_reply({"object": "list", "data": []}), "upstream_protocol"),
        (sse_reply([b"{broken"]), "upstream_protocol"),
        (sse_reply([]), "upstream_protocol"),
        (raw_reply(b"this is not HTTP\r\n\r\n", FIN), None),
        (raw_reply(head(302, [("location", "http://127.0.0.1:9/"), ("content-length", "0")])), "upstream_protocol"),
        (raw_reply(FIN), None),
    ],
    ids=["json", "nothing", "html", "list", "event", "only done", "no http", "redirect", "closed"],
)
async def test_what_is_not_the_protocol_is_a_bad_gateway_that_says_so(
    house: House, reply: Reply, code: str | None, stream: bool
) -> None:
    house.upstream.enqueue(reply)
    with pytest.raises(openai.InternalServerError) as caught:
        await ask(house.client("plain"), stream=stream)
    assert caught.value.status_code == 502
    assert code is None or caught.value.code == code
    assert "main" in str(caught.value.message)


@pytest.mark.parametrize("route", ["plain", "held-block"])
@pytest.mark.parametrize("after", [0, 2])
async def test_an_error_inside_a_successful_stream_is_an_error(house: House, after: int, route: str) -> None:
    """BerriAI/litellm #25492: an error object inside of a 200 stream."""
    failure = {"error": {"message": "the model fell over", "type": "server_error", "param": None, "code": "oops"}}
    house.upstream.enqueue(sse_reply([*chat_events(TEXT)[:after], failure]))
    wire = await ask_raw(house.http, f"/r/{route}/v1/chat/completions")
    if after == 0 or route == "held-block":
        assert wire.status == 502
        assert b"[DONE]" not in wire.body
    else:
        assert json.loads(wire.events[-1]) == failure
        assert b"[DONE]" not in wire.body
    record = await house.record(wire.headers["x-grounding-exchange"])
    assert (record["outcome"], record["error_code"]) == ("upstream_error", "upstream_error_in_answer")


@pytest.mark.parametrize("stream", BOTH)
async def test_an_error_inside_a_stream_is_raised_by_the_sdk(house: House, stream: bool) -> None:
    failure = {"error": {"message": "the model fell over", "type": "server_error", "param": None, "code": "oops"}}
    house.upstream.enqueue(sse_reply([*chat_events(TEXT)[:3], failure]) if stream else json_reply(failure))
    with pytest.raises(openai.APIError):
        await ask(house.client("plain"), stream=stream)


@pytest.mark.parametrize("stream", BOTH)
async def test_an_upstream_that_is_not_there_is_told_apart_from_one_that_fails(house: House, stream: bool) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        await ask(house.client("away"), stream=stream)
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_unreachable")


@pytest.mark.parametrize("stream", BOTH)
async def test_a_silent_upstream_is_given_up_after_its_time(house: House, stream: bool) -> None:
    never = asyncio.Event()
    house.upstream.enqueue(raw_reply(never))
    with pytest.raises(openai.InternalServerError) as caught:
        await ask(house.client("impatient"), stream=stream)
    assert (caught.value.status_code, caught.value.code) == (504, "upstream_timeout")
    assert "timeouts.first_byte" in str(caught.value.message)
    await asyncio.wait_for((await house.upstream.request(0)).closed.wait(), 5)


async def test_a_stream_that_falls_silent_half_way_ends_in_an_error(house: House) -> None:
    """BerriAI/litellm #39898: hung upstream streams."""
    house.upstream.enqueue(sse_reply(chat_events(TEXT), gates={2: asyncio.Event()}))
    wire = await ask_raw(house.http, "/r/impatient/v1/chat/completions")
    error = json.loads(wire.events[-1])["error"]
    assert error["code"] == "upstream_timeout"
    assert "timeouts.idle" in error["message"]


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 500])
async def test_an_error_of_the_upstream_keeps_its_status_and_body(house: House, status: int, stream: bool) -> None:
    house.upstream.enqueue(error_reply(status, message="as the model server said it", code="its_own"))
    response = await house.http.post("/r/plain/v1/chat/completions", json=body(stream=stream))
    assert response.status_code == status
    assert response.json()["error"]["message"] == "as the model server said it"
    assert response.json()["error"]["code"] == "its_own"


@pytest.mark.parametrize("stream", BOTH)
async def test_every_try_at_an_upstream_is_recorded_also_when_none_succeeds(house: House, stream: bool) -> None:
    house.upstream.enqueue(*(error_reply(503, retry_after="0") for _ in range(3)))
    response = await house.http.post("/r/retrying/v1/chat/completions", json=body(stream=stream))
    assert response.status_code == 503
    record = await house.record(response.headers["x-grounding-exchange"])
    tries = [(attempt["status"], attempt["error"]) for attempt in record["attempts"]]
    assert tries == [(503, "upstream_status")] * 3
    house.upstream.enqueue(sse_reply(chat_events(TEXT), cut_after=2, cut=RESET))
    response = await house.http.post("/r/plain/v1/chat/completions", json=body(stream=True))
    record = await house.record(response.headers["x-grounding-exchange"])
    assert [(attempt["status"], attempt["error"]) for attempt in record["attempts"]] == [(200, "upstream_cut")]


@pytest.mark.parametrize("stream", BOTH)
async def test_an_upstream_that_says_which_key_it_refuses_does_not_tell_it_to_our_clients(
    house: House, stream: bool
) -> None:
    told = f"Incorrect API key provided: {UPSTREAM_KEY}"
    house.upstream.enqueue(error_reply(401, message=told))
    response = await house.http.post("/r/plain/v1/chat/completions", json=body(stream=stream))
    assert response.status_code == 401
    assert "Incorrect API key provided" in response.text
    house.upstream.enqueue(sse_reply([{"error": {"message": told}}]))
    inside = await house.http.post("/r/plain/v1/chat/completions", json=body(stream=stream))
    assert UPSTREAM_KEY not in response.text + inside.text


# -- pools -------------------------------------------------------------------------------------------------------------

SILENT = json_reply(completion(TEXT), gate=asyncio.Event())


@pytest.mark.parametrize("stream", BOTH)
async def test_a_dead_and_a_silent_upstream_are_not_the_clients_trouble(house: House, stream: bool) -> None:
    """envoyproxy/ai-gateway #1866: a fallback that was configured and never triggered."""
    house.upstream.enqueue(SILENT, answer(stream))
    said = await ask(house.client("pooled"), stream=stream)
    assert said.text == TEXT
    assert said.headers["x-grounding-upstream"] == "main"
    assert said.grounding is not None
    assert said.grounding["upstream"] == {"name": "main", "fallback": True}
    assert (await house.upstream.request(1)).json["model"] == "stand-in"
    record = await house.record(said.exchange)
    assert record["upstream"] == "main"
    tried = [(attempt["upstream"], attempt["status"], attempt["error"]) for attempt in record["attempts"]]
    assert tried == [
        ("away", None, "upstream_unreachable"),
        ("impatient", None, "upstream_timeout"),
        ("main", 200, ""),
    ]


@pytest.mark.parametrize("stream", BOTH)
async def test_quotes_stand_in_for_models_that_are_away_and_say_that_they_do(house: House, stream: bool) -> None:
    error_in_200 = sse_reply([{"error": {"message": "overloaded", "type": "server_error"}}])
    house.upstream.enqueue(error_reply(429, retry_after="0"), error_in_200)
    said = await ask(house.client("pooled"), stream=stream)
    assert "3 kg" in said.text
    assert said.headers["x-grounding-upstream"] == "quotes"
    assert said.grounding is not None
    assert said.grounding["upstream"] == {"name": "quotes", "fallback": True}
    record = await house.record(said.exchange)
    assert (record["outcome"], record["upstream"], record["upstream_model"]) == ("completed", "quotes", "quotes")
    assert [attempt["upstream"] for attempt in record["attempts"]] == ["away", "impatient", "main", "quotes"]


async def test_an_operator_sees_which_upstream_of_a_pool_is_left_alone(house: House) -> None:
    await ask(house.client("pooled"), stream=False)
    text = (await house.http.get("/metrics")).text
    for member in ("away", "impatient", "main", "quotes"):
        assert f'grounding_upstream_breaker_state{{pool="pooled",upstream="{member}"}} 0.0' in text

"""Clients and upstreams of other dialects over a real gateway: the same verdict, the same record, their own forms."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from tests.acceptance.asking import BOTH, ask
from tests.acceptance.conftest import House
from tests.acceptance.settings import CELLS, KEY, UPSTREAM_KEY
from tests.servers.messages import message, message_reply, text
from tests.servers.responses import response, streamed_response
from tests.servers.upstream import Reply, chat_events, completion, json_reply, sse_reply

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

GOOD = "The Falcon weighs 3 kg. It flies 40 km."
BAD = "Its wrong range is 90 km."


def claude_says(said: str, stream: bool) -> Reply:
    value = message(text(said))
    return message_reply(value) if stream else json_reply(value)


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_an_openai_client_gets_claude_grounded_and_recorded(house: House, stream: bool) -> None:
    house.upstream.enqueue(claude_says(GOOD, stream))
    said = await ask(house.client("claude-grounded"), stream=stream)
    assert (said.text, said.finishes) == (GOOD, {0: "stop"})
    received = await house.upstream.request(0)
    assert (received.path, received.headers["x-api-key"]) == ("/v1/messages", UPSTREAM_KEY)
    assert received.json["model"] == "claude-behind"
    assert "3 kg" in received.json["messages"][0]["content"][0]["text"]
    assert len(received.json["messages"]) == 1
    record = await house.record(said.exchange)
    assert (record["outcome"], record["upstream"]) == ("completed", "claude")
    assert UPSTREAM_KEY not in str(record)


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_a_wrong_answer_of_claude_never_leaves_a_held_route(house: House, stream: bool) -> None:
    house.upstream.enqueue(claude_says(BAD, stream))
    with pytest.raises(openai.UnprocessableEntityError) as blocked:
        await ask(house.client("claude-held-block"), stream=stream)
    assert "90 km" not in blocked.value.response.text


async def test_azure_on_both_sides(house: House) -> None:
    house.upstream.enqueue(json_reply(completion(GOOD)))
    async with openai.AsyncAzureOpenAI(
        azure_endpoint=house.base_url, api_key=house.openai.api_key, api_version="2024-10-21", max_retries=0
    ) as client:
        messages: Any = [{"role": "user", "content": "How heavy?"}]
        answer = await client.chat.completions.create(model="azure", messages=messages)
    assert answer.choices[0].message.content == GOOD
    received = await house.upstream.request(0)
    assert received.path == "/openai/deployments/our-gpt/chat/completions?api-version=2024-10-21"
    assert received.headers["api-key"] == UPSTREAM_KEY


def claude_client(house: House, route: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=f"{house.base_url}/r/{route}", api_key=KEY, max_retries=0)


async def _message(house: House, route: str, said: str, *, stream: bool) -> tuple[Any, str]:
    """The message of an Anthropic client, and the exchange's id."""
    house.upstream.enqueue(sse_reply(chat_events(said, usage=True)) if stream else json_reply(completion(said)))
    fields: Any = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "How heavy?"}]}
    async with claude_client(house, route) as client:
        if not stream:
            raw = await client.messages.with_raw_response.create(**fields)
            return await raw.parse(), raw.headers["x-grounding-exchange"]
        async with client.messages.stream(**fields) as events:
            return await events.get_final_message(), events.response.headers["x-grounding-exchange"]


@pytest.mark.parametrize("route", [name for name in CELLS if name not in ("detached-annotate", "held-repair")])
async def test_an_anthropic_client_gets_the_verdict_and_citations_of_every_mode(house: House, route: str) -> None:
    shown = []
    for stream in BOTH:
        message, exchange = await _message(house, route, GOOD, stream=stream)
        assert "".join(block.text for block in message.content) == GOOD
        citations = [citation for block in message.content for citation in block.citations or ()]
        assert {citation.type for citation in citations} == {"search_result_location"}
        assert all(citation.source.startswith(f"{house.base_url}/v1/sources/") for citation in citations)
        shown.append([block.model_dump(exclude_none=True) for block in message.content])
        record = await house.record(exchange)
        assert (record["outcome"], record["check_status"]) == ("completed", "passed")
        assert record["path"] == f"/r/{route}/v1/messages"
        facts = [fact for check in record["checks"] for fact in check["facts"]]
        quotes = {evidence["quote"] for fact in facts for evidence in fact["evidence"]}
        assert {citation.cited_text for citation in citations} <= quotes
    assert shown[0] == shown[1]
    assert len(shown[0]) == (2 if route.startswith("held") else 1)


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_a_wrong_answer_never_reaches_an_anthropic_client(house: House, stream: bool) -> None:
    """BerriAI/litellm #35257: the guard did not run on a streamed message, and the audit said it had."""
    with pytest.raises(anthropic.UnprocessableEntityError) as blocked:
        await _message(house, "held-block", BAD, stream=stream)
    assert "90 km" not in blocked.value.response.text
    refused, _ = await _message(house, "held-refusal", BAD, stream=stream)
    assert refused.stop_reason == "refusal"
    assert "90 km" not in refused.model_dump_json()


async def test_a_key_in_anthropics_header_is_as_good(house: House) -> None:
    async with anthropic.AsyncAnthropic(base_url=house.base_url, api_key="wrong", max_retries=0) as client:
        with pytest.raises(anthropic.AuthenticationError):
            await client.messages.create(model="claude", max_tokens=9, messages=[{"role": "user", "content": "x"}])


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_a_client_of_responses_gets_the_verdict_and_the_citations(house: House, stream: bool) -> None:
    house.upstream.enqueue(sse_reply(chat_events(GOOD, usage=True)) if stream else json_reply(completion(GOOD)))
    client = house.client("held-annotate")
    if stream:
        async with client.responses.stream(model="m", input="How heavy?") as events:
            answer: Any = await events.get_final_response()
    else:
        answer = await client.responses.create(model="m", input="How heavy?")
    assert answer.output_text == GOOD
    notes = answer.output[0].content[0].annotations
    spans = [GOOD[note.start_index : note.end_index] for note in notes]
    assert spans == ["The Falcon weighs 3 kg.", "It flies 40 km."]
    record = await house.record(answer.grounding["exchange_id"])
    assert (record["check_status"], record["path"]) == ("passed", "/r/held-annotate/v1/responses")


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_a_wrong_answer_never_reaches_a_client_of_responses(house: House, stream: bool) -> None:
    house.upstream.enqueue(sse_reply(chat_events(BAD)) if stream else json_reply(completion(BAD)))
    with pytest.raises(openai.UnprocessableEntityError) as blocked:
        await house.client("held-block").responses.create(model="m", input="How heavy?", stream=stream)
    assert "90 km" not in blocked.value.response.text


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_a_prompt_for_completions_is_blocked_by_the_same_check(house: House, stream: bool) -> None:
    house.upstream.enqueue(sse_reply(chat_events(BAD)) if stream else json_reply(completion(BAD)))
    client = house.client("held-block")
    with pytest.raises(openai.UnprocessableEntityError) as error:
        await client.completions.create(model="m", prompt="How far does it fly?", stream=stream)
    assert error.value.code == "grounding_failed"
    assert BAD not in str(error.value.body)


async def test_texts_are_embedded_by_a_collections_encoder_and_recorded(house: House) -> None:
    raw = await house.client("embedding").embeddings.with_raw_response.create(model="m", input=["Falcon", "range"])
    vectors = raw.parse()
    assert [len(item.embedding) for item in vectors.data] == [384, 384]
    assert not house.upstream.requests
    record = await house.record(raw.headers["x-grounding-exchange"])
    assert (record["outcome"], record["upstream"], record["check_status"]) == ("completed", "docs", "not_checked")


def responses_says(said: str, stream: bool) -> Reply:
    return streamed_response(said) if stream else json_reply(response(said))


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_an_openai_client_gets_an_answer_of_the_responses_api_grounded_and_recorded(
    house: House, stream: bool
) -> None:
    house.upstream.enqueue(responses_says(GOOD, stream))
    said = await ask(house.client("responses-grounded"), stream=stream)
    assert (said.text, said.finishes) == (GOOD, {0: "stop"})
    received = await house.upstream.request(0)
    assert received.path == "/v1/responses"
    assert (received.json["model"], received.json["store"]) == ("model-behind", False)
    assert any("3 kg" in str(item["content"]) for item in received.json["input"])
    record = await house.record(said.exchange)
    assert (record["outcome"], record["upstream"]) == ("completed", "responses")
    assert record["usage"]["total_tokens"] == 8


@pytest.mark.parametrize("stream", BOTH, ids=["plain", "stream"])
async def test_a_wrong_answer_of_the_responses_api_never_leaves_a_held_route(house: House, stream: bool) -> None:
    house.upstream.enqueue(responses_says(BAD, stream))
    with pytest.raises(openai.UnprocessableEntityError) as blocked:
        await ask(house.client("responses-held-block"), stream=stream)
    assert "90 km" not in blocked.value.response.text


async def test_a_search_that_the_upstream_ran_by_itself_is_no_answer(house: House) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    house.upstream.enqueue(json_reply(response(search, GOOD)))
    with pytest.raises(openai.InternalServerError) as failed:
        await ask(house.client("responses-grounded"), stream=False)
    assert failed.value.status_code == 502

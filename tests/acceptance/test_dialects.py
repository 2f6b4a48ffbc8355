"""Clients and upstreams of other dialects over a real gateway: the same verdict, the same record, their own forms."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.acceptance.asking import BOTH, ask
from tests.acceptance.conftest import House
from tests.acceptance.settings import UPSTREAM_KEY
from tests.servers.messages import message, message_reply, text
from tests.servers.upstream import Reply, completion, json_reply

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

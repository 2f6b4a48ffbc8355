"""Servers that do not speak chat completions, seen through the official OpenAI SDK and a gateway before them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from checks.scripted import ScriptedCheck
from checks.types import FactLabel
from gateway.errors import RequestError, UpstreamProtocolError
from gateway.upstream.anthropic import AnthropicSpeech
from gateway.upstream.openai import OpenAISettings, OpenAIUpstream
from gateway.upstream.speech import AzureSpeech, Speech
from gateway.wire.messages.to_upstream import Carrying
from gateway.wire.types import Delta
from tests.gateway.kit import Gateway, gateway
from tests.gateway.upstream.conftest import AT_ONCE, ask, collect
from tests.servers.messages import error, events_reply, message, message_events, message_reply, text, thought, tool_use
from tests.servers.upstream import UpstreamServer, chat_events, completion, json_reply, sse_reply

TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
QUESTION: Any = {"role": "user", "content": "How far?"}


def claude(server: UpstreamServer) -> OpenAIUpstream:
    settings = OpenAISettings(
        base_url=server.base_url,
        api_key="sk-ant-ours-0123",
        api_key_header="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
        retries=AT_ONCE,
    )
    return OpenAIUpstream(settings, "claude", speech=AnthropicSpeech(Carrying(), lambda: 7.0), jitter=lambda: 0.0)


@asynccontextmanager
async def before_claude(server: UpstreamServer, **route: Any) -> AsyncIterator[Gateway]:
    async with gateway(claude(server), **route) as served:
        yield served


def replied(value: dict[str, Any], stream: bool) -> Any:
    return message_reply(value) if stream else json_reply(value)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_round_with_signed_thinking_needs_nothing_but_the_sdk(
    server: UpstreamServer, stream: bool
) -> None:
    """The signature has to come back with the tool's result, or the model refuses the turn."""
    first = message(thought("hm", "sig-1"), text("Looking."), tool_use("look", {"at": 1}, "t1"),
                    tool_use("look", {}, "t2"), stop_reason="tool_use")  # fmt: skip
    server.enqueue(replied(first, stream), json_reply(message(text("Far."))))
    async with before_claude(server) as served:
        create: Any = served.openai.chat.completions.create
        if stream:
            async with served.openai.chat.completions.stream(model="test", messages=[QUESTION], tools=TOOLS) as events:
                said: Any = (await events.get_final_completion()).choices[0].message
        else:
            said = (await create(model="test", messages=[QUESTION], tools=TOOLS)).choices[0].message
        calls = [(call.id, call.function.name, json.loads(call.function.arguments)) for call in said.tool_calls]
        assert calls == [("t1", "look", {"at": 1}), ("t2", "look", {})]
        results = [{"role": "tool", "tool_call_id": call.id, "content": "x"} for call in said.tool_calls]
        answer = await create(model="test", messages=[QUESTION, said, *results], tools=TOOLS)
    assert answer.choices[0].message.content == "Far."
    asked = (await server.request(1)).json
    assert asked["messages"][1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig-1"}
    assert [block["type"] for block in asked["messages"][2]["content"]] == ["tool_result", "tool_result"]
    received = await server.request(0)
    assert received.path == "/v1/messages"
    assert received.headers["x-api-key"] == "sk-ant-ours-0123"
    assert received.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in received.headers


@pytest.mark.parametrize("stream", [False, True])
async def test_the_check_judges_what_claude_says(server: UpstreamServer, stream: bool) -> None:
    server.enqueue(replied(message(text("It goes 40 km. It weighs 3 kg.")), stream))
    check = ScriptedCheck((("3 kg", FactLabel.FALSE),))
    async with before_claude(server, check=check, release="held", action="block") as served:
        with pytest.raises(openai.UnprocessableEntityError) as blocked:
            await served.openai.chat.completions.create(model="test", messages=[QUESTION], stream=stream)
        assert "3 kg" not in blocked.value.response.text
        assert [record.check_status for record in served.records] == ["failed"]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_of_anthropic_keeps_its_status_and_says_why(server: UpstreamServer, stream: bool) -> None:
    server.enqueue(json_reply(error("invalid_request_error", "prompt is too long"), status=400))
    async with before_claude(server) as served:
        with pytest.raises(openai.BadRequestError, match="prompt is too long"):
            await served.openai.chat.completions.create(model="test", messages=[QUESTION], stream=stream)


async def test_an_overloaded_model_is_tried_again_before_the_first_byte(server: UpstreamServer) -> None:
    server.enqueue(json_reply(error("overloaded_error", "Overloaded"), status=529), json_reply(message(text("Far."))))
    async with before_claude(server) as served:
        answer = await served.openai.chat.completions.create(model="test", messages=[QUESTION])
    assert answer.choices[0].message.content == "Far."


async def test_an_error_within_a_stream_is_never_a_clean_stop(server: UpstreamServer) -> None:
    begun = list(message_events(message(text("It goes 40 km."))))[:4]
    server.enqueue(events_reply(*begun, error("overloaded_error", "Overloaded")))
    async with before_claude(server) as served:
        stream: Any = await served.openai.chat.completions.create(model="test", messages=[QUESTION], stream=True)
        with pytest.raises(openai.APIError, match="Overloaded"):
            async for _ in stream:
                pass
        assert served.records[0].outcome == "upstream_error"


async def test_a_stream_that_is_cut_is_an_error_and_what_came_before_is_kept(server: UpstreamServer) -> None:
    upstream = claude(server)
    await upstream.aopen()
    server.enqueue(events_reply(*list(message_events(message(text("It goes 40 km."))))[:5]))
    deltas: list[Delta] = []
    async with upstream.send(ask(stream=True)) as reply:
        with pytest.raises(UpstreamProtocolError, match="before the answer did"):
            await collect(reply, deltas)
    assert len(deltas) == 3
    await upstream.aclose()


async def test_a_request_that_cannot_be_carried_is_refused_before_anything_is_paid(server: UpstreamServer) -> None:
    async with before_claude(server) as served:
        with pytest.raises(openai.BadRequestError, match="'seed'"):
            await served.openai.chat.completions.create(model="test", messages=[QUESTION], seed=1)
        assert served.records[0].outcome == "request_error"
    assert server.requests == []


async def test_usage_chunks_come_only_to_who_asked(server: UpstreamServer) -> None:
    server.enqueue(message_reply(message(text("Far."))), message_reply(message(text("Far."))))
    async with before_claude(server) as served:
        usages = []
        for options in ({}, {"stream_options": {"include_usage": True}}):
            create: Any = served.openai.chat.completions.create
            stream = await create(model="test", messages=[QUESTION], stream=True, **options)
            usages.append([chunk.usage.prompt_tokens async for chunk in stream if chunk.usage])
    assert usages[1] == [8]


async def test_an_address_that_is_no_messages_api_is_told(server: UpstreamServer) -> None:
    upstream = claude(server)
    await upstream.aopen()
    server.enqueue(json_reply({"hello": 1}))
    async with upstream.send(ask()) as reply:
        with pytest.raises(UpstreamProtocolError, match="no message"):
            await collect(reply, [])
    await upstream.aclose()


# ------------------------------------------------- Azure OpenAI


def azure(server: UpstreamServer, speech: Speech | None = None) -> OpenAIUpstream:
    settings = OpenAISettings(
        base_url=server.base_url.removesuffix("/v1"),
        api_key="azure-key-0123",
        api_key_header="api-key",
        api_version="2024-10-21",
    )
    return OpenAIUpstream(settings, "azure", speech=speech or AzureSpeech({"gpt": "our-gpt"}))


@pytest.mark.parametrize("stream", [False, True])
async def test_azure_is_asked_by_deployment_with_its_key_and_version(server: UpstreamServer, stream: bool) -> None:
    filtered = {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    server.enqueue(sse_reply([filtered, *chat_events("Far.")]) if stream else json_reply(completion("Far.")))
    async with gateway(azure(server), model="gpt") as served:
        create: Any = served.openai.chat.completions.create
        answer = await create(model="test", messages=[QUESTION], stream=stream)
        if stream:
            said = "".join([c.choices[0].delta.content or "" async for c in answer if c.choices])
        else:
            said = answer.choices[0].message.content
    assert said == "Far."
    received = await server.request(0)
    assert received.path == "/openai/deployments/our-gpt/chat/completions?api-version=2024-10-21"
    assert received.headers["api-key"] == "azure-key-0123"
    assert "authorization" not in received.headers


def test_azure_paths_know_what_belongs_to_a_deployment() -> None:
    speech = AzureSpeech({"gpt": "our-gpt"})
    assert speech.forwarded("/embeddings", b'{"model":"ada 2/x"}') == "/openai/deployments/ada%202%2Fx/embeddings"
    assert speech.forwarded("/v1/audio/speech", b'{"model":"gpt"}') == "/openai/deployments/our-gpt/audio/speech"
    assert speech.forwarded("/files?limit=2", b"") == "/openai/files?limit=2"
    with pytest.raises(RequestError, match="deployment"):
        speech.forwarded("/embeddings", b"not json")

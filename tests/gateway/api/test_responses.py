"""`/v1/responses` through OpenAI's official SDK and real sockets, before upstreams of both kinds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from checks.scripted import ScriptedCheck
from checks.types import FactLabel
from tests.gateway.api.test_messages import house, said_by
from tests.servers.messages import message, message_reply, text, thought, tool_use
from tests.servers.upstream import UpstreamServer, chat_events, json_reply, sse_reply, tool_call_events


@pytest.fixture
async def server() -> AsyncIterator[UpstreamServer]:
    async with UpstreamServer() as server:
        yield server


TOOLS: Any = [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}]


async def ask(client: openai.AsyncOpenAI, *, stream: bool, **fields: Any) -> Any:
    """The response, whichever way it comes."""
    fields = {"model": "test", "input": "How far?", **fields}
    if not stream:
        return await client.responses.create(**fields)
    async with client.responses.stream(**fields) as events:
        return await events.get_final_response()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_client_of_responses_needs_nothing_but_the_address(
    server: UpstreamServer, kind: str, stream: bool
) -> None:
    server.enqueue(said_by(kind, "Far.", stream))
    async with house(kind, server) as (served, _):
        answer = await ask(served.openai, stream=stream)
        assert (answer.output_text, answer.status, answer.store) == ("Far.", "completed", False)
        assert answer.usage.output_tokens > 0
        assert (served.records[0].path, served.records[0].answer) == ("/v1/responses", {"0": "Far."})
    assert server.requests[0].path == ("/v1/messages" if kind == "anthropic" else "/v1/chat/completions")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_tool_round_by_items_alone(server: UpstreamServer, kind: str, stream: bool) -> None:
    """No response is kept here: a client that hands its items back loses nothing, signed reasoning included."""
    if kind == "anthropic":
        called = message(thought("hm", "sig"), tool_use("look", {"at": 1}, "t0"), stop_reason="tool_use")
        server.enqueue(message_reply(called) if stream else json_reply(called))
    else:
        server.enqueue(sse_reply(tool_call_events([("look", '{"at": 1}')])))
    server.enqueue(said_by(kind, "Far.", stream))
    async with house(kind, server) as (served, _):
        first = await ask(served.openai, stream=stream, tools=TOOLS)
        (use,) = [item for item in first.output if item.type == "function_call"]
        assert json.loads(use.arguments) == {"at": 1}
        kept = [item.to_dict() for item in first.output]
        result = {"type": "function_call_output", "call_id": use.call_id, "output": "x"}
        items = [{"role": "user", "content": "How far?"}, *kept, result]
        answer = await ask(served.openai, stream=stream, tools=TOOLS, input=items)
    assert answer.output_text == "Far."
    sent = server.requests[1].json["messages"]
    if kind == "anthropic":
        assert sent[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
        assert sent[2]["content"][0]["tool_use_id"] == "t0"
    else:
        assert [item["role"] for item in sent] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_block_is_the_same_error_as_everywhere(server: UpstreamServer, stream: bool) -> None:
    """BerriAI/litellm #14152: guards did not run on this endpoint."""
    server.enqueue(said_by("openai", "It weighs 3 kg.", stream))
    check = ScriptedCheck((("3 kg", FactLabel.FALSE),))
    async with house("openai", server, check=check, route={"release": "held", "action": "block"}) as (served, _):
        with pytest.raises(openai.UnprocessableEntityError) as blocked:
            await ask(served.openai, stream=stream)
    assert blocked.value.code == "grounding_failed"
    assert "3 kg" not in blocked.value.response.text


@pytest.mark.parametrize("stream", [False, True])
async def test_the_verdict_can_be_read(server: UpstreamServer, stream: bool) -> None:
    server.enqueue(said_by("openai", "It weighs 3 kg.", stream))
    async with house("openai", server, check=ScriptedCheck((("3 kg", FactLabel.FALSE),))) as (served, _):
        answer = await ask(served.openai, stream=stream)
    assert answer.model_extra["grounding"]["checks"][0]["facts"][0]["label"] == "false"


async def test_what_would_need_a_memory_is_refused_and_never_forgotten_in_silence(server: UpstreamServer) -> None:
    asked: list[dict[str, Any]] = [
        {"previous_response_id": "resp_1"},
        {"conversation": "c"},
        {"background": True},
        {"store": True},
    ]
    async with house("openai", server) as (served, _):
        for fields in asked:
            with pytest.raises(openai.BadRequestError) as refused:
                await served.openai.responses.create(model="test", input="x", **fields)
            assert (refused.value.code, refused.value.param) == ("unsupported_parameter", next(iter(fields)))
        with pytest.raises(openai.BadRequestError):
            await served.openai.responses.retrieve("resp_1")
    assert server.requests == []


async def test_a_cut_stream_is_raised_by_the_sdk(server: UpstreamServer) -> None:
    server.enqueue(sse_reply(chat_events("It goes 40 km."), cut_after=3))
    async with house("openai", server) as (served, _):
        with pytest.raises(openai.APIError):
            await ask(served.openai, stream=True)
        assert served.records[0].outcome == "upstream_error"


async def test_a_route_that_passes_other_paths_on_keeps_all_that_its_upstream_can_do(server: UpstreamServer) -> None:
    server.enqueue(json_reply({"id": "resp_1", "object": "response", "output": []}))
    async with house("openai", server, route={"other_paths": "forward"}) as (served, _):
        answer = await served.openai.responses.create(model="test", input="x", previous_response_id="resp_0")
        assert answer.id == "resp_1"
        assert served.records[0].check_reason == "unsupported_content"
    assert (server.requests[0].path, server.requests[0].json["previous_response_id"]) == ("/v1/responses", "resp_0")


async def test_claude_behind_it_is_asked_only_what_it_knows(server: UpstreamServer) -> None:
    server.enqueue(json_reply(message(text("Far."))))
    async with house("anthropic", server) as (served, _):
        await served.openai.responses.create(model="test", input="x", instructions="Be brief.", max_output_tokens=9)
        with pytest.raises(openai.BadRequestError, match="verbosity"):
            await served.openai.responses.create(model="test", input="x", text={"verbosity": "low"})
    sent = server.requests[0].json
    assert (sent["system"][0]["text"], sent["max_tokens"]) == ("Be brief.", 9)

"""`/v1/messages` through Anthropic's official SDK and real sockets, before upstreams of both kinds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import pytest

from checks.scripted import ScriptedCheck
from checks.types import FactLabel
from gateway.config.model import GatewayConfig
from gateway.upstream.anthropic import AnthropicSpeech
from gateway.upstream.openai import OpenAISettings, OpenAIUpstream
from gateway.upstream.retrying import RetryPolicy
from gateway.wire.messages.to_upstream import Carrying
from tests.gateway.kit import Gateway, gateway
from tests.servers.messages import error, events_reply, message, message_events, message_reply, text, thought, tool_use
from tests.servers.upstream import (
    Reply,
    UpstreamServer,
    chat_events,
    completion,
    error_reply,
    json_reply,
    sse_reply,
    tool_call_events,
)


@pytest.fixture
async def server() -> AsyncIterator[UpstreamServer]:
    async with UpstreamServer() as server:
        yield server


QUESTION: Any = [{"role": "user", "content": "How far?"}]
TOOLS: Any = [{"name": "look", "input_schema": {"type": "object"}}]


@asynccontextmanager
async def house(
    kind: str, server: UpstreamServer, **parts: Any
) -> AsyncIterator[tuple[Gateway, anthropic.AsyncAnthropic]]:
    speech = AnthropicSpeech(Carrying(), lambda: 7.0) if kind == "anthropic" else None
    sent = OpenAISettings(base_url=server.base_url, api_key="sk-ours-0123", retries=RetryPolicy(attempts=1))
    upstream = OpenAIUpstream(sent, "main", speech=speech)
    route = {"upstream": "main", "model": "m", **parts.pop("route", {})}
    if "check" in parts:
        route["check"] = {"kind": "facts", "collections": ["docs"]}
    config = GatewayConfig.model_validate(
        {
            "upstreams": {"main": {"kind": kind, "base_url": server.base_url}},
            "collections": {"docs": {}},
            "routes": {"test": route},
        }
    )
    async with (
        gateway(upstream, config=config, **parts) as served,
        anthropic.AsyncAnthropic(base_url=served.base_url, api_key="none", max_retries=0) as client,
    ):
        yield served, client


def said_by(kind: str, said: str, stream: bool) -> Reply:
    if kind == "anthropic":
        return message_reply(message(text(said))) if stream else json_reply(message(text(said)))
    return sse_reply(chat_events(said, usage=True)) if stream else json_reply(completion(said))


async def ask(client: anthropic.AsyncAnthropic, stream: bool, **fields: Any) -> Any:
    """The message, whichever way it comes."""
    fields = {"model": "test", "max_tokens": 99, "messages": QUESTION, **fields}
    if not stream:
        return await client.messages.create(**fields)
    async with client.messages.stream(**fields) as events:
        return await events.get_final_message()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_an_anthropic_client_needs_nothing_but_the_address(
    server: UpstreamServer, kind: str, stream: bool
) -> None:
    server.enqueue(said_by(kind, "Far.", stream))
    async with house(kind, server) as (served, client):
        answer = await ask(client, stream)
        assert [block.text for block in answer.content] == ["Far."]
        assert (answer.role, answer.stop_reason, answer.type) == ("assistant", "end_turn", "message")
        assert answer.usage.output_tokens > 0
        assert (served.records[0].path, served.records[0].answer) == ("/v1/messages", {"0": "Far."})
    assert server.requests[0].path == ("/v1/messages" if kind == "anthropic" else "/v1/chat/completions")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_round_of_parallel_tools(server: UpstreamServer, kind: str, stream: bool) -> None:
    if kind == "anthropic":
        called = message(thought("hm", "sig"), tool_use("look", {"at": 1}, "t0"), tool_use("look", {}, "t1"),
                         stop_reason="tool_use")  # fmt: skip
        server.enqueue(message_reply(called) if stream else json_reply(called))
    else:
        ids = [{"id": f"t{n}", "type": "function", "function": {"name": "look", "arguments": a}}
               for n, a in enumerate(('{"at": 1}', "{}"))]  # fmt: skip
        plain = completion(None, finish="tool_calls", tool_calls=ids)
        server.enqueue(
            sse_reply(tool_call_events([("look", '{"at": 1}'), ("look", "{}")])) if stream else json_reply(plain)
        )
    server.enqueue(said_by(kind, "Far.", stream))
    async with house(kind, server) as (_, client):
        first = await ask(client, stream, tools=TOOLS)
        assert first.stop_reason == "tool_use"
        uses = [block for block in first.content if block.type == "tool_use"]
        assert [use.input for use in uses] == [{"at": 1}, {}]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": "x"} for use in uses]
        turns = [*QUESTION, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        answer = await ask(client, stream, tools=TOOLS, messages=turns)
    assert answer.content[0].text == "Far."
    sent = server.requests[1].json["messages"]
    if kind == "anthropic":
        assert sent[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
        assert [block["tool_use_id"] for block in sent[2]["content"]] == [use.id for use in uses]
    else:
        assert [item["role"] for item in sent] == ["user", "assistant", "tool", "tool"]
        assert [item["tool_call_id"] for item in sent[2:]] == [use.id for use in uses]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_block_is_an_error_that_is_not_tried_again(server: UpstreamServer, kind: str, stream: bool) -> None:
    server.enqueue(said_by(kind, "It weighs 3 kg.", stream))
    check = ScriptedCheck((("3 kg", FactLabel.FALSE),))
    async with house(kind, server, check=check, route={"release": "held", "action": "block"}) as (_, client):
        with pytest.raises(anthropic.UnprocessableEntityError) as blocked:
            await ask(client.with_options(max_retries=2), stream)
    found: Any = blocked.value.body
    assert (found["type"], found["error"]["code"]) == ("error", "grounding_failed")
    assert found["error"]["grounding"]["checks"][0]["status"] == "failed"
    assert "3 kg" not in blocked.value.response.text
    assert len(server.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_the_verdict_can_be_read(server: UpstreamServer, stream: bool) -> None:
    server.enqueue(said_by("openai", "It weighs 3 kg.", stream))
    check = ScriptedCheck((("3 kg", FactLabel.FALSE),))
    async with house("openai", server, check=check) as (_, client):
        create: Any = client.messages.create
        answer = await create(model="test", max_tokens=9, messages=QUESTION, stream=stream)
        if stream:
            events = [event async for event in answer]
            grounding = next(event.grounding for event in events if event.type == "message_delta")
        else:
            grounding = answer.grounding
    assert grounding["checks"][0]["facts"][0]["label"] == "false"


async def test_options_of_ours_reach_the_route_and_never_the_model(server: UpstreamServer) -> None:
    server.enqueue(said_by("anthropic", "Far.", stream=False))
    check = ScriptedCheck()
    options = {"request_options": {"check": ["off"]}}
    async with house("anthropic", server, check=check, route=options) as (served, client):
        await ask(client, stream=False, extra_body={"grounding": {"check": "off"}})
        assert (served.records[0].check_status, served.records[0].check_reason) == ("not_checked", "disabled")
        with pytest.raises(anthropic.BadRequestError, match="Did you mean 'check'"):
            await ask(client, stream=False, extra_body={"grounding": {"chek": "off"}})
    assert "grounding" not in server.requests[0].json


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_errors_come_in_the_envelope_that_the_sdk_knows(server: UpstreamServer, kind: str, stream: bool) -> None:
    refused = error_reply(429, message="slow down", retry_after="7")
    if kind == "anthropic":
        refused = json_reply(error("rate_limit_error", "slow down"), status=429, headers=[("retry-after", "7")])
    server.default = refused
    async with house(kind, server) as (_, client):
        with pytest.raises(anthropic.RateLimitError, match="slow down") as limited:
            await ask(client, stream)
        assert limited.value.response.headers["retry-after"] == "7"
        assert limited.value.body["error"]["type"] == "rate_limit_error"  # type: ignore[index]
        with pytest.raises(anthropic.NotFoundError) as missing:
            await ask(client, stream, model="nothing")
        assert missing.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
        with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
            await ask(client, stream, max_tokens=0)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_an_error_in_the_middle_is_never_a_clean_stop(server: UpstreamServer, kind: str) -> None:
    if kind == "anthropic":
        server.enqueue(events_reply(*list(message_events(message(text("It goes 40 km."))))[:5]))
    else:
        server.enqueue(sse_reply(chat_events("It goes 40 km."), cut_after=3))
    async with house(kind, server) as (served, client):
        with pytest.raises(anthropic.APIError, match=r"before the answer did|connection broke"):
            await ask(client, stream=True)
        assert served.records[0].outcome == "upstream_error"


async def test_silence_is_bridged_by_comments_that_the_sdk_does_not_mind(server: UpstreamServer) -> None:
    """BerriAI/litellm PR #37322: no byte before the first token, and a load balancer hangs up."""
    gate = asyncio.Event()
    server.enqueue(sse_reply(chat_events("Far."), gates={0: gate}))
    async with house("openai", server, route={"keep_alive_after": 0.02}) as (served, client):
        fields = {"model": "test", "max_tokens": 9, "messages": QUESTION, "stream": True}
        async with served.http.stream("POST", "/v1/messages", json=fields) as response:
            pieces = response.aiter_bytes()
            assert await anext(pieces) == b": keep-alive\n\n"
            gate.set()
            rest = b"".join([piece async for piece in pieces])
        assert b"event: message_stop" in rest
        assert client.api_key == "none"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_tokens_are_counted_or_honestly_estimated(server: UpstreamServer, kind: str) -> None:
    server.default = json_reply({"input_tokens": 17})
    async with house(kind, server) as (served, client):
        counted = await client.messages.count_tokens(model="test", messages=QUESTION)
        if kind == "anthropic":
            assert counted.input_tokens == 17
            received = await server.request(0)
            assert (received.path, received.json) == ("/v1/messages/count_tokens", {"messages": QUESTION, "model": "m"})
            assert served.records[0].check_reason == "unsupported_content"
        else:
            assert counted.input_tokens > 0
            assert counted.model_extra == {"estimated": True}
        with pytest.raises(anthropic.NotFoundError):
            await client.messages.count_tokens(model="nothing", messages=QUESTION)


async def test_the_models_of_an_anthropic_client_are_the_routes(server: UpstreamServer) -> None:
    async with house("openai", server) as (_, client):
        page = await client.models.list()
    assert [(model.id, model.type) for model in page.data] == [("test", "model")]


async def test_what_is_no_request_is_refused_in_words(server: UpstreamServer) -> None:
    async with house("openai", server) as (served, _):
        for body, status in ((b"{", 400), (b"[]", 400), (b'{"model":7,"messages":[]}', 400), (b"[" * 5000, 400)):
            response = await served.http.post("/v1/messages", content=body)
            assert (response.status_code, response.json()["type"]) == (status, "error")
        assert (await served.http.get("/v1/messages")).json()["error"]["code"] == "method_not_allowed"

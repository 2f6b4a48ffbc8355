"""What a client with a limited key sees: how much is left, when to come again, in its own dialect's words."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from typing import Any

import anthropic
import httpx
import openai
import pytest

from gateway.access.keys import key_digest
from gateway.config.model import GatewayConfig
from gateway.errors import UpstreamStatusError
from gateway.upstream.base import Upstream
from gateway.upstream.scripted import Script, ScriptedUpstream, text_script
from tests.gateway.kit import Gateway, chat_body, gateway

KEY = "gg-limited-0123456789abcdefgh"
TEXT = "Forty kilometres."


def limited(**key: Any) -> GatewayConfig:
    return GatewayConfig.model_validate(
        {
            "upstreams": {"main": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}},
            "routes": {"test": {"upstream": "main", "model": "m", "default": True, "other_paths": "forward"}},
            "keys": [{"id": "limited", "sha256": key_digest(KEY), **key}],
            "prices": {"*": {"prompt": 1_000_000, "completion": 2_000_000, "cached": 0}},
        }
    )


def answering(text: str = TEXT) -> ScriptedUpstream:
    return ScriptedUpstream(lambda request: text_script(text, stream=request.stream))


def served(upstream: Upstream | None = None, **key: Any) -> AbstractAsyncContextManager[Gateway]:
    return gateway(upstream or answering(), config=limited(**key))


async def post(gate: Gateway, path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
    return await gate.http.post(path, json=chat_body(**fields), headers={"authorization": f"Bearer {KEY}"})


async def test_a_client_reads_how_much_is_left_and_when_it_may_come_again() -> None:
    async with served(limits={"requests_per_minute": 2}) as gate:
        first, second, third = [await post(gate) for _ in range(3)]
    assert [answer.status_code for answer in (first, second, third)] == [200, 200, 429]
    assert first.headers["x-ratelimit-limit-requests"] == "2"
    assert first.headers["x-ratelimit-remaining-requests"] == "1"
    assert second.headers["x-ratelimit-remaining-requests"] == "0"
    assert 1 <= int(third.headers["retry-after"]) <= 30
    assert third.headers["x-should-retry"] == "true"
    error = third.json()["error"]
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "requests")
    assert [record.outcome.value for record in gate.records] == ["completed", "completed"]


async def test_the_official_sdk_raises_the_error_of_a_rate_limit() -> None:
    async with served(limits={"requests_per_minute": 1}) as gate:
        client = gate.openai.with_options(api_key=KEY, max_retries=0)
        await client.chat.completions.create(**chat_body())
        with pytest.raises(openai.RateLimitError) as error:
            await client.chat.completions.create(**chat_body(), stream=True)
        assert error.value.code == "rate_limit_exceeded"


async def test_a_client_of_anthropic_is_told_in_its_own_words() -> None:
    async with served(limits={"requests_per_minute": 1, "tokens_per_minute": 100_000}) as gate:
        client = anthropic.AsyncAnthropic(base_url=gate.base_url, api_key=KEY, max_retries=0)
        question: Any = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "How far?"}]}
        answer = await client.messages.with_raw_response.create(**question)
        assert answer.headers["anthropic-ratelimit-requests-remaining"] == "0"
        assert answer.headers["anthropic-ratelimit-tokens-limit"] == "100000"
        assert answer.headers["anthropic-ratelimit-requests-reset"].endswith("Z")
        assert "x-ratelimit-limit-requests" not in answer.headers
        with pytest.raises(anthropic.RateLimitError) as error:
            await client.messages.create(**question)
        assert error.value.response.headers["retry-after"]
        assert error.value.response.json()["error"]["type"] == "rate_limit_error"
        await client.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_are_settled_by_what_the_upstream_counted(stream: bool) -> None:
    async with served(limits={"tokens_per_minute": 10_000}) as gate:
        first = await post(gate, stream=stream, max_tokens=9_000)
        assert int(first.headers["x-ratelimit-remaining-tokens"]) < 1_000
        assert await gate.desk.limiter.settle()
        second = await post(gate)
        # text_script counts two tokens; the second request takes its own estimate
        assert int(second.headers["x-ratelimit-remaining-tokens"]) > 9_000


async def test_the_upstream_is_asked_to_count_a_stream_and_the_client_sees_what_it_asked_for() -> None:
    upstream = answering()
    async with served(upstream, budget={"tokens": 1_000_000}) as gate:
        unasked = await post(gate, stream=True, stream_options={"include_obfuscation": False})
        asked = await post(gate, stream=True, stream_options={"include_usage": True})
    sent = [json.loads(one.request.body)["stream_options"] for one in upstream.served]
    assert sent == [{"include_obfuscation": False, "include_usage": True}, {"include_usage": True}]
    assert '"usage"' not in unasked.text
    assert '"total_tokens":2' in asked.text
    assert "include_usage" not in gate.records[0].request_body
    async with served(rates := answering(), limits={"requests_per_minute": 9}) as gate:
        await post(gate, stream=True)
    assert "stream_options" not in json.loads(rates.served[0].request.body)


async def test_the_limits_of_the_upstream_are_not_told_beside_ours() -> None:
    script = text_script(TEXT, stream=False)
    theirs = {"x-ratelimit-limit-tokens": "7", "x-ratelimit-limit-requests": "7", "openai-version": "v"}
    upstream = ScriptedUpstream(Script(steps=script.steps, headers=theirs))
    async with served(upstream, limits={"requests_per_minute": 5}) as gate:
        answer = await post(gate)
    assert answer.headers["x-ratelimit-limit-requests"] == "5"
    assert "x-ratelimit-limit-tokens" not in answer.headers
    assert answer.headers["openai-version"] == "v"


async def test_a_budget_of_money_ends_by_the_prices_and_not_by_retries() -> None:
    async with served(budget={"usd": 3.0, "per": "month"}) as gate:
        assert (await post(gate, max_tokens=1)).status_code == 200
        await gate.desk.limiter.settle()
        refused = await post(gate)
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "insufficient_quota"
    assert refused.headers["x-should-retry"] == "false"
    assert int(refused.headers["retry-after"]) > 0


async def test_a_request_that_failed_upstream_costs_no_tokens() -> None:
    upstream = ScriptedUpstream(Script(before=(UpstreamStatusError(500, b"{}", {}),)))
    async with served(upstream, budget={"tokens": 1_000_000}, limits={"tokens_per_minute": 60_000}) as gate:
        await post(gate, max_tokens=50_000)
        await gate.desk.limiter.settle()
        again = await post(gate)
    assert int(again.headers["x-ratelimit-remaining-tokens"]) > 59_000


async def test_a_client_that_leaves_pays_for_what_was_said_and_no_more() -> None:
    said, gate_closed = asyncio.Event(), asyncio.Event()
    half = text_script(TEXT, stream=True).steps[:2]

    async def tell() -> None:
        said.set()

    upstream = ScriptedUpstream(Script(steps=(*half, tell, gate_closed)))
    async with served(upstream, limits={"tokens_per_minute": 60_000}) as gate:
        asked = asyncio.create_task(post(gate, stream=True, max_tokens=50_000))
        await said.wait()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await upstream.served[0].closed.wait()
        while not gate.records:
            await asyncio.sleep(0)
        await gate.desk.limiter.settle()
        upstream._scripts.appendleft(text_script(TEXT, stream=False))
        again = await post(gate)
    assert int(again.headers["x-ratelimit-remaining-tokens"]) > 59_000


async def test_requests_that_pass_unread_count_too() -> None:
    async with served(limits={"requests_per_minute": 1}) as gate:
        first = await post(gate, "/v1/moderations")
        second = await post(gate, "/v1/moderations")
    assert first.json()["error"]["code"] == "unsupported_path"  # of the scripted double
    assert (second.status_code, second.json()["error"]["code"]) == (429, "rate_limit_exceeded")


async def test_a_key_without_limits_is_told_of_none() -> None:
    async with served() as gate:
        answer = await post(gate)
    assert not [name for name in answer.headers if "ratelimit" in name]

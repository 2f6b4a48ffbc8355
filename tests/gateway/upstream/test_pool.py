"""Several real servers as one upstream: nobody hears of one that fails before its first word, unless all do."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from gateway.errors import (
    RequestError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeoutError,
    UpstreamUnavailableError,
)
from gateway.upstream.base import Upstream, UpstreamReply
from gateway.upstream.breaker import BreakerPolicy, BreakerState
from gateway.upstream.extractive import ExtractiveUpstream
from gateway.upstream.openai import OpenAISettings, OpenAIUpstream, UpstreamTimeouts
from gateway.upstream.pool import Member, PoolSettings, PoolUpstream
from gateway.upstream.retrying import RetryPolicy
from gateway.wire import chat
from gateway.wire.types import Delta
from tests.gateway.upstream.conftest import ask, collect, everything, texts
from tests.gateway.upstream.samples import hit
from tests.servers.upstream import (
    RESET,
    Reply,
    UpstreamServer,
    chat_events,
    chunk,
    completion,
    error_reply,
    json_reply,
    raw_reply,
    sse_reply,
)

AT_ONCE = RetryPolicy(attempts=4, base_delay_s=0.0, max_delay_s=0.5)
ROLE_ONLY = chunk([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])


class Clock:
    """Time that goes on only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Servers:
    """Servers by name, and upstreams that point at them."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.by_name: dict[str, UpstreamServer] = {}
        self.clock = Clock()

    async def upstream(self, name: str, **settings: Any) -> OpenAIUpstream:
        server = self.by_name[name] = await self._stack.enter_async_context(UpstreamServer())
        server.default = sse_reply(chat_events(f"I am {name}."))
        return await self._opened(name, server.base_url, **settings)

    async def away(self, name: str) -> OpenAIUpstream:
        """An upstream at a port where nobody listens."""
        return await self._opened(name, "http://127.0.0.1:9/v1")

    async def _opened(self, name: str, base_url: str, **settings: Any) -> OpenAIUpstream:
        upstream = OpenAIUpstream(OpenAISettings(base_url=base_url, **settings), name)
        await upstream.aopen()
        self._stack.push_async_callback(upstream.aclose)
        return upstream

    def pool(self, *members: Member, **settings: Any) -> PoolUpstream:
        values = {"retries": AT_ONCE, **settings}
        return PoolUpstream("pool", members, PoolSettings(**values), clock=self.clock, dice=lambda: 0.0)

    async def pair(self, reply: Reply | None = None, **settings: Any) -> PoolUpstream:
        """`a`, which gives `reply`, and `b`, which stands in for it."""
        first, second = await self.upstream("a"), await self.upstream("b")
        if reply is not None:
            self.by_name["a"].default = reply
        return self.pool(Member(first), Member(second, priority=1), **settings)

    def asked(self) -> dict[str, int]:
        return {name: len(server.requests) for name, server in self.by_name.items()}


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        yield Servers(stack)


async def said(upstream: Upstream, **changes: Any) -> tuple[str, UpstreamReply]:
    async with upstream.send(ask(stream=True, **changes)) as reply:
        deltas = await everything(reply)
    return texts(deltas)[0], reply


def tries(attempts: Any) -> list[tuple[str, int | None, str]]:
    return [(attempt.upstream, attempt.status, attempt.error) for attempt in attempts]


FAULTS = [
    pytest.param(error_reply(503), 503, "upstream_status", id="status"),
    pytest.param(error_reply(429, retry_after="20"), 429, "upstream_status", id="429 with retry-after"),
    pytest.param(raw_reply(RESET), None, "upstream_cut", id="cut before the first byte"),
    pytest.param(
        sse_reply([{"error": {"message": "overloaded"}}]), None, "upstream_error_in_answer", id="error in 200"
    ),
    pytest.param(
        sse_reply([ROLE_ONLY, {"error": {"message": "x"}}]), None, "upstream_error_in_answer", id="after the role"
    ),
    pytest.param(sse_reply([ROLE_ONLY], cut_after=1), None, "upstream_cut", id="cut after the role"),
    pytest.param(json_reply(b"<html>", content_type="text/html"), None, "upstream_protocol", id="a web page"),
    pytest.param(
        json_reply({"error": {"message": "This model's maximum context length is 9 tokens."}}, status=400),
        400,
        "upstream_status",
        id="context length",
    ),
]


@pytest.mark.parametrize(("fault", "status", "code"), FAULTS)
async def test_a_client_never_hears_of_an_upstream_that_fails_before_its_first_word(
    servers: Servers, fault: Reply, status: int | None, code: str
) -> None:
    text, reply = await said(await servers.pair(fault))
    assert text == "I am b."
    assert tries(reply.attempts) == [("a", status, code), ("b", 200, "")]
    assert reply.fallback


async def test_a_dead_port_and_a_silent_server_cost_the_client_nothing_but_time(servers: Servers) -> None:
    away = await servers.away("away")
    silent = await servers.upstream("silent", timeouts=UpstreamTimeouts(first_byte_s=0.05))
    servers.by_name["silent"].default = json_reply(completion(), gate=asyncio.Event())
    well = await servers.upstream("well")
    pool = servers.pool(Member(away), Member(silent, priority=1), Member(well, priority=2))
    text, reply = await said(pool)
    assert text == "I am well."
    assert tries(reply.attempts) == [
        ("away", None, "upstream_unreachable"),
        ("silent", None, "upstream_timeout"),
        ("well", 200, ""),
    ]


async def test_a_request_that_is_wrong_is_not_asked_of_everybody(servers: Servers) -> None:
    pool = await servers.pair(error_reply(400, message="no such parameter"))
    with pytest.raises(UpstreamStatusError) as error:
        await said(pool)
    assert error.value.upstream_status == 400
    assert servers.asked() == {"a": 1, "b": 0}
    assert list(pool.states()) == [("a", BreakerState.CLOSED), ("b", BreakerState.CLOSED)]


async def test_a_failure_in_the_middle_of_an_answer_is_the_clients_to_hear_and_counts(servers: Servers) -> None:
    pool = await servers.pair(sse_reply(chat_events("Half an answer"), cut_after=3), breaker=BreakerPolicy(failures=1))
    got: list[Delta] = []
    with pytest.raises(UpstreamProtocolError):
        async with pool.send(ask(stream=True)) as reply:
            await collect(reply, got)
    assert texts(got)[0]
    assert dict(pool.states())["a"] is BreakerState.OPEN
    assert (await said(pool))[0] == "I am b."
    assert servers.asked() == {"a": 1, "b": 1}


async def test_what_all_servers_said_reaches_the_client_rather_than_that_one_was_away(servers: Servers) -> None:
    busy, away = await servers.upstream("busy"), await servers.away("away")
    servers.by_name["busy"].default = error_reply(429, retry_after="30")
    pool = servers.pool(Member(busy), Member(away, priority=1), retries=RetryPolicy(attempts=2, base_delay_s=0.0))
    with pytest.raises(UpstreamStatusError) as error:
        await said(pool)
    assert error.value.upstream_status == 429
    assert error.value.headers["retry-after"] == "30"
    assert [one[0] for one in error.value.tries] == ["busy", "away"]


async def test_the_same_server_is_asked_again_after_a_pause_until_the_tries_are_used_up(servers: Servers) -> None:
    only = await servers.upstream("only")
    pool = servers.pool(Member(only), retries=RetryPolicy(attempts=3, base_delay_s=0.0))
    servers.by_name["only"].enqueue(error_reply(503), error_reply(502))
    text, reply = await said(pool)
    assert text == "I am only."
    assert [attempt.status for attempt in reply.attempts] == [503, 502, 200]
    servers.by_name["only"].default = error_reply(500)
    with pytest.raises(UpstreamStatusError) as error:
        await said(pool)
    assert error.value.attempts == 3


async def test_a_server_that_says_when_is_not_asked_before(servers: Servers) -> None:
    pool = await servers.pair(error_reply(429, retry_after="20"))
    await said(pool)
    servers.by_name["a"].default = sse_reply(chat_events("I am a."))
    servers.clock.now += 19
    assert (await said(pool))[0] == "I am b."
    servers.clock.now += 1
    assert (await said(pool))[0] == "I am a."
    assert list(pool.states()) == [("a", BreakerState.CLOSED), ("b", BreakerState.CLOSED)]


async def test_a_server_that_fails_again_and_again_is_left_alone_then_tried_by_one_request(servers: Servers) -> None:
    pool = await servers.pair(error_reply(500), breaker=BreakerPolicy(failures=2, open_s=30))
    for _ in range(4):
        assert (await said(pool))[0] == "I am b."
    assert servers.asked() == {"a": 2, "b": 4}
    servers.clock.now += 30
    gate = asyncio.Event()
    servers.by_name["a"].default = json_reply(completion("I am a."), gate=gate)
    trial = asyncio.create_task(said(pool))
    await servers.by_name["a"].request(2)
    assert (await said(pool))[0] == "I am b."
    gate.set()
    assert (await trial)[0] == "I am a."
    assert dict(pool.states())["a"] is BreakerState.CLOSED


async def test_a_client_that_leaves_during_a_trial_does_not_lock_the_server_out(servers: Servers) -> None:
    pool = await servers.pair(error_reply(500), breaker=BreakerPolicy(failures=1, open_s=30))
    await said(pool)
    servers.clock.now += 30
    servers.by_name["a"].default = json_reply(completion(), gate=asyncio.Event())
    trial = asyncio.create_task(said(pool))
    asked = await servers.by_name["a"].request(1)
    trial.cancel()
    await asyncio.gather(trial, return_exceptions=True)
    await asked.closed.wait()
    servers.by_name["a"].default = sse_reply(chat_events("I am a."))
    assert (await said(pool))[0] == "I am a."


async def test_with_everybody_ill_the_client_is_told_at_once_when_to_come_again(servers: Servers) -> None:
    pool = await servers.pair(error_reply(500), breaker=BreakerPolicy(failures=1, open_s=30))
    servers.by_name["b"].default = error_reply(500)
    with pytest.raises(UpstreamStatusError):
        await said(pool)
    servers.clock.now += 10
    with pytest.raises(UpstreamUnavailableError) as error:
        await said(pool)
    assert error.value.retry_after == 20
    assert servers.asked() == {"a": 1, "b": 1}


async def test_shares_follow_the_weights(servers: Servers) -> None:
    dice = iter([n / 40 for n in range(40)])
    first, second = await servers.upstream("a"), await servers.upstream("b")
    pool = PoolUpstream(
        "pool", [Member(first, weight=3), Member(second)], PoolSettings(retries=AT_ONCE), dice=lambda: next(dice)
    )
    heard = Counter([(await said(pool))[0] for _ in range(40)])
    assert heard == {"I am a.": 30, "I am b.": 10}


async def test_a_member_gets_the_name_of_its_own_model(servers: Servers) -> None:
    first, second = await servers.upstream("a"), await servers.upstream("b")
    servers.by_name["a"].default = error_reply(503)
    pool = servers.pool(Member(first), Member(second, priority=1, model="another"))
    asked = ask(stream=True)
    request = chat.parse_request(asked.body, {}, chat.RequestLimits())
    await said(pool, chat=request)
    assert servers.by_name["a"].requests[0].json["model"] == "m"
    assert servers.by_name["b"].requests[0].json == {**servers.by_name["a"].requests[0].json, "model": "another"}


async def test_the_documents_answer_when_no_model_does(servers: Servers) -> None:
    away, quotes = await servers.away("away"), ExtractiveUpstream("quotes")
    pool = servers.pool(Member(away), Member(quotes, priority=1, model="quotes", forwards=False))
    asked = ask(stream=True)
    request = chat.parse_request(asked.body, {}, chat.RequestLimits())
    text, reply = await said(
        pool, chat=request, query="How long does the warranty last?", hits=(hit("The warranty lasts two years."),)
    )
    assert "two years" in text
    assert reply.fallback
    assert reply.attempts[-1].upstream == "quotes"


async def test_what_one_member_cannot_carry_another_may(servers: Servers) -> None:
    quotes, well = ExtractiveUpstream("quotes"), await servers.upstream("well")
    pool = servers.pool(Member(quotes, forwards=False), Member(well))
    text, _ = await said(pool, fields={"response_format": {"type": "json_object"}})
    assert text == "I am well."
    only = servers.pool(Member(quotes, forwards=False))
    with pytest.raises(RequestError, match="json_object"):
        await said(only, fields={"response_format": {"type": "json_object"}})


async def test_all_tries_end_within_the_time_of_the_request(servers: Servers) -> None:
    slow = await servers.upstream("slow")
    servers.by_name["slow"].default = json_reply(completion(), gate=asyncio.Event())
    pool = servers.pool(Member(slow), total_s=0.05)
    with pytest.raises(UpstreamError) as error:
        await said(pool)
    assert error.value.code == "upstream_timeout"


async def test_a_client_in_a_hurry_does_not_shut_a_server_out_for_the_others(servers: Servers) -> None:
    clock = time.monotonic
    slow, other = await servers.upstream("slow"), await servers.upstream("other")
    servers.by_name["slow"].default = json_reply(completion("late"), gate=asyncio.Event())
    settings = PoolSettings(retries=AT_ONCE, breaker=BreakerPolicy(failures=1, open_s=600))
    pool = PoolUpstream("pool", [Member(slow), Member(other, priority=1)], settings, clock=clock, dice=lambda: 0.0)
    with pytest.raises(UpstreamTimeoutError):
        await said(pool, limit_s=0.1)
    assert dict(pool.states()) == {"slow": BreakerState.CLOSED, "other": BreakerState.CLOSED}
    assert servers.asked() == {"slow": 1, "other": 0}


async def test_a_hedged_request_takes_the_first_answer_and_closes_the_other(servers: Servers) -> None:
    slow, quick = await servers.upstream("slow"), await servers.upstream("quick")
    servers.by_name["slow"].default = json_reply(completion("late"), gate=asyncio.Event())
    pool = servers.pool(Member(slow), Member(quick, priority=1), hedge_after_s=0.01)
    text, reply = await said(pool)
    assert text == "I am quick."
    assert tries(reply.attempts) == [("slow", None, "superseded"), ("quick", 200, "")]
    assert servers.asked() == {"slow": 1, "quick": 1}
    await servers.by_name["slow"].requests[0].closed.wait()
    assert dict(pool.states())["slow"] is BreakerState.CLOSED


async def test_a_hedge_that_fails_leaves_the_answer_to_the_first(servers: Servers) -> None:
    gate = asyncio.Event()
    slow, ill = await servers.upstream("slow"), await servers.upstream("ill")
    servers.by_name["slow"].default = json_reply(completion("late"), gate=gate)
    servers.by_name["ill"].default = error_reply(500)
    pool = servers.pool(Member(slow), Member(ill, priority=1), hedge_after_s=0.01)
    asked = asyncio.create_task(said(pool))
    await servers.by_name["ill"].request(0)
    gate.set()
    text, reply = await asked
    assert text == "late"
    assert tries(reply.attempts)[-1] == ("slow", 200, "")


async def test_a_request_that_passes_unread_goes_elsewhere_only_while_it_never_left(servers: Servers) -> None:
    away, well = await servers.away("away"), await servers.upstream("well")
    servers.by_name["well"].default = json_reply({"data": []}, status=500)
    pool = servers.pool(Member(away), Member(well, priority=1))
    async with pool.forward("POST", "/v1/embeddings", {}, b"{}", None) as reply:
        assert reply.status == 500
        assert b"".join([piece async for piece in reply.body]) == b'{"data": []}'
    cut = await servers.upstream("cut")
    servers.by_name["cut"].default = raw_reply(RESET)
    pool = servers.pool(Member(cut), Member(well, priority=1))
    with pytest.raises(UpstreamProtocolError):
        async with pool.forward("POST", "/v1/embeddings", {}, b"{}", None):
            pass
    assert servers.asked() == {"well": 1, "cut": 1}


async def test_many_requests_at_once_each_get_their_own_answer(servers: Servers) -> None:
    pool = await servers.pair(error_reply(503), breaker=BreakerPolicy(failures=5, open_s=30))
    heard = await asyncio.gather(*(said(pool) for _ in range(30)))
    assert {text for text, _ in heard} == {"I am b."}
    assert dict(pool.states())["a"] is BreakerState.OPEN

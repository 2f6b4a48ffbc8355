"""Exactly one honest record per exchange, wherever it ends, and never a clean stop where there was none."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from checks.scripted import ScriptedCheck
from checks.types import Case, FactLabel, Reason, Segment, Verdict
from gateway.errors import UpstreamProtocolError, UpstreamStatusError, UpstreamTimeoutError
from gateway.ledger.memory import MemoryLedger
from gateway.upstream.scripted import Script, ScriptedUpstream, text_script
from retrieval.errors import SearchError
from retrieval.types import Retrieved, Scope
from tests.gateway.exchange.running import Setting
from tests.gateway.kit import chat_body, gateway

FALSE = "It goes 40 km. It weighs 3 kg."
RULES = (("3 kg", FactLabel.FALSE),)


def answering(text: str = FALSE) -> ScriptedUpstream:
    return ScriptedUpstream(lambda request: text_script(text, stream=request.stream))


def never() -> asyncio.Event:
    return asyncio.Event()


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_bodies_of_an_exchange_do_not_pile_up_until_the_garbage_collector_runs(stream: bool) -> None:
    gc.disable()
    try:
        reply = await Setting(answering(), ScriptedCheck(RULES)).ask(stream=stream)
        assert reply.complete
        assert reply.exchange() is None
    finally:
        gc.enable()


# -- a client that goes away -------------------------------------------------------------------------------------------


class Gone:
    """Sets an event when a stage is reached, and then never lets the stage end."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def here(self, *_: Any) -> None:
        self.event.set()
        await never().wait()

    async def retrieve(self, query: str, scope: Scope) -> Retrieved:
        await self.here()
        raise AssertionError


def cut_points() -> dict[str, Any]:
    def while_retrieving(gone: Gone) -> Setting:
        return Setting(answering(), None, gone)

    def before_the_first_byte(gone: Gone) -> Setting:
        return Setting(ScriptedUpstream(Script(before=(gone.here,))))

    def in_the_middle(gone: Gone) -> Setting:
        steps = text_script(FALSE, pieces=4).steps
        return Setting(ScriptedUpstream(Script(steps=(*steps[:2], gone.here, *steps[2:]))))

    def while_checking(gone: Gone) -> Setting:
        return Setting(answering(), ScriptedCheck(before=gone.here), route={"release": "held"})

    def while_checking_a_sentence(gone: Gone) -> Setting:
        return Setting(answering(), ScriptedCheck(before=gone.here), route={"release": "sentence"})

    return {
        "while retrieving": while_retrieving,
        "before the first byte": before_the_first_byte,
        "in the middle": in_the_middle,
        "while checking": while_checking,
        "while checking a sentence": while_checking_a_sentence,
    }


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("point", cut_points())
async def test_a_client_that_goes_away_stops_the_model_and_leaves_one_record(point: str, stream: bool) -> None:
    gone = Gone()
    setting = cut_points()[point](gone)
    reply = await asyncio.wait_for(setting.ask(stream=stream, gone=gone.event), 5)
    (record,) = reply.records
    assert (record.outcome, record.status) == ("client_closed", 499)
    assert record.check_status == "not_checked"
    assert not reply.complete
    for served in setting.upstream.served:
        assert served.closed.is_set()


# -- upstreams that fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["live", "held"])
async def test_an_upstream_cut_in_the_middle_is_never_a_clean_stop(release: str) -> None:
    steps = text_script(FALSE, pieces=4).steps
    broken = Script(steps=(*steps[:3], UpstreamProtocolError("the upstream was cut")))
    reply = await Setting(ScriptedUpstream(broken), ScriptedCheck(), route={"release": release}).ask(stream=True)
    assert b"[DONE]" not in reply.body
    assert b'"finish_reason":"stop"' not in reply.body
    (record,) = reply.records
    assert record.outcome == "upstream_error"
    if release == "held":
        assert reply.status == 502
    else:
        assert reply.status == 200
        assert b'"error"' in reply.events[-1]
        assert record.answer["0"] != ""


@pytest.mark.parametrize("stream", [True, False])
async def test_an_upstreams_error_keeps_its_status_and_body(stream: bool) -> None:
    error = UpstreamStatusError(429, b'{"error":{"message":"slow down"}}', {"retry-after": "7"})
    reply = await Setting(ScriptedUpstream(Script(before=(error,)))).ask(stream=stream)
    assert (reply.status, reply.body) == (429, b'{"error":{"message":"slow down"}}')
    assert reply.headers["retry-after"] == "7"
    assert reply.records[0].status == 429


@pytest.mark.parametrize("stream", [True, False])
async def test_a_timeout_is_a_504_with_the_limit_that_ran_out(stream: bool) -> None:
    error = UpstreamTimeoutError("no first byte within 1 s")
    reply = await Setting(ScriptedUpstream(Script(before=(error,)))).ask(stream=stream)
    assert reply.status == 504
    assert "first byte" in reply.json["error"]["message"]


# -- failing to judge --------------------------------------------------------------------------------------------------


class CrashingCheck:
    """A third party's check with a bug."""

    kind = "fact_check"

    async def check(self, case: Case) -> Verdict:
        raise RuntimeError("boom")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_check_that_crashes_is_not_checked_and_never_a_pass(stream: bool) -> None:
    reply = await Setting(answering(), CrashingCheck(), route={"release": "held"}).ask(stream=stream)
    (check,) = reply.completion["grounding"]["checks"]
    assert (check["status"], check["reason"]) == ("not_checked", "judge_unavailable")
    blocked = await Setting(answering(), CrashingCheck(), route={"release": "held", "action": "block"}).ask(
        stream=stream
    )
    assert blocked.status == 422


@pytest.mark.parametrize(("policy", "status"), [("allow", 200), ("block", 422)])
async def test_the_route_decides_per_reason_what_an_unchecked_answer_means(policy: str, status: int) -> None:
    check = ScriptedCheck([("3 kg", Reason.TIMEOUT)])
    route = {"release": "held", "action": "block", "on_unchecked": {"timeout": policy}}
    reply = await Setting(answering(), check, route=route).ask(stream=False)
    assert reply.status == status
    assert reply.records[0].check_reason == "timeout"


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_beyond_the_bound_is_too_long_and_not_a_pass(stream: bool) -> None:
    long = "It goes 40 km. " * 2000
    blocking = {"release": "held", "action": "block", "held_bytes": 10_000}
    reply = await Setting(answering(long), ScriptedCheck(), route=blocking).ask(stream=stream)
    assert reply.status == 422
    assert reply.records[0].check_reason == "too_long"
    allowing = {**blocking, "on_unchecked": {"too_long": "allow"}}
    reply = await Setting(answering(long), ScriptedCheck(), route=allowing).ask(stream=stream)
    assert reply.status == 200
    assert reply.completion["choices"][0]["message"]["content"] == long


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("policy", ["allow", "block"])
async def test_a_huge_answer_on_a_sentence_route_does_not_take_everybody_down(stream: bool, policy: str) -> None:
    check = ScriptedCheck()
    route = {
        "release": "sentence",
        "action": "block",
        "block_response": "refusal",
        "held_bytes": 10_000,
        "on_unchecked": {"too_long": policy},
    }
    long = "It goes far. " * 5_000
    upstream = ScriptedUpstream(lambda request: text_script(long, stream=request.stream, pieces=2_000))
    reply = await Setting(upstream, check, route=route).ask(stream=stream)
    assert len(check.seen) < 1_000
    (record,) = reply.records
    assert (record.check_status, record.check_reason) == ("not_checked", "too_long")
    message = reply.completion["choices"][0]["message"]
    if policy == "allow":
        assert message["content"].rstrip() == long.rstrip()
    else:
        assert message["refusal"]
        assert len(message["content"] or "") <= 10_000


async def test_few_pieces_of_an_answer_are_judged_at_once_however_many_have_come() -> None:
    running, most = 0, 0

    async def count(_: Segment) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    text = "It goes far. " * 300
    reply = await Setting(answering(text), ScriptedCheck(before=count), route={"release": "sentence"}).ask(stream=False)
    assert reply.records[0].check_status == "passed"
    assert len(reply.records[0].checks[0].facts) == 300
    assert most <= 8


# -- retrieval that fails ----------------------------------------------------------------------------------------------


class BrokenRetriever:
    async def retrieve(self, query: str, scope: Scope) -> Retrieved:
        raise SearchError("the index is away")


async def test_a_failed_retrieval_is_told_and_the_route_decides_whether_to_answer() -> None:
    served = await Setting(answering(), None, BrokenRetriever()).ask(stream=False)
    assert served.json["grounding"]["retrieval"]["status"] == "failed"
    route = {"on_retrieval_failure": "block"}
    upstream = answering()
    refused = await Setting(upstream, None, BrokenRetriever(), route).ask(stream=False)
    assert refused.status == 502
    assert upstream.served == []  # nothing was generated, and nothing paid
    assert refused.records[0].retrieval_status == "failed"


async def test_a_route_without_retrieval_and_check_leaves_the_answer_byte_for_byte() -> None:
    body = (
        b'{"id":"x", "object":"chat.completion", '
        b'"choices":[{"index":0,"message":{"content":"1.0e5","role":"assistant"}}],  "new_field":1.50}'
    )
    reply = await Setting(ScriptedUpstream(Script(steps=(body,)))).ask(stream=False)
    assert reply.body == body


# -- repair ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
async def test_a_repaired_answer_is_checked_again_and_both_verdicts_are_kept(stream: bool) -> None:
    answers = iter([FALSE, "It goes 40 km. It weighs 2 kg."])
    upstream = ScriptedUpstream(lambda request: text_script(next(answers), stream=request.stream))
    route = {"release": "held", "action": "repair"}
    reply = await Setting(upstream, ScriptedCheck(RULES), route=route).ask(stream=stream)
    assert reply.completion["choices"][0]["message"]["content"] == "It goes 40 km. It weighs 2 kg."
    assert b"It weighs 3 kg" in upstream.served[1].request.body
    (record,) = reply.records
    assert [(check.attempt, check.status, check.action) for check in record.checks] == [
        (0, "failed", "repair"),
        (1, "passed", "none"),
    ]
    assert b"3 kg" not in reply.body


@pytest.mark.parametrize(("policy", "status"), [("block", 422), ("allow", 200)])
async def test_an_answer_that_stays_bad_after_its_repair_follows_the_routes_word(policy: str, status: int) -> None:
    route = {"release": "held", "action": "repair", "repair_failed": policy}
    upstream = answering()
    reply = await Setting(upstream, ScriptedCheck(RULES), route=route).ask(stream=False)
    assert reply.status == status
    assert len(upstream.served) == 2


# -- detached ----------------------------------------------------------------------------------------------------------


async def test_a_detached_answer_is_served_before_its_check_and_its_verdict_is_recorded() -> None:
    release = asyncio.Event()

    async def wait(_: Segment) -> None:
        await release.wait()

    async with gateway(answering(), check=ScriptedCheck(RULES, before=wait), release="detached") as running:
        response = await running.http.post("/v1/chat/completions", json=chat_body())
        assert response.json()["grounding"]["checks"] == []
        assert running.records == [] or running.records[0].check_status == "not_checked"
        release.set()
        while not running.records or running.records[-1].check_status == "not_checked":
            await asyncio.sleep(0)
    assert running.records[-1].check_status == "failed"


# -- a ledger that cannot record ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
async def test_nothing_is_served_that_cannot_be_recorded_unless_the_gateway_is_told_to(stream: bool) -> None:
    ledger = MemoryLedger()
    async with gateway(answering(), ledger=ledger) as running:
        ledger.refuse()
        response = await running.http.post("/v1/chat/completions", json=chat_body(stream=stream))
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "ledger_unavailable"
        assert "retry-after" in response.headers
        ledger.recover()
        response = await running.http.post("/v1/chat/completions", json=chat_body(stream=stream))
        assert response.status_code == 200


# -- keep-alives -------------------------------------------------------------------------------------------------------


async def test_a_silent_stream_is_kept_alive_and_a_block_after_that_is_one_error_event() -> None:
    release = asyncio.Event()

    async def wait(_: Segment) -> None:
        await release.wait()

    route = {"release": "held", "action": "block", "keep_alive_after": 0.01}
    async with gateway(answering(), check=ScriptedCheck(RULES, before=wait), **route) as running:
        body = chat_body(stream=True)
        async with running.http.stream("POST", "/v1/chat/completions", json=body) as response:
            assert response.status_code == 200
            lines = response.aiter_lines()
            assert await anext(lines) == ": keep-alive"
            release.set()
            rest = [line async for line in lines if line and not line.startswith(":")]
    assert len(rest) == 1
    assert "grounding_failed" in rest[0]
    assert "3 kg" not in rest[0]

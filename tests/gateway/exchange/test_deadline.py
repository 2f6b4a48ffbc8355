"""The time that a client gives for its answer: every stage gets what is left of it, and none passes it over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from checks.scripted import ScriptedCheck
from checks.types import Segment
from gateway.upstream.openai import OpenAISettings, OpenAIUpstream
from gateway.upstream.scripted import ScriptedUpstream, text_script
from retrieval.types import Retrieved, Scope
from tests.gateway.kit import chat_body, gateway
from tests.servers.upstream import UpstreamServer, completion, json_reply

TEXT = "It goes 40 km."


async def for_ever(*_: Any) -> None:
    await asyncio.Event().wait()


class Slow:
    """Documents that never come."""

    async def retrieve(self, query: str, scope: Scope) -> Retrieved:
        await for_ever()
        raise AssertionError


def answering() -> ScriptedUpstream:
    return ScriptedUpstream(lambda request: text_script(TEXT, stream=request.stream))


async def test_a_model_that_is_late_is_given_up_within_the_clients_own_time() -> None:
    async with UpstreamServer() as server:
        server.default = json_reply(completion(TEXT), gate=asyncio.Event())
        upstream = OpenAIUpstream(OpenAISettings(base_url=server.base_url), "main")
        async with gateway(upstream) as gate:
            late = await gate.http.post(
                "/v1/chat/completions", json=chat_body(), headers={"x-grounding-timeout": "0.05"}
            )
        await server.requests[0].closed.wait()
    assert (late.status_code, late.json()["error"]["code"]) == (504, "upstream_timeout")
    assert "grounding" not in server.requests[0].json


async def test_documents_that_are_late_leave_the_answer_without_them() -> None:
    async with gateway(answering(), retriever=Slow()) as gate:
        answer = await gate.http.post("/v1/chat/completions", json=chat_body(grounding={"timeout": 0.05}))
    assert answer.json()["grounding"]["retrieval"]["status"] == "failed"


async def test_a_check_that_is_late_is_no_verdict() -> None:
    async def wait(segment: Segment) -> None:
        await for_ever()

    check = ScriptedCheck(before=wait)
    async with gateway(answering(), check=check, release="held", action="annotate") as gate:
        answer = await gate.http.post("/v1/chat/completions", json=chat_body(grounding={"timeout": 0.2}))
    (verdict,) = answer.json()["grounding"]["checks"]
    assert (verdict["status"], verdict["reason"]) == ("not_checked", "timeout")
    assert gate.records[0].check_reason == "timeout"


@pytest.mark.parametrize("given", [0, -1, "soon", True, 1e9, None, []], ids=str)
async def test_a_time_that_is_none_is_refused_by_name(given: Any) -> None:
    async with gateway(answering()) as gate:
        answer = await gate.http.post("/v1/chat/completions", json=chat_body(grounding={"timeout": given}))
    if given is None:
        assert answer.status_code == 200
    else:
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "grounding.timeout")


async def test_a_header_that_is_no_time_is_refused_by_name() -> None:
    async with gateway(answering()) as gate:
        for value in ("soon", "nan", "inf", "-1"):
            headers = {"x-grounding-timeout": value}
            answer = await gate.http.post("/v1/chat/completions", json=chat_body(), headers=headers)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "x-grounding-timeout")

"""The contract of every judge, over real sockets for the vendors' SDKs and over the shipped double."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from checks.errors import JudgeSetupError
from checks.judge.anthropic import AnthropicJudge
from checks.judge.base import JudgeSettings
from checks.judge.openai import OpenAIJudge
from checks.judge.scripted import ScriptedJudge
from checks.types import Judge, JudgePrompt, Reason
from tests.servers.judge import JudgeServer, Reply, completion, judge_server, message, text, tool_use

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["yes", "no"]},
        "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
    },
    "required": ["label", "confidence"],
    "additionalProperties": False,
}
GOOD = {"label": "yes", "confidence": 80}
RAW = json.dumps(GOOD)
PROMPT = JudgePrompt("classify", "You judge. Reply as JSON.", "Is it so?", 64)
KEY = "sk-secret-credential"


def settings_for(server: JudgeServer, **changes: Any) -> JudgeSettings:
    values: dict[str, Any] = {
        "name": "j",
        "model": "asked-model",
        "api_key": KEY,
        "base_url": server.url,
        "attempts": 1,
        "timeout_s": 30.0,
        "input_price": 2.0,
        "output_price": 10.0,
    }
    return JudgeSettings(**(values | changes))


@asynccontextmanager
async def openai_judge(replies: list[Reply], **changes: Any) -> AsyncIterator[tuple[OpenAIJudge, JudgeServer]]:
    async with judge_server(replies) as server, OpenAIJudge(settings_for(server, **changes)) as judge:
        yield judge, server


@asynccontextmanager
async def anthropic_judge(replies: list[Reply], **changes: Any) -> AsyncIterator[tuple[AnthropicJudge, JudgeServer]]:
    async with judge_server(replies) as server, AnthropicJudge(settings_for(server, **changes)) as judge:
        yield judge, server


Opener = Callable[[str], AbstractAsyncContextManager[Judge]]


@asynccontextmanager
async def saying(kind: str, words: str) -> AsyncIterator[Judge]:
    """A judge of some kind whose model writes `words`."""
    async with AsyncExitStack() as stack:
        if kind == "openai":
            yield (await stack.enter_async_context(openai_judge([completion(words)])))[0]
        elif kind == "anthropic":
            yield (await stack.enter_async_context(anthropic_judge([message(text(words), stop="end_turn")])))[0]
        else:
            yield ScriptedJudge([("classify", words)])


KINDS = ["openai", "anthropic", "scripted"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", [RAW, f"```json\n{RAW}\n```", f"Well: {RAW}."])
async def test_a_good_reply_is_read_whoever_gives_it(kind: str, words: str) -> None:
    async with saying(kind, words) as judge:
        reply = await judge.judge(PROMPT, SCHEMA)
    assert reply.value == GOOD
    assert reply.reason is None
    assert reply.call.error == ""
    assert reply.call.purpose == "classify"
    assert reply.call.judge == judge.name
    assert "Is it so?" in reply.call.request
    assert "confidence" in reply.call.reply


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "words",
    [
        "", "yes, 80", '{"label":"yes"}', '{"label":"perhaps","confidence":80}', RAW[:-1],
        f'{RAW} {{"label":"no","confidence":80}}', '{"label":"yes","confidence":800}',
    ],
)  # fmt: skip
async def test_an_unclear_reply_is_never_a_verdict_whoever_gives_it(kind: str, words: str) -> None:
    async with saying(kind, words) as judge:
        reply = await judge.judge(PROMPT, SCHEMA)
    assert reply.value is None
    assert reply.reason is Reason.JUDGE_REPLY_INVALID
    assert reply.call.error != ""


async def test_tokens_cost_and_the_model_that_really_answered_are_recorded() -> None:
    async with openai_judge([completion(RAW, model="real-model-2026")]) as (judge, server):
        call = (await judge.judge(PROMPT, SCHEMA)).call
    assert (call.model, call.prompt_tokens, call.completion_tokens) == ("real-model-2026", 1000, 200)
    assert call.cost_usd == pytest.approx(0.004)
    assert call.seconds > 0
    asked = server.requests[0]
    assert asked["response_format"]["json_schema"]["schema"]["properties"]["confidence"] == {"type": "integer"}
    assert json.loads(call.request) == asked
    async with anthropic_judge([message(tool_use(GOOD))]) as (claude, server):
        reply = await claude.judge(PROMPT, SCHEMA)
    assert reply.value == GOOD
    assert reply.call.cost_usd == pytest.approx(0.004)
    assert server.requests[0]["tool_choice"] == {"type": "tool", "name": "give_reply"}
    assert server.requests[0]["temperature"] == 0.0


async def test_cost_is_unknown_rather_than_zero_when_no_price_is_set() -> None:
    async with openai_judge([completion(RAW)], input_price=None, output_price=None) as (judge, _):
        assert (await judge.judge(PROMPT, SCHEMA)).call.cost_usd is None


@pytest.mark.parametrize(
    "reply",
    [
        completion(RAW, finish="length"),
        completion(RAW, finish="content_filter"),
        completion(None, refusal="I will not."),
        completion(None),
        Reply("<html>busy</html>"),
        Reply({"choices": []}),
        Reply({"choices": [{"message": {"content": [1]}}]}),
        Reply("[]"),
    ],
)
async def test_a_cut_refused_or_broken_openai_reply_is_never_a_verdict(reply: Reply) -> None:
    async with openai_judge([reply]) as (judge, _):
        found = await judge.judge(PROMPT, SCHEMA)
    assert (found.value, found.reason) == (None, Reason.JUDGE_REPLY_INVALID)
    assert found.call.reply != ""


@pytest.mark.parametrize(
    "reply",
    [
        message(tool_use(GOOD), stop="max_tokens"),
        message(stop="refusal"),
        message(tool_use({"label": "yes"})),
        message(tool_use(GOOD), tool_use({"label": "no", "confidence": 80})),
        message(tool_use("yes")),
        Reply({"content": None}),
        Reply("[]"),
    ],
)
async def test_a_cut_refused_or_broken_anthropic_reply_is_never_a_verdict(reply: Reply) -> None:
    async with anthropic_judge([reply]) as (judge, _):
        found = await judge.judge(PROMPT, SCHEMA)
    assert (found.value, found.reason) == (None, Reason.JUDGE_REPLY_INVALID)


def refuse(what: str) -> Reply:
    return Reply({"error": {"message": f"{what} is not supported", "type": "invalid_request_error"}}, status=400)


async def test_a_server_without_structured_output_is_asked_more_plainly_and_remembered() -> None:
    replies = [refuse("response_format json_schema"), refuse("response_format"), completion(RAW)]
    async with openai_judge(replies) as (judge, server):
        first = await judge.judge(PROMPT, SCHEMA)
        second = await judge.judge(PROMPT, SCHEMA)
    assert first.value == second.value == GOOD
    forms = [asked.get("response_format", {}).get("type") for asked in server.requests]
    assert forms == ["json_schema", "json_object", None, None]
    assert "JSON Schema" in server.requests[-1]["messages"][0]["content"]
    async with anthropic_judge([refuse("tools"), message(text(RAW), stop="end_turn")]) as (claude, server):
        assert (await claude.judge(PROMPT, SCHEMA)).value == GOOD
        assert (await claude.judge(PROMPT, SCHEMA)).value == GOOD
    assert ["tools" in asked for asked in server.requests] == [True, False, False]


async def test_a_reasoning_model_is_asked_without_the_fields_it_refuses() -> None:
    replies = [refuse("'max_tokens'; use 'max_completion_tokens'; it"), refuse("temperature"), completion(RAW)]
    async with openai_judge(replies) as (judge, server):
        assert (await judge.judge(PROMPT, SCHEMA)).value == GOOD
    asked = server.requests[-1]
    assert asked["max_completion_tokens"] == 1024
    assert "temperature" not in asked
    assert asked["response_format"]["type"] == "json_schema"


async def test_a_server_that_refuses_everything_is_asked_a_bounded_number_of_times() -> None:
    async with openai_judge([refuse("life")]) as (judge, server):
        reply = await judge.judge(PROMPT, SCHEMA)
    assert (reply.value, reply.reason) == (None, Reason.JUDGE_UNAVAILABLE)
    assert len(server.requests) == 3


@pytest.mark.parametrize("opener", [openai_judge, anthropic_judge])
async def test_a_busy_judge_is_asked_again_and_its_wish_to_wait_is_heard(opener: Any) -> None:
    good = completion(RAW) if opener is openai_judge else message(tool_use(GOOD))
    busy = Reply({"error": {"message": "busy"}}, status=429, headers={"retry-after-ms": "1"})
    async with opener([busy, busy, good], attempts=3) as (judge, server):
        assert (await judge.judge(PROMPT, SCHEMA)).value == GOOD
    assert len(server.requests) == 3


@pytest.mark.parametrize("opener", [openai_judge, anthropic_judge])
async def test_a_failing_judge_is_unavailable_and_its_key_stays_out_of_the_record(opener: Any) -> None:
    refused = Reply({"error": {"message": f"bad key {KEY}", "type": "authentication_error"}}, status=401)
    async with opener([refused]) as (judge, server):
        reply = await judge.judge(PROMPT, SCHEMA)
    assert (reply.value, reply.reason) == (None, Reason.JUDGE_UNAVAILABLE)
    assert "bad key" in reply.call.error
    assert KEY in json.dumps(server.headers)
    assert KEY not in repr(reply)
    assert KEY not in repr(settings_for(server))


async def test_a_prompt_too_long_for_the_judge_is_said_to_be_too_long() -> None:
    error = {"error": {"message": "too many", "code": "context_length_exceeded"}}
    async with openai_judge([Reply(error, status=400)]) as (judge, server):
        reply = await judge.judge(PROMPT, SCHEMA)
    assert reply.reason is Reason.TOO_LONG
    assert len(server.requests) == 1


@pytest.mark.parametrize("opener", [openai_judge, anthropic_judge])
async def test_a_judge_that_never_answers_ends_in_a_timeout(opener: Any) -> None:
    async with opener([Reply(hold=True)], timeout_s=0.2) as (judge, _):
        reply = await judge.judge(PROMPT, SCHEMA)
    assert (reply.value, reply.reason) == (None, Reason.TIMEOUT)
    assert "Is it so?" in reply.call.request


async def test_a_judge_that_is_not_there_is_unavailable() -> None:
    async with judge_server([completion(RAW)]) as server:
        gone = server.url
    for kind in (OpenAIJudge, AnthropicJudge):
        async with kind(JudgeSettings(name="j", model="m", base_url=gone, attempts=1)) as judge:
            assert (await judge.judge(PROMPT, SCHEMA)).reason is Reason.JUDGE_UNAVAILABLE


async def test_a_judge_is_never_asked_more_at_once_than_its_provider_allows() -> None:
    async with openai_judge([completion(RAW)], concurrency=2) as (judge, server):
        replies = await asyncio.gather(*(judge.judge(PROMPT, SCHEMA) for _ in range(12)))
    assert all(reply.value == GOOD for reply in replies)
    assert len(server.requests) == 12
    assert server.open_most <= 2


async def test_cancelling_a_request_cancels_its_judge_call() -> None:
    async with openai_judge([Reply(hold=True)]) as (judge, server):
        task = asyncio.ensure_future(judge.judge(PROMPT, SCHEMA))
        while not server.open_now:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_key_from_the_environment_is_never_sent_to_another_address() -> None:
    async with openai_judge([completion(RAW)], api_key=None) as (judge, server):
        await judge.judge(PROMPT, SCHEMA)
    assert server.headers[0]["Authorization"] == "Bearer none"


@pytest.mark.parametrize("kind", [OpenAIJudge, AnthropicJudge])
def test_a_judge_without_key_and_address_is_refused_with_a_remedy(kind: Any) -> None:
    with pytest.raises(JudgeSetupError) as caught:
        kind(JudgeSettings(name="j", model="m"))
    assert "api_key" in caught.value.hint


async def test_the_double_replies_by_purpose_or_predicate_and_remembers_what_it_was_asked() -> None:
    judge = ScriptedJudge(
        [
            (lambda prompt: "never" in prompt.user, GOOD),
            ("questions", lambda prompt: {"label": "no", "confidence": len(prompt.user)}),
            ("classify", Reason.TIMEOUT),
        ]
    )
    assert (await judge.judge(JudgePrompt("questions", "", "abc"), SCHEMA)).value == {"label": "no", "confidence": 3}
    assert (await judge.judge(PROMPT, SCHEMA)).reason is Reason.TIMEOUT
    assert (await judge.judge(JudgePrompt("other", "", ""), SCHEMA)).reason is Reason.JUDGE_UNAVAILABLE
    assert [prompt.purpose for prompt in judge.prompts] == ["questions", "classify", "other"]
    assert isinstance(judge, Judge)

"""What every upstream keeps to: the same suite over the HTTP ones, the extractive one and the scripted double."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.errors import UpstreamError, UpstreamProtocolError
from gateway.upstream.anthropic import AnthropicSpeech
from gateway.upstream.base import Upstream, UpstreamRequest
from gateway.upstream.extractive import ExtractiveUpstream
from gateway.upstream.openai import OpenAISettings, OpenAIUpstream
from gateway.upstream.responses import ResponsesSpeech
from gateway.upstream.scripted import Script, ScriptedUpstream, text_script
from gateway.upstream.speech import AzureSpeech, OpenAISpeech, Speech
from gateway.wire.messages.to_upstream import Carrying
from gateway.wire.responses.to_upstream import ResponsesCarrying
from gateway.wire.types import Delta
from tests.gateway.upstream.conftest import ask, collect, everything, texts
from tests.gateway.upstream.samples import hit
from tests.servers.messages import message, message_reply, text
from tests.servers.responses import response, streamed_response
from tests.servers.upstream import Received, UpstreamServer, chat_events, completion, json_reply, raw_reply, sse_reply

TEXT = "The warranty lasts two years [1]."
HITS = (hit("The warranty lasts two years. Shipping is free."),)


async def _http(streamed: bool, speech: Speech | None = None) -> AsyncIterator[Upstream]:
    async with UpstreamServer() as server:
        server.default = sse_reply(chat_events(TEXT, usage=True)) if streamed else json_reply(completion(TEXT))
        if isinstance(speech, AnthropicSpeech):
            server.default = message_reply(message(text(TEXT))) if streamed else json_reply(message(text(TEXT)))
        if isinstance(speech, ResponsesSpeech):
            server.default = streamed_response(TEXT) if streamed else json_reply(response(TEXT))
        upstream = OpenAIUpstream(OpenAISettings(base_url=server.base_url), "http", speech=speech)
        await upstream.aopen()
        yield upstream
        await upstream.aclose()


SPEECHES: dict[str, Speech] = {
    "openai": OpenAISpeech(),
    "azure": AzureSpeech({}),
    "anthropic": AnthropicSpeech(Carrying()),
    "responses": ResponsesSpeech(ResponsesCarrying()),
}


@pytest.fixture(params=[*SPEECHES, "extractive", "scripted"])
async def upstream(request: pytest.FixtureRequest, stream: bool) -> AsyncIterator[Upstream]:
    if request.param in SPEECHES:
        async for opened in _http(stream, SPEECHES[request.param]):
            yield opened
        return
    made: Upstream = ExtractiveUpstream("extractive")
    if request.param == "scripted":
        made = ScriptedUpstream(lambda asked: text_script(TEXT, stream=asked.stream), "scripted")
    await made.aopen()
    yield made
    await made.aclose()


@pytest.fixture(params=[True, False], ids=["stream", "plain"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def question(stream: bool) -> UpstreamRequest:
    fields = {"stream_options": {"include_usage": True}} if stream else {}
    return ask(stream=stream, query="How long does the warranty last?", hits=HITS, fields=fields)


async def test_same_answer_streamed_or_plain(upstream: Upstream, stream: bool) -> None:
    async with upstream.send(question(stream)) as reply:
        deltas = await everything(reply)
    assert isinstance(upstream, Upstream)
    assert reply.status == 200
    assert texts(deltas) == {0: TEXT}
    assert [delta.whole for delta in deltas] == ([False] * len(deltas) if stream else [True])
    assert (len(deltas) > 3) is stream


async def test_last_choice_event_finishes_and_usage_comes_last(upstream: Upstream, stream: bool) -> None:
    async with upstream.send(question(stream)) as reply:
        deltas = await everything(reply)
    finishes = [choice.finish_reason for delta in deltas for choice in delta.view.choices or ()]
    assert finishes[-1] == "stop"
    assert not any(finishes[:-1])
    assert deltas[-1].view.usage is not None
    assert deltas[-1].view.choices == [] if stream else deltas[-1].view.choices


async def test_first_event_of_a_stream_has_the_role(upstream: Upstream, stream: bool) -> None:
    async with upstream.send(question(stream)) as reply:
        first = (await everything(reply))[0]
    assert first.view.choices
    choice = first.view.choices[0]
    part = choice.delta if stream else choice.message
    assert part is not None
    assert part.role == "assistant"


async def test_attempts_name_the_upstream_and_end_in_success(upstream: Upstream, stream: bool) -> None:
    async with upstream.send(question(stream)) as reply:
        await everything(reply)
    assert [(attempt.upstream, attempt.status, attempt.error) for attempt in reply.attempts] == [
        (upstream.name, 200, "")
    ]


async def test_leaving_early_harms_no_later_request(upstream: Upstream, stream: bool) -> None:
    async with upstream.send(question(stream)):
        pass
    async with upstream.send(question(stream)) as reply:
        await anext(aiter(reply.deltas))
    async with upstream.send(question(stream)) as reply:
        assert texts(await everything(reply)) == {0: TEXT}


async def test_requests_at_the_same_time_do_not_mix(upstream: Upstream, stream: bool) -> None:
    async def one() -> dict[int, str]:
        async with upstream.send(question(stream)) as reply:
            return texts(await everything(reply))

    assert await asyncio.gather(*(one() for _ in range(8))) == [{0: TEXT}] * 8


# ------------------------------------------------- the double


async def test_double_can_fail_before_and_within_an_answer() -> None:
    events = text_script("Hello").steps
    cut = UpstreamProtocolError("cut")
    double = ScriptedUpstream([Script(before=(UpstreamError("down"),)), Script(steps=(*events[:2], cut))])
    with pytest.raises(UpstreamError, match="down"):
        async with double.send(ask()):
            pass
    deltas: list[Delta] = []
    async with double.send(ask()) as reply:
        with pytest.raises(UpstreamProtocolError, match="cut"):
            await collect(reply, deltas)
    assert len(deltas) == 2
    assert [served.complete for served in double.served] == [False, False]


async def test_double_waits_for_events_and_sees_who_left() -> None:
    gate, waited = asyncio.Event(), asyncio.Event()

    async def note() -> None:
        waited.set()

    double = ScriptedUpstream(Script(steps=(note, gate, b'{"choices":[]}')))

    async def ask_it() -> None:
        async with double.send(ask()) as reply:
            await everything(reply)

    task = asyncio.create_task(ask_it())
    await waited.wait()
    assert not double.served[0].closed.is_set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert double.served[0].closed.is_set()
    assert not double.served[0].complete
    gate.set()
    await ask_it()
    assert double.served[1].complete


async def test_double_without_a_script_says_so() -> None:
    with pytest.raises(LookupError, match="scripted"):
        async with ScriptedUpstream([]).send(ask()):
            pass


# ------------------------------------------------- the server of these tests


async def test_server_answers_by_queue_then_model_then_default() -> None:
    seen: list[Received] = []
    async with UpstreamServer() as server:
        server.enqueue(json_reply(completion("queued")))
        server.on_model("special", json_reply(completion("by model")))
        server.default = raw_reply(seen.append, *json_reply(completion("default")).steps)
        upstream = OpenAIUpstream(OpenAISettings(base_url=server.base_url), "http")
        await upstream.aopen()
        answers = []
        for model in ("special", "special", "m"):
            async with upstream.send(ask(body=b'{"model":"%s"}' % model.encode())) as reply:
                answers.append(texts(await everything(reply))[0])
        await upstream.aclose()
    assert answers == ["queued", "by model", "default"]
    assert [received.json for received in seen] == [{"model": "m"}]

"""What comes back from an OpenAI-compatible server, in every shape and with every fault."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.errors import UpstreamProtocolError, UpstreamTimeoutError
from gateway.upstream.base import UpstreamReply
from gateway.upstream.openai import OpenAIUpstream, UpstreamTimeouts
from gateway.upstream.reading import DeltaReader
from gateway.wire.types import Delta
from tests.gateway.upstream.conftest import Connect, ask, collect, everything, texts
from tests.servers.upstream import (
    FIN,
    RESET,
    YIELD,
    Reply,
    UpstreamServer,
    chat_events,
    chunk,
    completion,
    head,
    json_reply,
    raw_reply,
    sse_reply,
    tool_call_events,
)

TEXT = "Возврат — 30 days, «сразу» 🚚."


async def answer(upstream: OpenAIUpstream, *, stream: bool = True) -> list[Delta]:
    async with upstream.send(ask(stream=stream)) as reply:
        return await everything(reply)


async def failure(upstream: OpenAIUpstream, *, stream: bool = True) -> tuple[list[Delta], UpstreamProtocolError]:
    """The deltas before the error, and the error."""
    deltas: list[Delta] = []
    async with upstream.send(ask(stream=stream)) as reply:
        with pytest.raises(UpstreamProtocolError) as caught:
            await collect(reply, deltas)
    return deltas, caught.value


async def test_json_answer_arrives_whole_and_byte_for_byte(server: UpstreamServer, connect: Connect) -> None:
    body = b'{"id":"x", "choices" :[{"index":0,"message":{"content":"Hi","vendor":1.50}}],"unknown":{"a":null}}'
    server.enqueue(json_reply(body))
    [delta] = await answer(await connect(), stream=False)
    assert delta.whole
    assert delta.data == body


async def test_stream_answer_arrives_event_by_event_and_byte_for_byte(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(sse_reply([b'{"choices":[], "z": 1.0}', *chat_events(TEXT), b'{"choices":[],"usage":{"a":1}}']))
    deltas = await answer(await connect())
    assert deltas[0].data == b'{"choices":[], "z": 1.0}'
    assert deltas[-1].view.usage == {"a": 1}
    assert texts(deltas) == {0: TEXT}
    assert not any(delta.whole for delta in deltas)


FRAMINGS: dict[str, dict[str, Any]] = {
    "every byte alone": {"split": 1},
    "three bytes at a time": {"split": 3},
    "CRLF": {"newline": "\r\n"},
    "CRLF split": {"newline": "\r\n", "split": 1},
    "CR": {"newline": "\r"},
    "comments": {"comments": True},
    "no final newline": {"final_newline": False},
    "content-length": {"framing": "length"},
    "until the connection closes": {"framing": "close"},
    "no [DONE] but all finished": {"done": False},
    "no [DONE], closed": {"done": False, "framing": "close"},
    "no [DONE], no final newline": {"done": False, "final_newline": False, "framing": "close"},
    "gzip": {"encoding": "gzip"},
    "deflate": {"encoding": "deflate"},
    "brotli": {"encoding": "br"},
    "zstd": {"encoding": "zstd"},
    "gzip, every byte alone": {"encoding": "gzip", "split": 1},
    "brotli, every byte alone": {"encoding": "br", "split": 1},
    "zstd, every byte alone": {"encoding": "zstd", "split": 1},
    "no content type": {"content_type": None},
    "labelled JSON": {"content_type": "application/json"},
    "labelled text": {"content_type": "text/plain; charset=utf-8"},
    "labelled with parameters": {"content_type": "Text/Event-Stream; charset=utf-8"},
}


@pytest.mark.parametrize("fault", FRAMINGS.values(), ids=FRAMINGS.keys())
async def test_no_byte_of_a_stream_is_lost_however_it_is_framed(
    server: UpstreamServer, connect: Connect, fault: dict[str, Any]
) -> None:
    server.enqueue(sse_reply(chat_events(TEXT, n=2, usage=True), **fault))
    deltas = await answer(await connect())
    assert texts(deltas) == {0: TEXT, 1: TEXT}
    assert deltas[-1].view.usage is not None


@pytest.mark.parametrize("encoding", [None, "gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("content_type", ["application/json", None, "text/event-stream", "text/plain"])
async def test_compressed_or_mislabelled_json_answer_is_still_read(
    server: UpstreamServer, connect: Connect, encoding: str | None, content_type: str | None
) -> None:
    server.enqueue(json_reply(completion(TEXT), encoding=encoding, content_type=content_type))
    assert texts(await answer(await connect(), stream=False)) == {0: TEXT}


async def test_json_answer_to_a_stream_request_is_not_lost(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(json_reply(completion(TEXT)))
    [delta] = await answer(await connect(), stream=True)
    assert delta.whole


async def test_stream_answer_to_a_plain_request_is_not_lost(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(sse_reply(chat_events(TEXT)))
    assert texts(await answer(await connect(), stream=False)) == {0: TEXT}


async def test_json_answer_after_white_space_that_keeps_the_connection_alive_is_read(
    server: UpstreamServer, connect: Connect
) -> None:
    gate = asyncio.Event()
    body = b'{"choices":[{"index":0,"message":{"content":"Hi"}}]}'
    length = str(len(body) + 3)
    server.enqueue(raw_reply(head(200, [("content-length", length)]), b"\n", YIELD, b" \n", gate, body))
    upstream = await connect()
    async with upstream.send(ask()) as reply:
        gate.set()
        assert texts(await everything(reply)) == {0: "Hi"}


async def test_parallel_tool_calls_keep_their_own_index(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(sse_reply(tool_call_events([("a", '{"x": 1}'), ("b", '{"y": 22}')]), split=5))
    indices = [
        call["index"] if isinstance(call, dict) else call.index
        for delta in await answer(await connect())
        for choice in delta.view.choices or ()
        for call in (choice.delta.tool_calls if choice.delta else None) or ()
    ]
    assert indices == [0, 1, 0, 1, 0, 1]


async def test_log_probabilities_pass_through(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(sse_reply(chat_events("Hi", logprobs=True)))
    assert any(b'"logprob": -0.25' in delta.data for delta in await answer(await connect()))


# ------------------------------------------------- never a clean stop


@pytest.mark.parametrize("cut", [FIN, RESET])
@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@pytest.mark.parametrize("kept", [0, 1, 3])
async def test_connection_cut_mid_stream_is_never_a_clean_stop(
    server: UpstreamServer, connect: Connect, cut: Any, framing: str, kept: int
) -> None:
    server.enqueue(sse_reply(chat_events("A long answer that is cut."), cut_after=kept, cut=cut, framing=framing))
    deltas, error = await failure(await connect())
    assert len(deltas) <= kept
    assert error.status == 502


async def test_reset_after_the_finish_reason_of_a_chunked_stream_is_an_error(
    server: UpstreamServer, connect: Connect
) -> None:
    events = chat_events("Hello", usage=True)
    server.enqueue(sse_reply(events, cut_after=len(events) - 1, cut=RESET))
    _, error = await failure(await connect())
    assert error.code == "upstream_cut"


async def test_stream_that_ends_before_one_of_its_choices_finished_is_an_error(
    server: UpstreamServer, connect: Connect
) -> None:
    events = chat_events("Hello", n=2)[:-1]
    server.enqueue(sse_reply(events, done=False))
    deltas, error = await failure(await connect())
    assert len(deltas) == len(events)
    assert "choice 1" in error.message


async def test_missing_done_is_an_error_where_the_setting_asks_for_it(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(sse_reply(chat_events("Hello"), done=False))
    _, error = await failure(await connect(finish_ends_stream=False))
    assert "[DONE]" in error.message


@pytest.mark.parametrize("kept", [0, 1, 40])
async def test_json_answer_that_is_cut_is_an_error(server: UpstreamServer, connect: Connect, kept: int) -> None:
    server.enqueue(json_reply(completion(), truncate=kept))
    deltas, _ = await failure(await connect(), stream=False)
    assert deltas == []


async def connection_lost(reply: UpstreamReply) -> None:
    """Return once the client knows that its connection is gone, with the answer still unread."""
    assert isinstance(reply.deltas, DeltaReader)
    content = reply.deltas._body._response.content
    while content.exception() is None:
        await asyncio.sleep(0)


async def test_text_that_arrived_before_a_cut_is_not_lost_to_a_slow_reader(
    server: UpstreamServer, connect: Connect
) -> None:
    events = chat_events("Hello there", pieces=3)
    server.enqueue(sse_reply(events, cut_after=4, cut=FIN))
    upstream = await connect()
    async with upstream.send(ask(stream=True)) as reply:
        await connection_lost(reply)
        deltas: list[Delta] = []
        with pytest.raises(UpstreamProtocolError):
            await collect(reply, deltas)
    assert texts(deltas) == {0: "Hello there"}


async def test_done_before_an_unclean_close_is_a_whole_answer(server: UpstreamServer, connect: Connect) -> None:
    events = chat_events("Hello there")
    server.enqueue(sse_reply(events, cut_after=len(events) + 1, cut=FIN))
    upstream = await connect()
    async with upstream.send(ask(stream=True)) as reply:
        await connection_lost(reply)
        assert texts(await everything(reply)) == {0: "Hello there"}


async def test_error_object_inside_a_successful_stream_becomes_an_error_with_its_body(
    server: UpstreamServer, connect: Connect
) -> None:
    envelope = b'{"error": {"message": "out of memory", "code": 500}}'
    server.enqueue(sse_reply([*chat_events("Hello")[:2], envelope]))
    deltas, error = await failure(await connect())
    assert len(deltas) == 2
    assert error.body == envelope
    assert "out of memory" not in error.message


async def test_error_object_inside_a_successful_json_answer_becomes_an_error_with_its_body(
    server: UpstreamServer, connect: Connect
) -> None:
    server.enqueue(json_reply(b'{"error":"no such model"}'))
    _, error = await failure(await connect(), stream=False)
    assert error.body == b'{"error":"no such model"}'


@pytest.mark.parametrize("event", [b'{"choices": [', b"nonsense", b"[1]", b"\xff\xfe"])
async def test_broken_json_in_a_stream_is_an_error_after_the_events_before_it(
    server: UpstreamServer, connect: Connect, event: bytes
) -> None:
    server.enqueue(sse_reply([*chat_events("Hello")[:2], event, *chat_events("never")]))
    deltas, error = await failure(await connect())
    assert len(deltas) == 2
    assert b"never" not in error.body


BODIES: dict[str, Reply] = {
    "broken JSON": json_reply(b'{"choices": ['),
    "empty": json_reply(b""),
    "no content": raw_reply(head(204, [])),
    "HTML": json_reply(b"<html>Sign in</html>", content_type="text/html"),
    "JSON of another kind": json_reply(b'{"detail": "ok"}'),
    "list": json_reply(b"[]"),
    "a number": json_reply(b"1"),
    "stream without events": sse_reply([]),
    "stream without events and without [DONE]": sse_reply([], done=False),
    "broken gzip": json_reply(b"not gzip at all", headers=[("content-encoding", "gzip")]),
}


@pytest.mark.parametrize("name", BODIES)
async def test_body_that_is_no_answer_is_an_error(server: UpstreamServer, connect: Connect, name: str) -> None:
    server.enqueue(BODIES[name])
    upstream = await connect()
    with pytest.raises(UpstreamProtocolError):
        await answer(upstream, stream=False)


async def test_answer_that_is_not_http_is_an_error(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(raw_reply(b"SSH-2.0-OpenSSH\r\n\r\n", FIN))
    upstream = await connect()
    with pytest.raises(UpstreamProtocolError):
        await answer(upstream)


async def test_error_stays_an_error_when_it_is_read_again(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(sse_reply(chat_events("Hello")[:2], done=False))
    upstream = await connect()
    async with upstream.send(ask(stream=True)) as reply:
        for _ in range(2):
            with pytest.raises(UpstreamProtocolError):
                await everything(reply)


# ------------------------------------------------- bounds


async def test_answer_over_the_limit_does_not_fill_the_memory(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(json_reply(completion("x" * 20_000), encoding="gzip"))
    server.enqueue(sse_reply(chat_events("x" * 20_000, pieces=100)))
    upstream = await connect(max_response_bytes=10_000)
    for stream in (False, True):
        _, error = await failure(upstream, stream=stream)
        assert error.code == "upstream_too_large"


async def test_event_over_the_limit_does_not_fill_the_memory(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(sse_reply([chunk([]), b"x" * 50_000]))
    deltas, error = await failure(await connect(max_event_bytes=10_000))
    assert len(deltas) == 1
    assert "10000" in error.message


# ------------------------------------------------- time


async def test_silence_before_the_first_byte_says_so(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(raw_reply(asyncio.Event()))
    upstream = await connect(timeouts=UpstreamTimeouts(first_byte_s=0.05))
    with pytest.raises(UpstreamTimeoutError, match="first_byte") as caught:
        await answer(upstream)
    assert caught.value.status == 504
    assert len(server.requests) == 1, "a model that thinks must not be asked, and paid, twice"


async def test_silence_after_the_headers_counts_as_silence_before_the_first_byte(
    server: UpstreamServer, connect: Connect
) -> None:
    server.enqueue(sse_reply(chat_events("Hello"), gates={0: asyncio.Event()}))
    upstream = await connect(timeouts=UpstreamTimeouts(first_byte_s=0.1))
    with pytest.raises(UpstreamTimeoutError, match="first_byte"):
        await answer(upstream)


async def test_silence_in_the_middle_says_so_and_closes(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(sse_reply(chat_events("Hello"), gates={2: asyncio.Event()}))
    upstream = await connect(timeouts=UpstreamTimeouts(idle_s=0.05))
    with pytest.raises(UpstreamTimeoutError, match="idle"):
        await answer(upstream)
    async with asyncio.timeout(1):
        await server.requests[0].closed.wait()


async def test_total_time_ends_an_answer_that_never_ends(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(sse_reply(chat_events("Hello"), gates={2: asyncio.Event()}))
    upstream = await connect(timeouts=UpstreamTimeouts(total_s=0.2))
    with pytest.raises(UpstreamTimeoutError, match="total"):
        await answer(upstream)

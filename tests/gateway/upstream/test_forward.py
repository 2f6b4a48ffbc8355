"""Requests of other kinds, passed through unread."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import RequestError, UpstreamProtocolError, UpstreamUnreachableError
from gateway.upstream.extractive import ExtractiveUpstream
from gateway.upstream.scripted import ScriptedUpstream, text_script
from tests.gateway.upstream.conftest import Connect
from tests.servers.upstream import RESET, UpstreamServer, chat_events, error_reply, json_reply, raw_reply, sse_reply


async def test_upload_and_its_content_type_arrive_byte_for_byte(server: UpstreamServer, connect: Connect) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n\x00\xff\r\n--b--'
    headers = {"content-type": "multipart/form-data; boundary=b", "accept": "*/*", "authorization": "Bearer sk-theirs"}
    upstream = await connect()
    async with upstream.forward("POST", "/v1/files?purpose=x", headers, body, None) as reply:
        assert reply.status == 200
        assert [piece async for piece in reply.body]
    received = server.requests[0]
    assert (received.method, received.path, received.body) == ("POST", "/v1/files?purpose=x", body)
    assert received.headers["content-type"] == headers["content-type"]
    assert received.headers["authorization"] == "Bearer sk-ours"


async def test_download_comes_back_byte_for_byte_and_decoded(server: UpstreamServer, connect: Connect) -> None:
    body = bytes(range(256)) * 3_000
    disposition = [("content-disposition", 'attachment; filename="a.wav"'), ("set-cookie", "a=b")]
    server.enqueue(json_reply(body, content_type="audio/wav", encoding="br", headers=disposition))
    upstream = await connect()
    async with upstream.forward("GET", "/v1/files/f/content", {"range": "bytes=0-"}, b"", None) as reply:
        pieces = [piece async for piece in reply.body]
    assert b"".join(pieces) == body
    assert reply.headers == {"content-disposition": 'attachment; filename="a.wav"', "content-type": "audio/wav"}
    assert server.requests[0].headers["range"] == "bytes=0-"
    assert "content-length" not in server.requests[0].headers


@pytest.mark.parametrize("status", [302, 404, 429, 500])
async def test_any_status_comes_back_as_it_is_and_is_asked_for_once(
    server: UpstreamServer, connect: Connect, status: int
) -> None:
    server.enqueue(error_reply(status, message="own words"))
    upstream = await connect()
    async with upstream.forward("DELETE", "/v1/files/f", {}, b"", "Bearer sk-theirs") as reply:
        body = b"".join([piece async for piece in reply.body])
    assert reply.status == status
    assert b"own words" in body
    assert len(server.requests) == 1
    assert server.requests[0].headers["authorization"] == "Bearer sk-theirs"


async def test_an_odd_header_of_the_upstream_does_not_cost_the_answer(server: UpstreamServer, connect: Connect) -> None:
    odd = [("retry-after", "1\x01"), ("x-ratelimit-limit", "\x7f"), ("openai-model", "caf\xe9")]
    server.enqueue(json_reply({}, headers=odd))
    upstream = await connect()
    async with upstream.forward("GET", "/v1/files", {}, b"", None) as reply:
        assert b"".join([piece async for piece in reply.body]) == b"{}"
    assert {"retry-after", "x-ratelimit-limit"}.isdisjoint(reply.headers)
    assert reply.headers["openai-model"].encode("latin-1") == b"caf\xe9"


async def test_batch_is_not_created_twice_when_the_connection_breaks(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(raw_reply(RESET))
    upstream = await connect()
    with pytest.raises(UpstreamProtocolError):
        async with upstream.forward("POST", "/v1/batches", {}, b"{}", None):
            pass
    assert len(server.requests) == 1


async def test_server_that_is_not_there_is_tried_again_for_what_never_left(connect: Connect) -> None:
    upstream = await connect(base_url="http://127.0.0.1:1/v1")
    with pytest.raises(UpstreamUnreachableError) as caught:
        async with upstream.forward("POST", "/v1/batches", {}, b"{}", None):
            pass
    assert caught.value.attempts == 3


async def test_cut_download_is_an_error_and_not_a_short_file(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(json_reply(b"x" * 1_000, truncate=500, content_type="audio/wav"))
    upstream = await connect()
    async with upstream.forward("GET", "/v1/files/f/content", {}, b"", None) as reply:
        with pytest.raises(UpstreamProtocolError):
            [piece async for piece in reply.body]


async def test_pieces_of_a_stream_arrive_as_they_come(server: UpstreamServer, connect: Connect) -> None:
    gate = asyncio.Event()
    server.enqueue(sse_reply(chat_events("Hello"), gates={1: gate}))
    upstream = await connect()
    async with upstream.forward("POST", "/v1/responses", {}, b"{}", None) as reply:
        first = await anext(aiter(reply.body))
        assert first.startswith(b"data: ")
        gate.set()
        rest = b"".join([piece async for piece in reply.body])
    assert rest.endswith(b"data: [DONE]\n\n")


async def test_upstream_stops_when_the_download_is_left(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(sse_reply(chat_events("Hello"), gates={1: asyncio.Event()}))
    upstream = await connect()
    async with upstream.forward("POST", "/v1/responses", {}, b"{}", None):
        pass
    async with asyncio.timeout(1):
        await server.requests[0].closed.wait()


@pytest.mark.parametrize("upstream", [ExtractiveUpstream(), ScriptedUpstream(text_script("x"))])
def test_upstream_without_a_server_says_that_it_cannot_forward(upstream: ExtractiveUpstream | ScriptedUpstream) -> None:
    with pytest.raises(RequestError, match="/v1/files"):
        upstream.forward("GET", "/v1/files", {}, b"", None)

"""Calls to an OpenAI-compatible server: what is sent, when it is sent again, how it ends, whom it trusts."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.errors import (
    ConfigError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
)
from gateway.upstream.base import Upstream, UpstreamReply
from gateway.upstream.openai import OpenAISettings, OpenAIUpstream, UpstreamTimeouts
from gateway.upstream.retrying import RetryPolicy
from tests.gateway.upstream.conftest import AT_ONCE, Connect, ask, everything, texts
from tests.servers.upstream import (
    FIN,
    RESET,
    Reply,
    UpstreamServer,
    chat_events,
    completion,
    error_reply,
    head,
    json_reply,
    raw_reply,
    sse_reply,
)

SECRETS = ("sk-ours", "sk-theirs", "proxy-password", "s3cret-header")


async def call(upstream: OpenAIUpstream, **changes: Any) -> UpstreamReply:
    """One request read to its end."""
    async with upstream.send(ask(**changes)) as reply:
        await everything(reply)
    return reply


# ------------------------------------------------- what is sent


async def test_body_reaches_the_upstream_byte_for_byte(server: UpstreamServer, connect: Connect) -> None:
    body = '{ "model":"m","messages": [{"role":"user","content":"ä 🚚"}],\n"temperature":1.0,"unknown":{}}'.encode()
    await call(await connect(), body=body)
    assert server.requests[0].body == body
    assert server.requests[0].headers["content-type"] == "application/json"


async def test_body_of_several_megabytes_reaches_the_upstream_whole(server: UpstreamServer, connect: Connect) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"' + b"x" * 5_000_000 + b'"}]}'
    server.enqueue(error_reply(500), json_reply(completion()))
    await call(await connect(), body=body)
    assert [len(received.body) for received in server.requests] == [len(body)] * 2


async def test_our_key_replaces_whatever_the_client_sent(server: UpstreamServer, connect: Connect) -> None:
    client = {
        "authorization": "Bearer sk-theirs",
        "api-key": "sk-theirs",
        "cookie": "session=1",
        "proxy-authorization": "Basic x",
        "openai-organization": "org-theirs",
        "host": "evil.example",
        "connection": "close, x-request-id",
        "transfer-encoding": "chunked",
        "accept-encoding": "snappy",
        "x-forwarded-for": "10.0.0.1",
    }
    await call(await connect(organization="org-ours"), headers=client)
    sent = server.requests[0].headers
    assert sent["authorization"] == "Bearer sk-ours"
    assert sent["openai-organization"] == "org-ours"
    assert sent["host"] == f"127.0.0.1:{server.port}"
    assert not {"api-key", "cookie", "proxy-authorization", "x-forwarded-for", "transfer-encoding"} & set(sent)
    assert "sk-theirs" not in str(sent)


async def test_tracing_and_idempotency_of_the_client_survive(server: UpstreamServer, connect: Connect) -> None:
    client = {
        "OpenAI-Beta": "x=1",
        "x-request-id": "r-1",
        "Idempotency-Key": "k-1",
        "traceparent": "00-a-b-01",
        "x-tenant": "t",
    }
    await call(await connect(pass_headers=frozenset({"x-tenant"})), headers=client)
    sent = server.requests[0].headers
    assert {name.lower(): sent.get(name.lower()) for name in client} == {k.lower(): v for k, v in client.items()}


async def test_passthrough_route_bills_the_callers_own_key(server: UpstreamServer, connect: Connect) -> None:
    await call(await connect(), authorization="Bearer sk-theirs")
    assert server.requests[0].headers["authorization"] == "Bearer sk-theirs"
    azure = await connect(api_key_header="api-key")
    await call(azure, authorization="Bearer sk-theirs")
    assert server.requests[1].headers["api-key"] == "sk-theirs"
    assert "authorization" not in server.requests[1].headers


async def test_azure_gets_its_key_header_version_and_deployment_path(server: UpstreamServer, connect: Connect) -> None:
    base = server.base_url.removesuffix("/v1") + "/openai/deployments/gpt-4o"
    await call(await connect(base_url=base, api_key_header="api-key", api_version="2026-01-01"))
    received = server.requests[0]
    assert received.path == "/openai/deployments/gpt-4o/chat/completions?api-version=2026-01-01"
    assert received.headers["api-key"] == "sk-ours"
    assert "authorization" not in received.headers


async def test_server_without_a_key_gets_none(server: UpstreamServer, connect: Connect) -> None:
    await call(await connect(api_key=None))
    assert "authorization" not in server.requests[0].headers


async def test_no_answer_comes_in_an_encoding_we_cannot_read(server: UpstreamServer, connect: Connect) -> None:
    await call(await connect(), headers={"accept-encoding": "br;q=1.0, x-odd"})
    offered = {name.strip() for name in server.requests[0].headers["accept-encoding"].split(",")}
    for encoding in offered:
        server.enqueue(json_reply(completion("read"), encoding=encoding))
        async with (await connect()).send(ask()) as reply:
            assert texts(await everything(reply)) == {0: "read"}
    assert offered == {"gzip", "deflate", "br", "zstd"}


async def test_response_headers_let_clients_pace_themselves_and_leak_nothing_else(
    server: UpstreamServer, connect: Connect
) -> None:
    headers = [
        ("X-RateLimit-Remaining-Requests", "9"),
        ("openai-processing-ms", "12"),
        ("x-request-id", "up-1"),
        ("set-cookie", "a=b"),
        ("cf-ray", "1"),
        ("server", "secret/1.0"),
        ("keep-alive", "timeout=5"),
    ]
    server.enqueue(json_reply(completion(), encoding="gzip", headers=headers))
    reply = await call(await connect())
    assert reply.headers == {
        "x-ratelimit-remaining-requests": "9",
        "openai-processing-ms": "12",
        "x-request-id": "up-1",
        "content-type": "application/json",
    }


async def test_cookies_of_one_caller_never_reach_the_next(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(json_reply(completion(), headers=[("set-cookie", "session=first; Path=/")]))
    upstream = await connect()
    await call(upstream)
    await call(upstream)
    assert "cookie" not in server.requests[1].headers


# ------------------------------------------------- errors


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_error_status_and_body_pass_through_at_once(
    server: UpstreamServer, connect: Connect, status: int
) -> None:
    server.enqueue(error_reply(status, message="the model's own words"))
    with pytest.raises(UpstreamStatusError) as caught:
        await call(await connect())
    assert caught.value.upstream_status == status
    assert b"the model's own words" in caught.value.body
    assert caught.value.headers["content-type"] == "application/json"
    assert caught.value.attempts == 1
    assert len(server.requests) == 1


async def test_error_body_in_brotli_is_readable(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(json_reply({"error": {"message": "no"}}, status=400, encoding="br"))
    with pytest.raises(UpstreamStatusError) as caught:
        await call(await connect())
    assert caught.value.body == b'{"error": {"message": "no"}}'


async def test_endless_error_body_does_not_fill_the_memory(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(json_reply(b"x" * 500_000, status=400))
    with pytest.raises(UpstreamStatusError) as caught:
        await call(await connect(max_error_bytes=1_000))
    assert len(caught.value.body) == 1_000


async def test_key_is_not_sent_on_to_where_a_redirect_points(server: UpstreamServer, connect: Connect) -> None:
    async with UpstreamServer() as other:
        server.enqueue(raw_reply(head(307, [("location", other.base_url), ("content-length", "0")])))
        with pytest.raises(UpstreamProtocolError, match="base_url"):
            await call(await connect())
        assert other.requests == []


async def test_server_that_is_not_there_is_named(server: UpstreamServer, connect: Connect) -> None:
    upstream = await connect()
    origin = server.base_url.removesuffix("/v1")
    await server.stop()
    with pytest.raises(UpstreamUnreachableError) as caught:
        await call(upstream)
    assert origin in caught.value.message
    assert caught.value.attempts == 3


async def test_full_pool_says_that_no_connection_was_free(server: UpstreamServer, connect: Connect) -> None:
    gate = asyncio.Event()
    server.enqueue(sse_reply(chat_events("Hello"), gates={1: gate}))
    upstream = await connect(connections=1, timeouts=UpstreamTimeouts(connect_s=0.05), retries=RetryPolicy(attempts=1))
    async with upstream.send(ask(stream=True)) as reply:
        with pytest.raises(UpstreamTimeoutError, match="connect"):
            await call(upstream)
        gate.set()
        assert texts(await everything(reply)) == {0: "Hello"}


# ------------------------------------------------- retries


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_passing_failure_of_the_upstream_costs_the_user_nothing(
    server: UpstreamServer, connect: Connect, status: int
) -> None:
    server.enqueue(error_reply(status, retry_after="0"), json_reply(completion("second")))
    upstream = await connect()
    async with upstream.send(ask(headers={"idempotency-key": "k-9"})) as reply:
        assert texts(await everything(reply)) == {0: "second"}
    assert [(attempt.status, attempt.error) for attempt in reply.attempts] == [(status, "upstream_status"), (200, "")]
    assert [received.headers["idempotency-key"] for received in server.requests] == ["k-9", "k-9"]


@pytest.mark.parametrize("how", [FIN, RESET])
async def test_connection_lost_before_the_first_byte_is_tried_again(
    server: UpstreamServer, connect: Connect, how: Any
) -> None:
    server.enqueue(raw_reply(how), json_reply(completion("second")))
    upstream = await connect()
    async with upstream.send(ask()) as reply:
        assert texts(await everything(reply)) == {0: "second"}
    assert [attempt.status for attempt in reply.attempts] == [None, 200]


async def test_tries_end_and_the_last_error_reaches_the_client(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(error_reply(500), error_reply(502), error_reply(503, message="still down"))
    with pytest.raises(UpstreamStatusError) as caught:
        await call(await connect())
    assert caught.value.upstream_status == 503
    assert caught.value.attempts == 3


@pytest.mark.parametrize("stream", [True, False])
async def test_answer_that_has_begun_is_never_asked_for_twice(
    server: UpstreamServer, connect: Connect, stream: bool
) -> None:
    begun = sse_reply(chat_events("Hello"), cut_after=1, cut=RESET) if stream else json_reply(completion(), truncate=9)
    server.enqueue(begun)
    with pytest.raises(UpstreamProtocolError):
        await call(await connect(), stream=stream)
    assert len(server.requests) == 1


async def test_server_that_forbids_a_retry_is_obeyed(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(json_reply({"error": {}}, status=503, headers=[("x-should-retry", "false")]))
    with pytest.raises(UpstreamStatusError):
        await call(await connect())
    assert len(server.requests) == 1


async def test_wait_that_would_outlast_the_deadline_is_left_to_the_client(
    server: UpstreamServer, connect: Connect
) -> None:
    server.enqueue(error_reply(429, retry_after="30"))
    with pytest.raises(UpstreamStatusError) as caught:
        await call(await connect(timeouts=UpstreamTimeouts(total_s=5.0)))
    assert caught.value.headers["retry-after"] == "30"
    assert len(server.requests) == 1


# ------------------------------------------------- connections


@pytest.mark.parametrize(
    "reply",
    [
        json_reply(completion()),
        json_reply(completion(), encoding="gzip"),
        sse_reply(chat_events("Hello")),
        sse_reply(chat_events("Hello"), done=False),
    ],
)
async def test_finished_answers_share_one_connection(server: UpstreamServer, connect: Connect, reply: Reply) -> None:
    upstream = await connect()
    for _ in range(5):
        server.enqueue(reply)
        await call(upstream, stream=True)
        await server.requests[-1].finished.wait()
        await asyncio.gather(*upstream._draining)
    assert server.connections == 1


async def test_end_of_the_body_after_done_does_not_delay_the_client_but_keeps_the_connection(
    server: UpstreamServer, connect: Connect
) -> None:
    gate = asyncio.Event()
    parts = sse_reply(chat_events("Hello")).steps
    server.enqueue(raw_reply(*parts[:-1], gate, parts[-1]), json_reply(completion()))
    upstream = await connect()
    await call(upstream, stream=True)
    gate.set()
    await asyncio.gather(*upstream._draining)
    await call(upstream)
    assert server.connections == 1


async def test_error_answers_give_their_connection_back(server: UpstreamServer, connect: Connect) -> None:
    server.enqueue(error_reply(500), error_reply(500))
    await call(await connect())
    assert server.connections == 1


async def test_connection_that_the_server_closed_meanwhile_costs_no_answer(
    server: UpstreamServer, connect: Connect
) -> None:
    upstream = await connect()
    server.enqueue(raw_reply(*json_reply(completion()).steps, FIN))
    await call(upstream)
    await server.requests[0].closed.wait()
    await call(upstream)
    assert server.connections == 2


# ------------------------------------------------- the client goes away


STAGES: dict[str, Reply] = {
    "before the headers": raw_reply(asyncio.Event()),
    "before the first event": sse_reply(chat_events("Hello"), gates={0: asyncio.Event()}),
    "in the middle": sse_reply(chat_events("Hello"), gates={2: asyncio.Event()}),
    "before the body of a plain answer": json_reply(completion(), gate=asyncio.Event()),
}


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES.keys())
async def test_model_stops_within_a_second_when_the_client_goes_away(
    server: UpstreamServer, connect: Connect, stage: Reply
) -> None:
    server.enqueue(stage)
    task = asyncio.create_task(call(await connect(), stream=True))
    received = await server.request(0)
    task.cancel()
    async with asyncio.timeout(1):
        await received.closed.wait()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_model_stops_within_a_second_when_the_answer_is_left_half_read(
    server: UpstreamServer, connect: Connect
) -> None:
    server.enqueue(sse_reply(chat_events("Hello"), gates={3: asyncio.Event()}))
    upstream = await connect()
    async with upstream.send(ask(stream=True)) as reply:
        await anext(aiter(reply.deltas))
    async with asyncio.timeout(1):
        await server.requests[0].closed.wait()


async def test_upload_still_under_way_stops_when_the_answer_is_left(connect: Connect) -> None:
    body = b" " * 30_000_000
    left, counted = asyncio.Event(), asyncio.Event()
    received = 0

    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers before it has read the request, and reads on only when the client has left."""
        nonlocal received
        for step in sse_reply(chat_events("Hello"), cut_after=1).steps:
            if isinstance(step, bytes):
                writer.write(step)
        await left.wait()
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65536):
                received += len(piece)
        counted.set()
        writer.close()

    listener = await asyncio.start_server(hasty, "127.0.0.1", 0, limit=1024)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        upstream = await connect(base_url=f"http://127.0.0.1:{port}/v1")
        async with upstream.send(ask(body=body, stream=True)) as reply:
            await anext(aiter(reply.deltas))
        left.set()
        async with asyncio.timeout(1):
            await counted.wait()
    assert received < len(body)


async def test_no_further_try_is_made_for_a_client_that_went_away(server: UpstreamServer, connect: Connect) -> None:
    server.default = error_reply(503, retry_after="20")
    task = asyncio.create_task(call(await connect()))
    received = await server.request(0)
    await received.finished.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(server.requests) == 1


async def test_closing_the_upstream_closes_every_connection(server: UpstreamServer, connect: Connect) -> None:
    upstream = await connect()
    await call(upstream)
    await upstream.aclose()
    async with asyncio.timeout(1):
        await server.requests[0].closed.wait()


# ------------------------------------------------- trust


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def bundle(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


def context_for(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("localhost",))).configure_cert(context)
    return context


async def test_private_authority_is_trusted_only_when_named(
    authority: trustme.CA, bundle: Path, connect: Connect
) -> None:
    async with UpstreamServer(ssl=context_for(authority)) as secure:
        secure.enqueue(sse_reply(chat_events("Hello"), split=7))
        reply = await call(await connect(base_url=secure.base_url, ca_bundle=bundle), stream=True)
        assert reply.status == 200
        with pytest.raises(UpstreamUnreachableError, match="ca_bundle") as caught:
            await call(await connect(base_url=secure.base_url))
        assert caught.value.attempts == 1
        assert len(secure.requests) == 1


async def test_certificate_of_another_host_is_refused(authority: trustme.CA, bundle: Path, connect: Connect) -> None:
    async with UpstreamServer(ssl=context_for(authority, "other.example")) as secure:
        with pytest.raises(UpstreamUnreachableError, match="certificate"):
            await call(await connect(base_url=secure.base_url, ca_bundle=bundle))
        assert secure.requests == []


async def test_verification_can_be_switched_off_for_a_laboratory(authority: trustme.CA, connect: Connect) -> None:
    async with UpstreamServer(ssl=context_for(authority)) as secure:
        await call(await connect(base_url=secure.base_url, verify=False))
        assert len(secure.requests) == 1


async def test_server_that_asks_for_a_client_certificate_gets_ours(
    authority: trustme.CA, bundle: Path, tmp_path: Path, connect: Connect
) -> None:
    context = context_for(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    client = authority.issue_cert("gateway@example.org")
    client.private_key_pem.write_to_path(tmp_path / "key.pem")
    client.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    async with UpstreamServer(ssl=context) as secure:
        files = {"client_certificate": tmp_path / "cert.pem", "client_key": tmp_path / "key.pem"}
        await call(await connect(base_url=secure.base_url, ca_bundle=bundle, **files))
        with pytest.raises(UpstreamError):
            await call(await connect(base_url=secure.base_url, ca_bundle=bundle))
        assert len(secure.requests) == 1


async def test_model_stops_when_the_client_goes_away_over_tls_too(
    authority: trustme.CA, bundle: Path, connect: Connect
) -> None:
    async with UpstreamServer(ssl=context_for(authority)) as secure:
        secure.enqueue(sse_reply(chat_events("Hello"), gates={2: asyncio.Event()}))
        task = asyncio.create_task(call(await connect(base_url=secure.base_url, ca_bundle=bundle), stream=True))
        received = await secure.request(0)
        task.cancel()
        async with asyncio.timeout(1):
            await received.closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("name", ["ca_bundle", "client_certificate"])
async def test_tls_file_that_does_not_work_is_named_at_the_start(
    server: UpstreamServer, connect: Connect, tmp_path: Path, name: str
) -> None:
    (tmp_path / "broken.pem").write_text("not a certificate")
    for path in (tmp_path / "broken.pem", tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match=path.name):
            await connect(**{name: path})


async def test_outbound_proxy_is_used_with_its_credentials(server: UpstreamServer, connect: Connect) -> None:
    async with UpstreamServer() as proxy:
        address = f"http://user:proxy-password@127.0.0.1:{proxy.port}"
        await call(await connect(base_url="http://model.example/v1", proxy=address))
    [received] = proxy.requests
    assert received.path == "http://model.example/v1/chat/completions"
    assert received.headers["proxy-authorization"].startswith("Basic ")
    assert server.requests == []


# ------------------------------------------------- secrets


def everywhere(error: BaseException) -> str:
    """All that a log could show of an error: message, repr, traceback, chained errors and their reprs."""
    shown = ["".join(traceback.format_exception(error))]
    seen: BaseException | None = error
    while seen is not None:
        shown += [repr(seen), str(seen), repr(vars(seen))]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(shown)


async def test_no_key_shows_in_any_error_repr_or_attempt(server: UpstreamServer, connect: Connect) -> None:
    secret: dict[str, Any] = {"headers": {"x-secret": "s3cret-header"}}
    closed_proxy = "http://user:proxy-password@127.0.0.1:1"
    upstreams = [
        await connect(**secret),
        await connect(**secret, proxy=closed_proxy),
        await connect(
            **secret, proxy=f"http://user:proxy-password@127.0.0.1:{server.port}", base_url="https://m.example"
        ),
        await connect(**secret, base_url="http://127.0.0.1:1/v1"),
    ]
    server.default = error_reply(407)
    request = replace(ask(), authorization="Bearer sk-theirs")
    shown = [repr(request)]
    for upstream in upstreams:
        with pytest.raises(UpstreamError) as caught:
            async with upstream.send(request):
                pass
        shown += [everywhere(caught.value), repr(upstream), repr(upstream._settings), repr(upstream.send(request))]
    server.default = raw_reply(RESET)
    with pytest.raises(UpstreamError) as caught:
        await call(upstreams[0])
    shown.append(everywhere(caught.value))
    server.enqueue(error_reply(500), json_reply(completion()))
    shown.append(repr(await call(upstreams[0])))
    assert not [word for word in SECRETS if word in "\n".join(shown)]


def test_base_url_with_credentials_is_refused_without_repeating_them() -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAISettings(base_url="https://user:proxy-password@host/v1")
    assert "proxy-password" not in str(caught.value)


def test_upstream_keeps_to_the_protocol() -> None:
    upstream = OpenAIUpstream(OpenAISettings(base_url="http://h/v1", retries=AT_ONCE), "n")
    assert isinstance(upstream, Upstream)
    assert upstream.name == "n"

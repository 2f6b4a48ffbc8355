"""What clients send, well formed and not: it reaches the upstream as it came, or gets an error that says what to do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import openai
import pytest

from tests.acceptance.asking import BOTH, ask, body, user
from tests.acceptance.conftest import House
from tests.servers.upstream import chat_events, completion, json_reply, sse_reply

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

EVERYTHING: dict[str, Any] = {
    "model": "gpt-next",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": [{"type": "text", "text": "Be kind.", "prompt_cache_breakpoint": True}]},
        {"role": "user", "name": "ann", "content": "Hi \u0000\ud83d\ude81"},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1.50}'}},
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "7"}]},
        {"role": "tool", "tool_call_id": "c2", "content": "8"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_id": "file-1"}},
            ],
        },
    ],
    "n": 1,
    "temperature": 0.70,
    "top_p": 1e0,
    "logit_bias": {"50256": -100},
    "tools": [
        {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "g", "format": {"type": "text"}}},
    ],
    "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
    "parallel_tool_calls": False,
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}},
    "reasoning_effort": "xhigh",
    "verbosity": "low",
    "moderation": {"policy": {"input": {"mode": "score"}}},
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
    "safety_identifier": "u1",
    "metadata": {"a": "b"},
    "prediction": {"type": "content", "content": "x"},
    "modalities": ["text"],
    "web_search_options": {},
    "seed": 12345678901234567890,
    "store": False,
    "service_tier": "auto",
    "stop": ["\n\n"],
    "zukunft": {"größe": 1.0},
}


@pytest.mark.parametrize("stream", BOTH)
async def test_every_field_of_todays_api_reaches_the_upstream_byte_for_byte(house: House, stream: bool) -> None:
    """open-webui #16531 and the many gateways that drop what they do not know."""
    sent = json.dumps({**EVERYTHING, "stream": stream}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    sent = sent.replace(b"\xed\xa0\xbd\xed\xba\x81", "🚁".encode())
    house.upstream.enqueue(sse_reply(chat_events("ok")) if stream else json_reply(completion("ok")))
    response = await house.http.post("/r/plain/v1/chat/completions", content=sent)
    assert response.status_code == 200
    received = (await house.upstream.request(0)).body
    assert json.loads(received) == json.loads(sent)
    for fragment in (b'"temperature":0.7,', b'"top_p":1.0,', b"12345678901234567890", b'"{\\"a\\": 1.50}"'):
        assert fragment in received
    start = sent.index(b'"messages": ') + len(b'"messages": ')
    assert sent[start : sent.index(b', "n": 1')] in received


async def test_headers_that_matter_pass_and_credentials_do_not(house: House) -> None:
    headers = {
        "x-request-id": "req-77",
        "idempotency-key": "once",
        "openai-organization": "org-1",
        "anthropic-beta": "x",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "cookie": "session=secret",
        "x-forwarded-for": "10.0.0.1",
    }
    await house.http.post("/r/plain/v1/chat/completions", json=body(), headers=headers)
    received = (await house.upstream.request(0)).headers
    for name in ("x-request-id", "idempotency-key", "openai-organization", "anthropic-beta", "traceparent"):
        assert received[name] == headers[name]
    assert "cookie" not in received
    assert "x-forwarded-for" not in received
    assert "gg-everything" not in json.dumps(received)


@pytest.mark.parametrize("stream", BOTH)
async def test_the_request_id_of_a_client_comes_back_once_and_is_in_ledger_and_log(house: House, stream: bool) -> None:
    reply = sse_reply(chat_events("ok"), headers=[("x-request-id", "req-upstream")])
    plain = json_reply(completion("ok"), headers=[("x-request-id", "req-upstream")])
    house.upstream.enqueue(*[reply if stream else plain] * 2)
    own = f"client-7/{stream}"
    said = await ask(house.client("plain"), stream=stream, extra_headers={"x-request-id": own})
    assert said.headers["x-request-id"] == own
    assert (await house.record(said.exchange))["request_id"] == own
    async with asyncio.timeout(90):
        while own not in house.gateway.output:
            await asyncio.sleep(0.02)
    # A client that names none gets the upstream's, which its support will ask for.
    said = await ask(house.client("plain"), stream=stream)
    assert said.headers["x-request-id"] == "req-upstream"


async def test_an_error_names_the_request_that_it_answers(house: House) -> None:
    headers = {"x-request-id": "mine-1"}
    response = await house.http.post("/r/plain/v1/chat/completions", content=b"{", headers=headers)
    assert (response.status_code, response.headers["x-request-id"]) == (400, "mine-1")
    response = await house.http.post("/r/nowhere/v1/embeddings", content=b"{}", headers=headers)
    assert (response.status_code, response.headers["x-request-id"]) == (404, "mine-1")
    hostile = {"x-request-id": "a b\tc{}" + "x" * 500}
    response = await house.http.post("/r/plain/v1/chat/completions", json=body(), headers=hostile)
    assert "x-request-id" not in response.headers
    assert (await house.record(response.headers["x-grounding-exchange"]))["request_id"] is None


# -- bad input ---------------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[bytes, int, str, str | None]] = {
    "nothing": (b"", 400, "invalid_json", None),
    "half an object": (b'{"model": "m", "messages": [', 400, "invalid_json", None),
    "a list": (b"[]", 400, "invalid_type", None),
    "null": (b"null", 400, "invalid_type", None),
    "no messages": (b'{"model": "m"}', 400, "missing_required_parameter", "messages"),
    "messages of text": (b'{"messages": "hi"}', 400, "invalid_type", "messages"),
    "empty messages": (b'{"messages": []}', 400, "empty_array", "messages"),
    "a message of text": (b'{"messages": ["hi"]}', 400, "invalid_type", "messages[0]"),
    "n of text": (b'{"messages": [{"role": "user"}], "n": "two"}', 400, "invalid_type", "n"),
    "n of millions": (b'{"messages": [{"role": "user"}], "n": 1000000}', 400, "invalid_value", "n"),
    "stream of text": (b'{"messages": [{"role": "user"}], "stream": "yes"}', 400, "invalid_type", "stream"),
    "model of numbers": (b'{"messages": [{"role": "user"}], "model": 7}', 400, "invalid_type", "model"),
    "invalid UTF-8": (b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}', 400, "invalid_utf8", None),
    "a key twice": (b'{"model": "a", "model": "b", "messages": [{"role": "user"}]}', 400, "duplicate_key", None),
    "deep nesting": (b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "", None),
    "NaN": (b'{"messages": [{"role": "user"}], "temperature": NaN}', 400, "invalid_json", None),
    "a million tiny messages": (b'{"messages": [' + b"{}," * 999_999 + b"{}]}", 413, "request_too_large", None),
    "too many bytes": (b'{"messages": "' + b"x" * 4_000_001 + b'"}', 413, "request_too_large", None),
}


@pytest.mark.parametrize("route", ["plain", "grounded-checked"])
@pytest.mark.parametrize("kind", BAD)
async def test_bad_input_gets_a_clear_error_in_openais_envelope(house: House, kind: str, route: str) -> None:
    sent, status, code, param = BAD[kind]
    response = await house.http.post(f"/r/{route}/v1/chat/completions", content=sent)
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert not code or error["code"] == code
    assert param is None or error["param"] == param
    assert len(error["message"]) < 500
    assert response.headers["x-should-retry"] == "false"
    assert house.upstream.requests == []


async def test_a_message_without_a_role_is_refused_where_the_conversation_is_read(house: House) -> None:
    response = await house.http.post("/r/grounded/v1/chat/completions", json={"messages": [{"content": "hi"}]})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "messages[0].role")


async def test_a_body_of_50_megabytes_is_refused_without_being_read(house: House) -> None:
    """The connection may be closed under the client, but never before it could have read why."""
    response = await house.http.post("/r/plain/v1/chat/completions", content=b"x" * 50_000_000)
    assert response.status_code == 413
    assert "max_body_bytes" in response.json()["error"]["message"]


async def test_a_body_without_a_declared_length_is_bounded_as_well(house: House) -> None:
    async def endless() -> Any:
        for _ in range(100):
            yield b" " * 65_536

    response = await house.http.post("/r/plain/v1/chat/completions", content=endless())
    assert response.status_code == 413
    assert (await house.http.get("/healthz")).status_code == 200


async def test_the_same_connection_serves_on_after_every_kind_of_error(house: House) -> None:
    for content in (b"{", b"[]", json.dumps(body()).encode()):
        response = await house.http.post("/r/plain/v1/chat/completions", content=content)
    assert response.status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_wrong_method_is_told(house: House, method: str) -> None:
    response = await house.http.request(method, "/r/plain/v1/chat/completions")
    assert response.status_code in (400, 405)
    assert "POST" in response.json()["error"]["message"]


async def test_unknown_routes_and_models_are_named_in_a_404(house: House) -> None:
    response = await house.http.post("/r/nowhere/v1/chat/completions", json=body())
    assert response.status_code == 404
    assert "nowhere" in response.json()["error"]["message"]
    with pytest.raises(openai.NotFoundError) as caught:
        await house.openai.models.retrieve("nothing-of-the-kind")
    assert caught.value.code == "model_not_found"
    response = await house.http.get("/nothing/here")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


async def test_a_route_is_chosen_by_its_name_as_model_or_by_its_path(house: House) -> None:
    by_model = await ask(house.client(), stream=False, model="renamed")
    by_path = await ask(house.client("renamed"), stream=False, model="whatever")
    by_default = await ask(house.client(), stream=False, model="some-model")
    assert [request.json["model"] for request in house.upstream.requests] == [
        "model-behind",
        "model-behind",
        "some-model",
    ]
    routes = [(await house.record(said.exchange))["route"] for said in (by_model, by_path, by_default)]
    assert routes == ["renamed", "renamed", "plain"]


async def test_the_official_helpers_for_structured_output_work_through_the_gateway(house: House) -> None:
    from pydantic import BaseModel

    class Weight(BaseModel):
        kg: float

    house.upstream.enqueue(json_reply(completion('{"kg": 3}')), sse_reply(chat_events('{"kg": 3}')))
    parsed = await house.client("plain").chat.completions.parse(model="m", messages=user(), response_format=Weight)  # type: ignore[arg-type]
    assert parsed.choices[0].message.parsed == Weight(kg=3)
    manager = house.client("plain").chat.completions.stream(model="m", messages=user(), response_format=Weight)  # type: ignore[arg-type]
    async with manager as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.parsed == Weight(kg=3)


ENDLESS = {
    "a header": b"GET /healthz HTTP/1.1\r\nx: ",
    "an address": b"GET /",
    "trailers": b"POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ",
}


@pytest.mark.parametrize("kind", ENDLESS)
async def test_a_stranger_cannot_fill_the_memory_with_what_is_no_body(house: House, kind: str) -> None:
    host, _, port = house.base_url.partition("://")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(ENDLESS[kind])
    sent = 0
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(90):
            while not reader.at_eof() and not writer.is_closing():
                writer.write(b"a" * 65_536)
                sent += 65_536
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.001):
                        await reader.read(1000)
    writer.close()
    assert sent < 50_000_000
    assert (await house.http.get("/healthz")).status_code == 200


async def test_an_address_or_a_header_that_is_too_long_is_told_so(house: House) -> None:
    host, _, port = house.base_url.partition("://")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    # Little more than the bound: what a closed connection had not read yet would cost its client the answer.
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 65_536)
    await writer.drain()
    status, _, rest = (await reader.read(1_000)).partition(b"\r\n")
    writer.close()
    assert status == b"HTTP/1.1 431 Request Header Fields Too Large"
    assert b'"code":"request_too_large"' in rest

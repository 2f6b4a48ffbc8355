"""A client that goes away: the model stops within a second, at every stage, and one record says what happened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.acceptance.asking import BOTH, body
from tests.acceptance.conftest import House
from tests.acceptance.settings import KEY
from tests.servers.upstream import chat_events, completion, json_reply, raw_reply, sse_reply

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

WITHIN_S = 1.0


@asynccontextmanager
async def request(
    house: House, route: str, *, stream: bool, request_id: str, reset: bool
) -> AsyncGenerator[asyncio.StreamReader, None]:
    """A request on a connection of its own, which is closed (or reset) at the end of the block."""
    host, port = house.base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    content = json.dumps(body(stream=stream)).encode()
    head = (
        f"POST /r/{route}/v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\nx-request-id: {request_id}\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    writer.write(head.encode() + content)
    await writer.drain()
    try:
        yield reader
    finally:
        if reset:
            writer.transport.abort()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def record_of(house: House, request_id: str) -> dict[str, object]:
    """The one record of a request that got no answer to name it."""
    item = await house.latest(request_id=request_id)
    return await house.record(item["id"])


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("route", ["plain", "held-block", "sentence-filter", "grounded-checked"])
async def test_a_client_that_leaves_before_the_first_byte_stops_the_model(
    house: House, route: str, stream: bool, reset: bool
) -> None:
    """BerriAI/litellm #13774, #37140: the upstream went on generating for nobody."""
    house.upstream.enqueue(raw_reply(asyncio.Event()))
    name = f"early-{route}-{stream}-{reset}"
    async with request(house, route, stream=stream, request_id=name, reset=reset):
        received = await house.upstream.request(0)
    await asyncio.wait_for(received.closed.wait(), WITHIN_S)
    record = await record_of(house, name)
    assert (record["outcome"], record["status"]) == ("client_closed", 499)


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("route", ["plain", "live-annotate", "held-block", "sentence-filter", "detached-annotate"])
async def test_a_client_that_leaves_in_the_middle_of_an_answer_stops_the_model(
    house: House, route: str, stream: bool
) -> None:
    """BerriAI/litellm #30223, #31499; litestar #3607: a disconnect inside a stream goes unseen."""
    events = chat_events("The Falcon weighs 3 kg. It flies 40 km. It was sold in 2019.", pieces=8)
    reached = asyncio.Event()
    reply = sse_reply(events, gates={4: asyncio.Event()})
    gate = next(i for i, step in enumerate(reply.steps) if isinstance(step, asyncio.Event))
    house.upstream.enqueue(raw_reply(*reply.steps[:gate], lambda _: reached.set(), *reply.steps[gate:]))
    name = f"middle-{route}-{stream}"
    async with request(house, route, stream=stream, request_id=name, reset=False) as reader:
        received = await house.upstream.request(0)
        await reached.wait()
        if stream and route in {"plain", "live-annotate", "detached-annotate"}:
            await reader.readuntil(b"Falc")
    await asyncio.wait_for(received.closed.wait(), WITHIN_S)
    record = await record_of(house, name)
    assert (record["outcome"], record["check_status"]) == ("client_closed", "not_checked")
    checked = route != "plain"
    assert not checked or record["check_reason"] == "client_closed"


@pytest.mark.parametrize("stream", BOTH)
@pytest.mark.parametrize("route", ["live-annotate", "held-block", "sentence-filter", "held-repair"])
async def test_a_client_that_leaves_during_the_check_stops_the_judge(house: House, route: str, stream: bool) -> None:
    """BerriAI/litellm #37140: also while a guard runs."""
    text = "Its stalling weight is 3 kg."
    house.upstream.enqueue(sse_reply(chat_events(text)) if stream else json_reply(completion(text)))
    name = f"check-{route}-{stream}"
    async with request(house, route, stream=stream, request_id=name, reset=False):
        await house.judge.asked.wait()
    await asyncio.wait_for(house.judge.released.wait(), WITHIN_S)
    record = await record_of(house, name)
    assert (record["outcome"], record["status"], record["check_reason"]) == ("client_closed", 499, "client_closed")


async def test_a_client_that_leaves_before_its_request_is_whole_costs_nothing(house: House) -> None:
    host, port = house.base_url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer " + KEY.encode() +
        b"\r\ncontent-length: 5000\r\n\r\n{"
    )  # fmt: skip
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await house.http.post("/r/plain/v1/chat/completions", json=body())).status_code == 200
    assert len(house.upstream.requests) == 1
    assert (await house.http.get("/readyz")).json()["ledger"]["open"] == 0


async def test_a_detached_check_goes_on_when_its_client_has_its_answer_and_leaves(house: House) -> None:
    house.upstream.enqueue(json_reply(completion("Its stalling weight is 3 kg.")))
    async with request(house, "detached-annotate", stream=False, request_id="detached-gone", reset=False) as reader:
        await reader.readuntil(b"stalling")
        await house.judge.asked.wait()
    house.judge.let_go.set()
    record = await record_of(house, "detached-gone")
    assert (record["outcome"], record["check_status"]) == ("completed", "passed")


@pytest.mark.parametrize("stream", BOTH)
async def test_a_forwarded_request_is_dropped_with_its_client(house: House, stream: bool) -> None:
    host, port = house.base_url.removeprefix("http://").split(":")
    house.upstream.enqueue(
        sse_reply(["one", "two"], gates={1: asyncio.Event()}) if stream else raw_reply(asyncio.Event())
    )
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST /r/files/v1/responses HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {KEY}\r\n"
        f"x-request-id: forwarded-{stream}\r\ncontent-length: 2\r\n\r\n{{}}".encode()
    )
    received = await house.upstream.request(0)
    writer.close()
    await writer.wait_closed()
    await asyncio.wait_for(received.closed.wait(), WITHIN_S)
    assert (await record_of(house, f"forwarded-{stream}"))["outcome"] == "client_closed"


async def test_a_hundred_clients_that_leave_at_once_leave_nothing_behind(house: House) -> None:
    for _ in range(100):
        house.upstream.enqueue(sse_reply(chat_events("It weighs 3 kg."), gates={2: asyncio.Event()}))

    async def leave(number: int) -> None:
        async with request(house, "plain", stream=True, request_id=f"crowd-{number}", reset=number % 2 == 0) as reader:
            await reader.readuntil(b"data: ")

    await asyncio.gather(*(leave(number) for number in range(100)))
    for number in range(100):
        await asyncio.wait_for(house.upstream.requests[number].closed.wait(), 5)
    expected = {f"crowd-{number}": "client_closed" for number in range(100)}
    outcomes: dict[str, str] = {}
    async with asyncio.timeout(90):
        while len(outcomes) < len(expected):
            listed = (await house.http.get("/v1/exchanges", params={"limit": 500})).json()["data"]
            outcomes = {i["request_id"]: i["outcome"] for i in listed if (i["request_id"] or "").startswith("crowd-")}
    assert outcomes == expected
    assert (await house.http.get("/readyz")).json()["ledger"]["open"] == 0
    metrics = (await house.http.get("/metrics")).text
    # The one request that is being served is this question itself, which is not counted.
    assert "grounding_requests_in_flight 0.0" in metrics

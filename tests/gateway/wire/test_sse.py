"""The event stream grammar, whatever way the network cuts it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai._streaming import SSEDecoder

from gateway.errors import UpstreamProtocolError
from gateway.wire import sse

PAYLOAD = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    lambda text: text.strip(" ") == text
)


def decode(data: bytes, cuts: list[int], limit: int = sse.MAX_EVENT_BYTES) -> list[bytes]:
    decoder = sse.SseDecoder(limit)
    out: list[bytes] = []
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        out += decoder.feed(data[start:end])
    return out + decoder.finish()


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Bytes of a stream and the payloads that it carries."""
    end = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    out, payloads = b"", []
    if draw(st.booleans()):
        out += b"\xef\xbb\xbf"
    for _ in range(draw(st.integers(0, 6))):
        lines = draw(st.lists(PAYLOAD, min_size=0, max_size=3))
        noise = draw(st.sampled_from([b"", b": comment", b"id: 7", b"retry: 10", b"unknown", b"event: message"]))
        if noise:
            out += noise + end
        for line in lines:
            out += b"data:" + draw(st.sampled_from([b"", b" "])) + line.encode() + end
        out += end * draw(st.integers(1, 2))
        if lines:
            payloads.append("\n".join(lines).encode())
    return out, payloads


@given(streams(), st.lists(st.integers(0, 400), max_size=12))
def test_no_event_is_lost_or_changed_however_the_network_cuts_the_stream(
    stream: tuple[bytes, list[bytes]], cuts: list[int]
) -> None:
    data, payloads = stream
    assert decode(data, cuts) == payloads
    assert decode(data, list(range(len(data)))) == payloads


@given(st.binary(max_size=120) | st.text("data: \r\n:x{}", max_size=80).map(str.encode), st.lists(st.integers(0, 120)))
def test_any_bytes_give_the_same_events_in_any_split(data: bytes, cuts: list[int]) -> None:
    assert decode(data, cuts) == decode(data, [])


@given(st.lists(st.integers(0, 60), max_size=5), st.integers(1, 60))
def test_an_event_over_the_limit_is_refused_in_any_split_and_those_before_it_still_arrive(
    cuts: list[int], size: int
) -> None:
    data = b'data: {"a":1}\n\ndata: ' + b"x" * size + b"\n\n"
    decoder = sse.SseDecoder(30)
    out: list[bytes] = []
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]

    def run() -> None:
        for start, end in pairwise(edges):
            out.extend(decoder.feed(data[start:end]))
        out.extend(decoder.finish())

    if len(b"data: ") + size > 30:
        with pytest.raises(UpstreamProtocolError, match="larger than 30 bytes"):
            run()
        assert out == [b'{"a":1}']
    else:
        run()
        assert out == [b'{"a":1}', b"x" * size]


def test_many_data_lines_cannot_grow_an_event_past_the_limit() -> None:
    decoder = sse.SseDecoder(100)
    for _ in range(10):
        decoder.feed(b"data: xxxxxxxxx\n")
    with pytest.raises(UpstreamProtocolError) as caught:
        decoder.feed(b"data: xxxxxxxxx\n")
    assert caught.value.code == "upstream_event_too_large"


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r", b"\r\n", b"\n\n"])
def test_an_answer_without_final_newline_is_not_lost(tail: bytes) -> None:
    assert decode(b'data: {"a":1}\n\ndata: [DONE]' + tail, []) == [b'{"a":1}', b"[DONE]"]


def test_an_error_named_only_by_its_event_type_does_not_look_like_an_answer() -> None:
    assert decode(b'event: error\ndata: {"message":"out of memory"}\n\n', []) == [
        b'{"error":{"message":"out of memory"}}'
    ]
    assert decode(b'event: error\ndata: {"error":"x"}\n\ndata: {"a":1}\n\n', []) == [b'{"error":"x"}', b'{"a":1}']


def test_keep_alives_without_data_are_not_taken_for_deltas() -> None:
    assert decode(b": ping\n\ndata:\n\ndata: \n\n:\n\nevent: ping\n\ndata: 1\n\n", []) == [b"1"]


@given(st.lists(PAYLOAD | st.just("a\nb") | st.just("a\r\n\rb"), max_size=5))
def test_every_event_ends_with_a_blank_line_and_the_official_client_reads_it_back(payloads: list[str]) -> None:
    events = [sse.event(payload.encode()) for payload in payloads]
    assert all(event.endswith(b"\n\n") for event in events)
    body = b"".join([sse.comment("keep-alive"), *events, sse.DONE])
    read = [item.data for item in SSEDecoder().iter_bytes(iter([body]))]
    normal = [payload.replace("\r\n", "\n").replace("\r", "\n") for payload in payloads]
    assert read == [*normal, "[DONE]"]
    assert decode(body, []) == [payload.encode() for payload in read]


def test_a_comment_cannot_become_an_event() -> None:
    assert sse.comment("a\ndata: x\n\n") == b": a data: x\n\n"


def test_an_error_event_is_one_the_official_client_raises() -> None:
    (event,) = decode(sse.error_event({"error": {"message": "no", "code": "grounding_failed"}}), [])
    assert json.loads(event)["error"]["code"] == "grounding_failed"
    assert sse.is_done(b"[DONE]")
    assert not sse.is_done(event)

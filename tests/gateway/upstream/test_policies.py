"""The pure parts: which headers cross, where a path leads, when to try again."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ConfigError, RequestError
from gateway.upstream.headers import CREDENTIALS, credential, incoming, outgoing
from gateway.upstream.openai import OpenAISettings
from gateway.upstream.retrying import MAX_HINT_S, FailedTry, RetryPolicy, delay_s, hinted_s
from gateway.upstream.settings import Addresses

HOP_BY_HOP = ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-connection"]
names = st.one_of(
    st.sampled_from([*CREDENTIALS, *HOP_BY_HOP, "content-length", "content-encoding", "set-cookie", "x-request-id"]),
    st.text(string.ascii_letters + "-", min_size=1, max_size=20),
)


@given(st.dictionaries(names, st.text(max_size=10)), st.booleans())
def test_no_credential_or_hop_by_hop_header_ever_crosses(client: dict[str, str], forwarded: bool) -> None:
    sent = outgoing({"authorization": "ours"}, client, forwarded=forwarded)
    received = incoming(client.items(), forwarded=forwarded)
    assert sent["authorization"] == "ours"
    for headers in (sent, received):
        crossed = set(headers) - {"authorization"} if headers is sent else set(headers)
        assert not crossed & {*CREDENTIALS, *HOP_BY_HOP, "content-length", "content-encoding", "set-cookie"}
        assert all(name == name.lower() for name in headers)


@given(st.binary(max_size=30))
def test_header_value_in_any_bytes_can_be_written_to_the_client_or_stays_behind(value: bytes) -> None:
    text = value.decode("utf-8", "surrogateescape")
    received = incoming([("x-request-id", text)])
    if any((byte < 32 and byte != 9) or byte == 127 for byte in value):
        assert received == {}
    else:
        assert received["x-request-id"].encode("latin-1") == value


def test_credential_takes_the_form_the_upstream_asks_for() -> None:
    assert credential("Bearer k", "authorization") == ("authorization", "Bearer k")
    assert credential("bearer k", "api-key") == ("api-key", "k")
    assert credential("k", "api-key") == ("api-key", "k")


# ------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("base", "version", "path", "expected"),
    [
        ("https://api.openai.com/v1", None, "/v1/chat/completions", "https://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/v1/", None, "/v1/chat/completions", "https://api.openai.com/v1/chat/completions"),
        ("http://h:8000", None, "/v1/chat/completions", "http://h:8000/chat/completions"),
        ("http://h/openai/v1", None, "/chat/completions", "http://h/openai/v1/chat/completions"),
        ("http://h/v1", None, "/v1/files?limit=2&after=a%20b", "http://h/v1/files?limit=2&after=a%20b"),
        ("http://h/d/g", "2026-01-01", "/v1/files?a=1", "http://h/d/g/files?api-version=2026-01-01&a=1"),
        ("http://h/v1?tenant=7", "1", "/v1/files", "http://h/v1/files?tenant=7&api-version=1"),
        ("http://h/v1", None, "/v1/files/file-%C3%A4", "http://h/v1/files/file-%C3%A4"),
    ],
)
def test_request_path_leads_under_the_base_url(base: str, version: str | None, path: str, expected: str) -> None:
    assert str(Addresses(OpenAISettings(base_url=base, api_version=version)).url(path)) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../admin",
        "/v1/files/%2e%2e/%2e%2e/admin",
        "/v1/files/..%2f..%2fadmin",
        "/v1/files/%2E%2E%5Cadmin",
        "//evil.example/v1",
        "https://evil.example/v1",
        "/v1/files#x",
        "/v1/a b",
        "/v1/a\r\nx: y",
        "/v1/\u00e4",
        "",
    ],
)
def test_path_cannot_lead_out_of_the_base_url(path: str) -> None:
    with pytest.raises(RequestError):
        Addresses(OpenAISettings(base_url="http://h/tenant/v1")).url(path)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30))
def test_no_path_reaches_another_host_or_tenant(path: str) -> None:
    try:
        url = Addresses(OpenAISettings(base_url="http://h/tenant/v1")).url("/v1/" + path)
    except RequestError:
        return
    assert url.host == "h"
    assert url.raw_path.startswith("/tenant/v1/")
    assert ".." not in url.path.split("/")


@pytest.mark.parametrize("base", ["ftp://h/v1", "h/v1", "http://", "https://key@h/v1"])
def test_base_url_that_cannot_work_is_refused(base: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        OpenAISettings(base_url=base)


# ------------------------------------------------- retries


def failed(**changes: Any) -> FailedTry:
    return FailedTry(**{"number": 1, "status": 503, "remaining_s": 600.0, "now": 0.0, "jitter": 0.5, **changes})


@given(
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(400, 599)),
    st.floats(0, 1000),
    st.floats(0, 1, exclude_max=True),
)
def test_wait_is_bounded_and_ends_before_the_deadline(
    number: int, status: int | None, remaining: float, jitter: float
) -> None:
    policy = RetryPolicy(attempts=10)
    delay = delay_s(policy, failed(number=number, status=status, remaining_s=remaining, jitter=jitter))
    if delay is not None:
        assert 0 <= delay <= policy.max_delay_s
        assert delay < remaining
        assert number < policy.attempts
        assert status is None or status in policy.statuses


def test_waits_grow_and_are_spread() -> None:
    policy = RetryPolicy(attempts=9, base_delay_s=0.5, max_delay_s=8.0)
    longest = [delay_s(policy, failed(number=number, jitter=0.999)) for number in range(1, 8)]
    assert longest == pytest.approx([0.4995, 0.999, 1.998, 3.996, 7.992, 7.992, 7.992])
    assert delay_s(policy, failed(number=5, jitter=0.0)) == 0.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "in a while"}, None),
    ],
)
def test_hint_of_the_server_is_understood(headers: dict[str, str], seconds: float | None) -> None:
    assert hinted_s(headers, 60.0) == seconds
    if seconds is not None:
        assert delay_s(RetryPolicy(), failed(headers=headers, now=60.0)) == seconds


def test_hint_too_long_to_wait_for_goes_to_the_client() -> None:
    assert delay_s(RetryPolicy(), failed(headers={"retry-after": str(MAX_HINT_S + 1)})) is None


def test_server_decides_about_a_status_that_is_not_listed() -> None:
    assert delay_s(RetryPolicy(), failed(status=418)) is None
    assert delay_s(RetryPolicy(), failed(status=418, headers={"x-should-retry": "true"})) is not None
    assert delay_s(RetryPolicy(), failed(headers={"x-should-retry": "false"})) is None

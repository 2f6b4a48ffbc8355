"""Keys: who a caller is, what it may use, and what never shows."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.keys import Keyring, Principal, key_digest, new_key, presented_key
from gateway.config.model import KeyConfig
from gateway.errors import AuthenticationError

ALICE, BOB = "gg-alice-0123456789abcdef", "gg-bob-0123456789abcdef"


def ring(*, loopback: bool = True, more: int = 0) -> Keyring:
    keys = [
        KeyConfig(id="alice", sha256=key_digest(ALICE)),
        KeyConfig(id="bob", sha256=key_digest(BOB), routes=("support",), groups=("staff",), audit=True),
    ]
    keys += [KeyConfig(id=f"k{n}", sha256=key_digest(f"other-key-number-{n}")) for n in range(more)]
    return Keyring(keys, loopback=loopback)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {BOB}"},
        {"authorization": f"bearer  {BOB} "},
        {"x-api-key": BOB},
        {"api-key": BOB},
        {"authorization": "Basic abc", "x-api-key": BOB},
    ],
)
def test_a_key_is_found_wherever_clients_send_it(headers: dict[str, str]) -> None:
    principal = ring().identify(headers)
    assert principal == Principal(
        key_id="bob", routes=frozenset({"support"}), groups=frozenset({"staff"}), audit=True, anonymous=False
    )
    principal.require_known()


@pytest.mark.parametrize("more", [0, 100])
def test_a_key_stays_valid_however_many_there_are(more: int) -> None:
    assert ring(more=more).identify({"x-api-key": ALICE}).key_id == "alice"
    assert ring(more=more).identify({"x-api-key": ALICE + "x"}).key_id is None


def test_a_key_only_opens_its_routes_and_records() -> None:
    alice, bob = (ring().identify({"x-api-key": key}) for key in (ALICE, BOB))
    assert alice.may_use("anything")
    assert bob.may_use("support")
    assert not bob.may_use("billing")
    assert bob.may_audit("support")
    assert not bob.may_audit("billing")
    assert not alice.may_audit("support")


def test_a_missing_key_and_an_unknown_key_are_told_apart_without_saying_the_key() -> None:
    for headers, text in (({}, "no API key was given"), ({"x-api-key": "gg-guess"}, "is not one of this gateway's")):
        stranger = ring().identify(headers)
        assert stranger.anonymous
        assert not stranger.may_use("support")
        assert not stranger.may_audit("support")
        with pytest.raises(AuthenticationError, match=text) as caught:
            stranger.require_known()
        assert "Authorization: Bearer" in caught.value.message
        assert "gg-guess" not in caught.value.message


def test_anybody_may_use_a_passthrough_route_whose_upstream_asks_for_the_key() -> None:
    stranger = ring().identify({"authorization": "Bearer sk-of-the-upstream"})
    assert stranger.may_use("open", passthrough=True)
    assert stranger.groups == frozenset()


def test_without_keys_a_caller_on_this_machine_may_use_all_and_one_elsewhere_nothing() -> None:
    local = Keyring([], loopback=True).identify({"authorization": "Bearer anything-an-sdk-sends"})
    assert local.anonymous
    assert local.may_use("any")
    assert local.may_audit("any")
    local.require_known()
    remote = Keyring([], loopback=False).identify({})
    assert not remote.may_use("any")
    assert remote.may_use("open", passthrough=True)
    with pytest.raises(AuthenticationError, match="has no keys"):
        remote.require_known()


def test_a_key_is_asked_for_on_loopback_too_once_there_is_one() -> None:
    assert not ring(loopback=True).identify({}).may_use("support")


@given(st.text(max_size=60))
def test_no_header_value_is_taken_for_a_key_or_breaks_anything(token: str) -> None:
    if token not in (ALICE, BOB):
        for headers in ({"authorization": token}, {"authorization": f"Bearer {token}"}, {"x-api-key": token}):
            assert ring().identify(headers).key_id is None


def test_half_a_surrogate_pair_in_a_header_is_an_unknown_key() -> None:
    assert ring().identify({"x-api-key": "\udc80"}).key_id is None


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", f"Token {ALICE}"])
def test_a_header_without_a_bearer_token_presents_no_key(value: str) -> None:
    assert presented_key({"authorization": value}) is None


def test_new_keys_are_long_random_and_ours_by_their_looks() -> None:
    keys = {new_key() for _ in range(50)}
    assert len(keys) == 50
    assert all(key.startswith("gg-") and len(key) >= 43 and key.isascii() for key in keys)


def test_a_digest_is_the_plain_sha256_that_any_tool_makes() -> None:
    assert key_digest("gg-x") == hashlib.sha256(b"gg-x").hexdigest()


def test_a_keyring_shows_no_digest() -> None:
    assert key_digest(ALICE) not in repr(ring())


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8080"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "localhost:8080", "origin": "https://evil.example"},
        {"host": "localhost:8080", "origin": "null"},
    ],
)
def test_a_web_page_cannot_use_or_read_a_gateway_without_keys_through_its_visitors_browser(
    headers: dict[str, str],
) -> None:
    caller = Keyring([], loopback=True).identify(headers)
    assert not caller.may_use("support")
    assert not caller.audit
    with pytest.raises(AuthenticationError, match="localhost"):
        caller.require_known()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "localhost:8080"},
        {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:3000"},
        {"host": "[::1]:8080"},
        {"host": "gateway.lan"},
    ],
)
def test_programs_of_this_machine_use_a_gateway_without_keys(headers: dict[str, str]) -> None:
    assert Keyring([], loopback=True, hosts=["gateway.lan"]).identify(headers).may_use("support")

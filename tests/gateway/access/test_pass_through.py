"""What a pass-through route may send to its upstream."""

from __future__ import annotations

import pytest

from gateway.access.keys import Principal
from gateway.api.incoming import own_authorization
from gateway.errors import AuthenticationError


def test_a_key_of_this_gateway_is_never_sent_to_the_upstream_of_a_pass_through_route() -> None:
    with pytest.raises(AuthenticationError):
        own_authorization({"authorization": "Bearer gg-of-ours"}, Principal(key_id="ours"))


def test_a_caller_without_a_key_never_spends_the_operators_on_a_pass_through_route() -> None:
    # "" takes the configured key off the request; None would leave it there.
    assert own_authorization({}, Principal(anonymous=True)) == ""


def test_a_client_of_another_dialect_brings_its_key_in_its_own_header() -> None:
    for name in ("x-api-key", "api-key"):
        assert own_authorization({name: "sk-theirs"}, Principal(anonymous=True)) == "Bearer sk-theirs"

"""Keys, limits and prices in the configuration: what could not hold is refused."""

from __future__ import annotations

import pytest

from tests.gateway.config.files import MINIMAL, look, problems, with_route

KEY = f"keys:\n  - {{id: k, sha256: {'a' * 64}, "


@pytest.mark.parametrize(
    ("key", "place", "holds"),
    [
        ("budget: {usd: 5}}", "keys[0].budget.usd", "needs the price of every model"),
        ("limits: {requests_per_minute: 0}}", "keys[0].limits.requests_per_minute", "must be at least 1"),
        ("limits: {rpm: 5}}", "keys[0].limits.rpm", "unknown key"),
        ("budget: {tokens: 5, per: week}}", "keys[0].budget.per", "must be one of day, month, total"),
        ("expires: '2027-01-31T00:00:00'}", "keys[0].expires", "must have a time zone"),
        ("expires: soon}", "keys[0].expires", "must be a time with a zone"),
    ],
)
def test_a_limit_that_could_not_hold_is_refused_with_its_place(key: str, place: str, holds: str) -> None:
    found = problems(MINIMAL + KEY + key)
    assert any(place in line and holds in line for line in found), found


@pytest.mark.parametrize(
    ("section", "holds"),
    [
        ("{counters: redis}", "counters: redis and redis_url go together"),
        ("{redis_url: 'redis://h'}", "counters: redis and redis_url go together"),
        ("{counters: redis, redis_url: 'http://s3cret@h'}", "must begin with redis://"),
    ],
)
def test_counters_without_a_place_are_refused_and_no_address_is_shown(section: str, holds: str) -> None:
    found = problems(MINIMAL + f"access: {section}\n")
    assert any(holds in line for line in found), found
    assert not any("s3cret" in line for line in found)


def test_a_line_before_places_without_number_is_refused() -> None:
    found = problems(with_route("upstream: real\nload: {queue: 5}"))
    assert any("routes.r.load.queue: without concurrency nobody waits" in line for line in found), found


def test_limits_budgets_and_prices_are_accepted() -> None:
    key = "limits: {requests_per_minute: 5}, budget: {usd: 5}, expires: '2027-01-31T00:00:00Z'}\n"
    assert problems(MINIMAL + KEY + key + "prices: {'*': {prompt: 3, completion: 15}}\n") == []


def test_a_gateway_open_to_the_network_may_have_its_keys_in_the_database() -> None:
    text = MINIMAL + "server: {host: 0.0.0.0}\n"
    assert any("no keys are configured" in line for line in problems(text))
    reading = look(text + "access: {stored_keys: true}\n")
    assert reading.problems == ()

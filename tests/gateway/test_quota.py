"""Rates and budgets as arithmetic: nobody gets more than the limit, and nobody is told a wrong time to come again."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.quota import (
    Ask,
    Correction,
    Period,
    Quota,
    Style,
    Use,
    admit,
    correct,
    period_end,
    token_seconds,
    told,
    waits,
)

NOW = datetime(2026, 11, 30, 22, 15, tzinfo=UTC).timestamp()

gaps = st.lists(st.floats(0.0, 20.0), min_size=1, max_size=60)


@given(st.integers(1, 50), gaps)
def test_no_key_gets_more_requests_than_a_full_bucket_and_its_refill(limit: int, waited: list[float]) -> None:
    quota, use, now, granted = Quota(requests_per_minute=limit), Use(), NOW, 0
    for gap in waited:
        now += gap
        standing = admit(use, quota, Ask(), now)
        use = standing.use
        granted += standing.granted
    assert granted <= limit + (now - NOW) * limit / 60 + 1


@given(
    st.integers(1, 50), st.integers(1, 2_000), st.lists(st.tuples(st.floats(0, 9), st.integers(1, 3_000)), max_size=40)
)
def test_who_comes_at_the_time_it_was_told_is_let_in(
    requests: int, tokens: int, asked: list[tuple[float, int]]
) -> None:
    quota, use, now = Quota(requests_per_minute=requests, tokens_per_minute=tokens), Use(), NOW
    for gap, amount in asked:
        now += gap
        standing = admit(use, quota, Ask(amount), now)
        if not standing.granted:
            assert standing.use == use or use.period == 0.0
            wait = max(waits(standing.use, quota, Ask(amount), now).values())
            assert wait > 0
            early = admit(standing.use, quota, Ask(amount), now + wait * 0.9 - 1e-3)
            assert wait < 0.02 or not early.granted
            now += wait
            standing = admit(standing.use, quota, Ask(amount), now)
            assert standing.granted
        use = standing.use


@given(st.integers(10, 10_000), st.integers(1, 10_000), st.integers(0, 20_000))
def test_an_estimate_is_forgotten_once_the_use_is_known(limit: int, estimate: int, used: int) -> None:
    quota = Quota(tokens_per_minute=limit, budget_tokens=10**9, per=Period.TOTAL)
    taken = admit(Use(), quota, Ask(estimate), NOW).use
    seconds = used * 60 / limit - token_seconds(estimate, quota)
    settled = correct(taken, Correction("k", seconds, used - estimate, 0.0), NOW)
    assert settled.tokens == used
    assert max(0.0, settled.tokens_until - NOW) == pytest.approx(used * 60 / limit, abs=1e-5)


def test_a_budget_serves_the_request_that_crosses_it_and_no_further_one_until_the_month_ends() -> None:
    quota = Quota(budget_tokens=100)
    first = admit(Use(), quota, Ask(150), NOW)
    assert first.granted
    second = admit(first.use, quota, Ask(1), NOW)
    assert not second.granted
    end = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    assert waits(second.use, quota, Ask(1), NOW) == {"budget": end - NOW}
    assert admit(second.use, quota, Ask(1), end).granted


def test_money_runs_out_as_tokens_do() -> None:
    quota = Quota(budget_usd=0.5, per=Period.DAY)
    use = admit(Use(), quota, Ask(1, 0.5), NOW).use
    assert not admit(use, quota, Ask(1, 0.0), NOW).granted
    assert admit(use, quota, Ask(1, 0.0), period_end(Period.DAY, NOW)).granted


def test_a_budget_for_good_never_begins_anew() -> None:
    assert period_end(Period.TOTAL, NOW) == math.inf


def test_clients_are_told_in_the_words_of_their_own_dialect() -> None:
    quota = Quota(requests_per_minute=10, tokens_per_minute=6_000)
    standing = admit(Use(), quota, Ask(600), NOW)
    assert told(standing, quota, Style.OPENAI) == {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "9",
        "x-ratelimit-reset-requests": "6s",
        "x-ratelimit-limit-tokens": "6000",
        "x-ratelimit-remaining-tokens": "5400",
        "x-ratelimit-reset-tokens": "6s",
    }
    assert told(standing, Quota(requests_per_minute=10), Style.ANTHROPIC) == {
        "anthropic-ratelimit-requests-limit": "10",
        "anthropic-ratelimit-requests-remaining": "9",
        "anthropic-ratelimit-requests-reset": "2026-11-30T22:15:06Z",
    }


def test_a_request_larger_than_a_minutes_tokens_is_served_once_the_bucket_is_full() -> None:
    quota = Quota(tokens_per_minute=100)
    first = admit(Use(), quota, Ask(5_000), NOW)
    assert first.granted
    assert not admit(first.use, quota, Ask(1), NOW).granted

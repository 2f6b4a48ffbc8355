"""Pools of upstreams in the configuration: what cannot work is refused before it fails a client."""

from __future__ import annotations

import pytest

from tests.gateway.config.files import MINIMAL, look, problems

TWO = "{kind: pool, members: [{upstream: real, weight: 3}, {upstream: quotes, priority: 1}]}"


def with_pool(section: str, route: str = "retrieval: {collections: [docs]}") -> str:
    text = MINIMAL.replace("collections:\n  docs", f"  main: {section}\ncollections:\n  docs", 1)
    return f"{text}  pooled: {{upstream: main, model: m, {route}}}\n"


def test_a_pool_with_the_documents_as_last_resort_is_accepted() -> None:
    assert problems(with_pool(TWO)) == []


@pytest.mark.parametrize(
    ("section", "route", "key", "holds"),
    [
        (
            "{kind: pool, members: [{upstream: reel}]}",
            "default: true",
            "upstreams.main.members[0].upstream",
            "did you mean `real`?",
        ),
        ("{kind: pool, members: []}", "default: true", "upstreams.main.members", "give at least one"),
        (
            "{kind: pool, members: [{upstream: main}]}",
            "default: true",
            "upstreams.main.members[0].upstream",
            "is a pool, and pools are no members",
        ),
        (
            "{kind: pool, members: [{upstream: real}, {upstream: real}]}",
            "default: true",
            "upstreams.main.members[1].upstream",
            "a member already",
        ),
        (
            "{kind: pool, members: [{upstream: quotes}, {upstream: real, priority: 1}]}",
            "retrieval: {collections: [docs]}",
            "upstreams.main.members[1].upstream",
            "never asked before the extractive member",
        ),
        (TWO, "default: true", "routes.pooled.upstream", "answers from retrieved passages"),
        (
            "{kind: pool, members: [{upstream: real}]}",
            "auth: passthrough",
            "routes.pooled.auth",
            "the caller's own key to every member",
        ),
        (
            "{kind: pool, members: [{upstream: real}], hedge_after: 2}",
            "default: true",
            "upstreams.main.hedge_after",
            "asks a second member",
        ),
        (
            "{kind: pool, members: [{upstream: real}], retries: {statuses: [-1]}}",
            "default: true",
            "upstreams.main.retries.statuses[0]",
            "must be at least 400",
        ),
        (
            "{kind: pool, members: [{upstream: real}], retries: {statuses: [200]}}",
            "default: true",
            "upstreams.main.retries.statuses[0]",
            "must be at least 400",
        ),
        (
            "{kind: pool, members: [{upstream: real}], fallback_on: [timeouts]}",
            "default: true",
            "upstreams.main.fallback_on[0]",
            "did you mean `timeout`?",
        ),
    ],
)
def test_a_pool_that_cannot_work_is_refused_with_its_place(section: str, route: str, key: str, holds: str) -> None:
    found = problems(with_pool(section, route))
    assert any(key in line and holds in line for line in found), found


def test_retrying_what_is_no_error_is_refused_for_a_single_upstream_too() -> None:
    found = problems(MINIMAL.replace('9/v1"}', '9/v1", retries: {statuses: [-1]}}'))
    assert any("upstreams.real.retries.statuses[0]: must be at least 400" in line for line in found), found


def test_a_model_is_asked_for_only_where_no_member_names_its_own() -> None:
    pool = "{kind: pool, members: [{upstream: real, model: big}]}"
    text = with_pool(pool, "default: false").replace("upstream: main, model: m, ", "upstream: main, ")
    reading = look(text)
    assert (reading.problems, reading.warnings) == ((), ())
    reading = look(text.replace(", model: big", ""))
    assert any("routes.pooled: has no model" in warning for warning in reading.warnings)

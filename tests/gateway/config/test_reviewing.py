"""Code-review sections: what cannot work is refused with a remedy, and a secret is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.describe import version
from tests.gateway.config.files import look, problems

BASE = """\
upstreams:
  real: {kind: openai, base_url: "http://127.0.0.1:9/v1"}
judges:
  one: {kind: openai, model: a}
  two: {kind: anthropic, model: b, input_price: 1, output_price: 2}
  three: {kind: openai, model: c}
repositories:
  app: {path: clone}
routes:
  review:
    upstream: real
    model: m
"""
CHECK = "kind: code_review, judges: [one, two], repositories: [app]"


def with_check(check: str, *more: str) -> str:
    lines = [f"check: {{{check}}}", *more]
    return BASE + "".join(f"    {line}\n" for line in lines)


def with_repository(section: str) -> str:
    return with_check(CHECK).replace("{path: clone}", f"{{{section}}}")


@pytest.mark.parametrize(
    "more",
    [
        "",
        ", variant: or",
        ", variant: and, shadow: true",
        ", hops: 3, rules_file: docs/rules.md",
        ", policies: {hallucination: annotate, undetermined: drop, severities: {critical: {hallucination: keep}}}",
        ", timeouts: {total: 600, issue: 300}, concurrency: 2, max_issues: 20",
    ],
)
def test_what_can_work_is_accepted(more: str) -> None:
    assert problems(with_check(CHECK + more, "release: held", "action: filter")) == []


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("kind: code_review, judges: []", "is empty; give at least one"),
        ("kind: code_review, judges: [one]", "variant: multi_hop puts two or more judges together"),
        ("kind: code_review, judges: [one, two], variant: single", "variant: single asks one judge, and 2 are named"),
        ("kind: code_review, judges: [one, two], variant: majority", "variant: majority needs three judges or more"),
        ("kind: code_review, judges: [one, one]", "names one twice"),
        ("kind: code_review, judges: [one, tow]", "which is not configured; did you mean `two`?"),
        ("kind: code_review, judges: [one, two], repositories: [ap]", "names a repository `ap`"),
        (f"{CHECK}, variant: or, hops: 2", "variant: or asks for no further files; drop hops"),
        (f"{CHECK}, variant: most", "must be one of single, or, and, majority, multi_hop"),
        (f"{CHECK}, rules_file: ../secrets", "must be a path inside the repository"),
        (f"{CHECK}, rules_file: /etc/passwd", "must be a path inside the repository"),
        ("kind: code_review, judges: [one, two], rules_file: RULES.md", "the check has none; add repositories"),
        (f"{CHECK}, max_cost_usd: 1", "needs the prices of every judge, and `one` has none"),
        (f"{CHECK}, timeouts: {{issue: 20, call: 30}}", "timeouts.call is longer than timeouts.issue"),
        (f"{CHECK}, policies: {{hallucination: block}}", "must be one of drop, annotate, keep"),
        (f"{CHECK}, policies: {{severities: {{sever: {{}}}}}}", "known: critical, high, medium, low, info"),
    ],
)
def test_a_check_that_cannot_work_is_refused_with_the_way_out(check: str, says: str) -> None:
    (line,) = problems(with_check(check))
    assert says in line
    assert line.startswith("gateway.yaml:")


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ("", "give one of the two"),
        ("url: https://h/a.git, path: x", "give one of the two"),
        ("url: a/b", "a folder goes under path"),
        ("url: 'https://me:hunter22@h/a.git'", "must hold no user or password"),
        ("url: https://h/a.git, deploy_key: k", "deploy_key opens ssh addresses"),
        ("url: git@h:a/b.git, token: hunter22", "token opens https addresses"),
        ("path: x, token: hunter22", "a repository on this machine needs no token"),
        ("url: https://h/a.git, token: hunter22, github_app: {app_id: '1', private_key: k}", "exclude each other"),
        ("url: https://h/a.git, github_app: {app_id: '1'}", "needs private_key_file"),
        ("url: https://h/a.git, refresh: 1", "must be at least 5"),
    ],
)
def test_a_repository_that_cannot_be_opened_is_refused_without_showing_its_secret(section: str, says: str) -> None:
    (line,) = problems(with_repository(section))
    assert says in line
    assert "hunter22" not in line


def test_a_token_may_stand_in_a_file_and_shows_nowhere(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter22\n")
    reading = look(with_repository("url: https://h/a.git, token_file: token"), path=str(tmp_path / "gateway.yaml"))
    config = reading.require()
    token = config.repositories["app"].token
    assert token is not None
    assert token.get_secret_value() == "hunter22"
    assert "hunter22" not in repr(config)
    other = look(with_repository("url: https://h/a.git, token: another"), path=str(tmp_path / "gateway.yaml")).require()
    assert version(config) == version(other)


def test_only_a_route_with_repositories_lets_a_request_name_one() -> None:
    assert look(with_check(CHECK)).require().routes["review"].names_repositories
    without = "kind: code_review, judges: [one, two]"
    assert not look(with_check(without)).require().routes["review"].names_repositories
    refused = with_check(CHECK, "request_options: {repository: false}")
    assert not look(refused).require().routes["review"].names_repositories
    (line,) = problems(with_check(without, "request_options: {repository: true}"))
    assert "there is none to name" in line


def test_a_shadow_check_cannot_be_told_to_hold_answers() -> None:
    (line,) = problems(with_check(f"{CHECK}, shadow: true", "request_options: {release: [held]}"))
    assert "check.shadow serves every answer at once" in line
    assert problems(with_check(f"{CHECK}, shadow: true", "release: held", "action: filter")) == []


def test_a_review_route_does_not_lose_a_review_because_a_judge_is_away() -> None:
    route = look(with_check(CHECK, "release: held", "action: filter")).require().routes["review"]
    assert {route.unchecked_policy(reason).value for reason in ("judge_unavailable", "no_evidence", "timeout")} == {  # type: ignore[arg-type]
        "allow"
    }
    strict = with_check(CHECK, "release: held", "action: block")
    assert look(strict).require().routes["review"].unchecked_policy("judge_unavailable").value == "block"  # type: ignore[arg-type]


def test_issues_cannot_leave_one_by_one() -> None:
    (line,) = problems(with_check(CHECK, "release: sentence", "action: filter"))
    assert "this one judges the whole; use release: held" in line

"""The table of modes: every cell works as it says or is refused with a remedy, in the file and for requests."""

from __future__ import annotations

import itertools

import pytest

from gateway.config.modes import TABLE, Action, BlockResponse, Release, refusal_of
from tests.gateway.config.files import MINIMAL, problems

CELLS = list(itertools.product(Release, Action))
IMPOSSIBLE = {
    (Release.LIVE, Action.BLOCK),
    (Release.LIVE, Action.REPAIR),
    (Release.LIVE, Action.FILTER),
    (Release.SENTENCE, Action.REPAIR),
    (Release.DETACHED, Action.BLOCK),
    (Release.DETACHED, Action.REPAIR),
    (Release.DETACHED, Action.FILTER),
}


def configured(release: Release, action: Action, *more: str) -> list[str]:
    """Problems of a checked route with these modes."""
    lines = ["upstream: real", f"release: {release}", f"action: {action}", *more]
    if not any(line.startswith("check:") for line in more):
        lines.append("check: {kind: facts, collections: [docs]}")
    return problems(f"{MINIMAL}  r:\n" + "".join(f"    {line}\n" for line in lines))


def test_every_pair_of_release_and_action_is_decided() -> None:
    assert set(TABLE) == set(CELLS)


@pytest.mark.parametrize(("release", "action"), CELLS)
def test_a_cell_says_what_it_does_or_why_it_cannot_be(release: Release, action: Action) -> None:
    cell = TABLE[release, action]
    if (release, action) in IMPOSSIBLE:
        assert "use release:" in cell.refused or "use action:" in cell.refused
        assert not cell.plain
        assert not cell.stream
    else:
        assert cell.plain
        assert cell.stream
        assert not cell.refused


@pytest.mark.parametrize(("release", "action"), CELLS)
def test_what_cannot_work_is_refused_when_the_file_is_read(release: Release, action: Action) -> None:
    lines = configured(release, action, "block_response: refusal")
    if (release, action) in IMPOSSIBLE:
        assert lines == [f"gateway.yaml:16:5 routes.r.release: {TABLE[release, action].refused}"]
    else:
        assert lines == []


@pytest.mark.parametrize(("release", "action"), CELLS)
@pytest.mark.parametrize("block_response", BlockResponse)
@pytest.mark.parametrize("whole_answer", [True, False])
def test_a_block_can_always_be_told_to_the_client(
    release: Release, action: Action, block_response: BlockResponse, whole_answer: bool
) -> None:
    why = refusal_of(release, action, block_response, whole_answer=whole_answer)
    too_late = release is Release.SENTENCE and action is Action.BLOCK and block_response is BlockResponse.ERROR
    too_coarse = release is Release.SENTENCE and whole_answer
    assert bool(why) == ((release, action) in IMPOSSIBLE or too_late or too_coarse)


def test_a_422_after_released_sentences_is_refused_with_the_way_out() -> None:
    (line,) = configured(Release.SENTENCE, Action.BLOCK)
    assert line.endswith("use block_response: refusal, or release: held")


def test_a_check_of_whole_answers_cannot_release_sentences() -> None:
    (line,) = configured(Release.SENTENCE, Action.ANNOTATE, "check: {kind: plugin, name: p}")
    assert "this one judges the whole; use release: held" in line
    assert configured(Release.SENTENCE, Action.ANNOTATE, "check: {kind: plugin, name: p, whole_answer: false}") == []


@pytest.mark.parametrize(("release", "action"), CELLS)
def test_a_request_can_only_be_allowed_a_release_that_works(release: Release, action: Action) -> None:
    lines = configured(Release.HELD, action, "block_response: refusal", f"request_options: {{release: [{release}]}}")
    if (release, action) in IMPOSSIBLE:
        (line,) = lines
        assert line.startswith("gateway.yaml:19:5 routes.r.request_options:")
        assert line.endswith(f"or take {release} out of request_options.release")
    else:
        assert lines == []


@pytest.mark.parametrize("release", Release)
def test_an_unchecked_answer_is_blocked_only_where_it_can_be(release: Release) -> None:
    lines = configured(release, Action.ANNOTATE, "block_response: refusal", "on_unchecked: {no_evidence: block}")
    assert bool(lines) == ((release, Action.BLOCK) in IMPOSSIBLE)

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from checks.errors import RepositoryError
from checks.review.credentials import RepositorySettings
from checks.review.repository import RepositoryPool
from checks.review.types import Pin, Repositories, Side, Snapshot
from tests.checks.review.git_server import GitServer, serving
from tests.checks.review.repos import Repo

OLD, NEW = "a = 1\nb = 2\n", "a = 1\nb = 3\n"


@pytest.fixture
def origin(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "origin.git")


def settings(url: str, name: str = "app", **more: Any) -> RepositorySettings:
    return RepositorySettings(name=name, url=url, refresh_s=0.0, **more)


def pool_of(tmp_path: Path, *of: RepositorySettings) -> RepositoryPool:
    return RepositoryPool(of, tmp_path / "mirrors")


async def snapshot(pool: RepositoryPool, *texts: str, **pin: str) -> Snapshot:
    found = await pool.snapshot(Pin(**pin), [("user", text) for text in texts])
    assert not isinstance(found, str), found
    return found


async def refusal(pool: RepositoryPool, *texts: str, **pin: str) -> str:
    found = await pool.snapshot(Pin(**pin), [("user", text) for text in texts])
    assert isinstance(found, str)
    return found


@contextmanager
def counting(origin: Repo) -> Iterator[tuple[GitServer, str]]:
    server = GitServer(origin.path)
    with serving(server) as address:
        yield server, f"{address}/team/app"
    server.close()


async def test_a_pinned_revision_is_read_with_the_merge_base_of_its_base(origin: Repo, tmp_path: Path) -> None:
    base = origin.commit({"a.py": OLD})
    head = origin.commit({"a.py": NEW}, base, ref="refs/pull/3/head")
    moved_on = origin.commit({"a.py": OLD, "other.py": "x\n"}, base)
    async with pool_of(tmp_path, settings(origin.path.as_uri())) as pool:
        assert isinstance(pool.only(["app"]), Repositories)
        here = await snapshot(pool, repository="app", revision=head, base_revision="main")
        assert (here.revision, here.base_revision, here.partial) == (head, base, False)
        # The branch went on meanwhile: files it changed are not the pull request's, and the reader is told.
        assert [c.path for c in here.changes()] == ["a.py"]
        assert here.notes == (
            f"{moved_on[:12]} is no ancestor of {head[:12]}: compared with their merge base {base[:12]}",
        )


async def test_a_merged_head_and_an_unrelated_base_are_told(origin: Repo, tmp_path: Path) -> None:
    first = origin.commit({"a.py": OLD})
    second = origin.commit({"a.py": NEW}, first)
    stranger = origin.commit({"z.py": "z\n"}, ref="refs/heads/orphan")
    async with pool_of(tmp_path, settings(str(origin.path))) as pool:
        merged = await snapshot(pool, revision=first, base_revision=second)
        assert (list(merged.changes()), "already contained" in merged.notes[0]) == ([], True)
        apart = await snapshot(pool, revision=second, base_revision=stranger)
        assert (apart.base_revision, "no common ancestor" in apart.notes[0]) == (None, True)


async def test_an_unknown_revision_or_repository_is_a_reason_in_words(origin: Repo, tmp_path: Path) -> None:
    head = origin.commit({"a.py": OLD})
    async with pool_of(tmp_path, settings(origin.path.as_uri())) as pool:
        assert (
            await refusal(pool, repository="app", revision="f" * 40) == f"repository app has no revision {'f' * 40!r}"
        )
        assert await refusal(pool, revision=head, base_revision="gone") == "repository app has no base revision 'gone'"
        assert await refusal(pool, repository="other", revision=head) == (
            "this route has no repository 'other'; it has: app"
        )
        assert "names no revision" in await refusal(pool, "please review")


async def test_a_route_cannot_reach_a_repository_that_it_was_not_given(origin: Repo, tmp_path: Path) -> None:
    head = origin.commit({"secret.py": OLD})
    other = Repo(tmp_path / "other.git")
    other.commit({"a.py": "1\n"})
    both = [settings(str(origin.path), "secret", web_url="https://git.example/t/secret"), settings(str(other.path))]
    async with pool_of(tmp_path, *both) as pool:
        route = pool.only(["app"])
        link = f"see https://git.example/t/secret/blob/{head}/secret.py"
        for pin in (Pin(repository="secret", revision=head), Pin(revision=head), Pin()):
            assert isinstance(await route.snapshot(pin, [("user", link)]), str)
        assert isinstance(await pool.only(["secret"]).snapshot(Pin(), [("user", link)]), Snapshot)
        with pytest.raises(RepositoryError, match="no repository is called nope"):
            pool.only(["nope"])


async def test_a_permalink_in_the_prompt_is_enough_and_the_newest_of_several_counts(
    origin: Repo, tmp_path: Path
) -> None:
    first = origin.commit({"a.py": OLD})
    second = origin.commit({"a.py": NEW}, first)
    web = "https://git.example/team/app"
    async with pool_of(tmp_path, settings(str(origin.path), web_url=web)) as pool:
        text = f"{web}/blob/{first}/a.py#L1 {web}/-/blob/{first}/a.py {web}/blob/{second}/a.py#L2-L3"
        assert (await snapshot(pool, text)).revision == second


async def test_the_blob_ids_of_a_diff_lead_to_its_commits_so_that_a_bot_needs_no_change(
    origin: Repo, tmp_path: Path
) -> None:
    base = origin.commit({"a.py": OLD, "gone.py": "x\n"})
    main = origin.commit({"a.py": OLD, "gone.py": "x\n", "later.py": "1\n"}, base)
    head = origin.commit({"a.py": NEW, "new.py": "n\n"}, base, ref="refs/pull/5/head")
    prompt = f"Review this:\n```diff\n{origin.diff(base, head)}```\nThanks."
    async with pool_of(tmp_path, settings(origin.path.as_uri())) as pool:
        here = await snapshot(pool, prompt)
        assert (here.partial, here.revision, here.base_revision) == (False, head, base)
        assert {c.path for c in here.changes()} == {"a.py", "gone.py", "new.py"}
        assert main != here.base_revision
        assert here.notes == (f"commit {head[:12]} was found by the blob ids of the diff in the request",)


async def test_of_several_branches_with_the_same_files_the_one_the_diff_starts_from_is_taken_and_told(
    origin: Repo, tmp_path: Path
) -> None:
    base = origin.commit({"a.py": OLD})
    head = origin.commit({"a.py": NEW}, base, ref="refs/heads/topic")
    origin.commit({"a.py": NEW, "z.py": "1\n"}, ref="refs/heads/newer-but-unrelated")
    async with pool_of(tmp_path, settings(str(origin.path))) as pool:
        here = await snapshot(pool, origin.diff(base, head))
        assert (here.revision, here.base_revision) == (head, base)
        assert "2 branches hold these files" in here.notes[1]


async def test_a_pinned_commit_without_a_base_is_compared_with_what_the_diff_starts_from(
    origin: Repo, tmp_path: Path
) -> None:
    base = origin.commit({"a.py": OLD})
    head = origin.commit({"a.py": NEW}, base)
    async with pool_of(tmp_path, settings(str(origin.path))) as pool:
        here = await snapshot(pool, origin.diff(base, head), revision=head)
        assert (here.base_revision, [c.path for c in here.changes()]) == (base, ["a.py"])
        assert (await snapshot(pool, "no diff", revision=head)).base_revision is None


async def test_a_diff_of_an_unknown_commit_falls_back_to_the_code_in_the_request(origin: Repo, tmp_path: Path) -> None:
    origin.commit({"a.py": OLD})
    prompt = "diff --git a/a.py b/a.py\nindex 1234567..89abcde 100644\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"
    async with pool_of(tmp_path, settings(str(origin.path))) as pool:
        here = await snapshot(pool, prompt)
        assert (here.partial, here.name) == (True, "request")
        left = here.read("a.py", Side.LEFT)
        assert left is not None
        assert left.text == "x"


async def test_many_requests_for_one_unknown_commit_make_one_fetch(origin: Repo, tmp_path: Path) -> None:
    origin.commit({"a.py": OLD})
    head = origin.commit({"a.py": NEW}, ref="refs/pull/1/head")
    with counting(origin) as (server, url):
        async with pool_of(tmp_path, settings(url)) as pool:
            found = await asyncio.gather(*(snapshot(pool, revision=head) for _ in range(20)))
            assert {id(one) for one in found} == {id(found[0])}
            asked = len(server.asked)
            await snapshot(pool, revision=head)
            assert len(server.asked) == asked
            unknown = "f" * 40
            await refusal(pool, revision=unknown)
            asked = len(server.asked)
            await refusal(pool, revision=unknown)
            assert len(server.asked) == asked


async def test_a_dead_server_is_a_reason_at_once_after_the_first_failure(tmp_path: Path) -> None:
    async with pool_of(tmp_path, settings("http://127.0.0.1:9/x")) as pool:
        first = await refusal(pool, revision="main")
        assert "could not be fetched from http://127.0.0.1:9/x" in first
        assert await refusal(pool, revision="0" * 40) == first


async def test_a_branch_is_looked_up_anew_when_it_may_have_moved(origin: Repo, tmp_path: Path) -> None:
    now = [1000.0]
    first = origin.commit({"a.py": OLD})
    one = RepositorySettings(name="app", url=origin.path.as_uri(), refresh_s=60.0)
    pool = RepositoryPool([one], tmp_path / "mirrors", clock=lambda: now[0])
    mirror = pool.only(["app"])
    assert (await mirror.snapshot(Pin(revision="main"), [])).revision == first  # type: ignore[union-attr]
    second = origin.commit({"a.py": NEW}, first)
    assert (await mirror.snapshot(Pin(revision="main"), [])).revision == first  # type: ignore[union-attr]
    now[0] += 61
    assert (await mirror.snapshot(Pin(revision="main"), [])).revision == second  # type: ignore[union-attr]


async def test_a_slow_server_is_a_reason_when_the_deadline_is_over(origin: Repo, tmp_path: Path) -> None:
    head = origin.commit({"a.py": OLD})
    pool = RepositoryPool([settings(origin.path.as_uri())], tmp_path / "mirrors", deadline_s=0.0)
    async with pool:
        assert "was not ready within 0 seconds" in await refusal(pool, revision=head)


async def test_mirrors_are_fetched_in_the_background_before_anybody_asks(origin: Repo, tmp_path: Path) -> None:
    head = origin.commit({"a.py": OLD})
    one = RepositorySettings(name="app", url=origin.path.as_uri(), refresh_s=3600.0)
    async with RepositoryPool([one], tmp_path / "mirrors") as pool:
        mirror = pool.mirror("app")
        while mirror.fetched_at is None:
            await asyncio.sleep(0.01)
        assert mirror.resolve("main") == head

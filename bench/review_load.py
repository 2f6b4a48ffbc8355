"""A review of many issues against slow judges: how long it takes, how many calls run at once, what a dead judge costs.

    python -m bench.review_load --issues 200 --files 40 --seconds 0.3

Judges only wait, so what is left beside their time is our own work: reading the review, git, evidence, windows,
prompts, votes, edits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import FileMode

from checks.review.check import ReviewCheck, ReviewDeadlines, ReviewSettings
from checks.review.decide import Variant
from checks.review.snapshot import GitSnapshot
from checks.review.types import Pin, Snapshot
from checks.types import Case, JudgeCall, JudgePrompt, JudgeReply


class WaitingJudge:
    """Says Valid Issue after `seconds`; counts calls under way."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self._seconds = seconds
        self.calls = self.now = self.most = 0

    async def judge(self, prompt: JudgePrompt, schema: Mapping[str, Any]) -> JudgeReply:
        self.calls += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self.now -= 1
        asked = {f"{kind}_{n}": "x" for n in (1, 2, 3) for kind in ("question", "answer")}
        value = {**asked, "quotes": [], "absent": [], "evaluation": "Valid Issue", "evaluation_reason": "x"}
        return JudgeReply(value, JudgeCall(self.name, "waiting", prompt.purpose, "", ""))


class _One:
    def __init__(self, repository: pygit2.Repository, commit: str) -> None:
        self._repository, self._commit = repository, commit

    async def snapshot(self, pin: Pin, messages: Sequence[tuple[str, str]]) -> Snapshot | str:
        return GitSnapshot(self._repository, name="bench", revision=self._commit)


def _repository(folder: Path, files: int) -> tuple[pygit2.Repository, str]:
    repository = pygit2.init_repository(str(folder), bare=True)
    tree = repository.TreeBuilder()
    for number in range(files):
        body = "\n".join(f"def f{number}_{n}(value):\n    return value + {n}\n" for n in range(300))
        tree.insert(f"m{number}.py", repository.create_blob(body.encode()), FileMode.BLOB)
    who = pygit2.Signature("bench", "bench@example.invalid", 1, 0)
    return repository, str(repository.create_commit(None, who, who, "files", tree.write(), []))


async def _run(options: argparse.Namespace, folder: Path) -> None:
    repository, commit = _repository(folder, options.files)
    issues = [
        {"file": f"m{n % options.files}.py", "line": 3 * n + 1, "title": f"Issue {n}", "body": f"`f{n}` is odd. {n}"}
        for n in range(options.issues)
    ]
    answer = json.dumps({"findings": issues}, indent=1)
    print("judges\tcalls at once\tseconds\tleast possible\tmost at once\tcalls\tnot checked\tpeak MB")
    for what, dead in (("two alive", False), ("one dead", True)):
        for at_once in options.at_once:
            pair = [WaitingJudge("a", options.seconds), WaitingJudge("b", 3_600.0 if dead else options.seconds)]
            settings = ReviewSettings(
                variant=Variant.OR, concurrency=2 * at_once, calls_at_once=at_once,
                max_issues=options.issues, deadlines=ReviewDeadlines(call_s=2.0),
            )  # fmt: skip
            started = time.perf_counter()
            verdict = await ReviewCheck(pair, _One(repository, commit), settings).check(Case("", answer))
            seconds = time.perf_counter() - started
            least = options.issues / at_once * options.seconds
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            unchecked = sum(issue.label is None for issue in verdict.issues)
            most, calls = max(one.most for one in pair), sum(one.calls for one in pair)
            print(f"{what}\t{at_once}\t{seconds:.1f}\t{least:.1f}\t{most}\t{calls}\t{unchecked}\t{peak:.0f}")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--issues", type=int, default=200)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.3, help="what a judge takes")
    parser.add_argument("--at-once", type=int, nargs="+", default=[8, 16, 32], help="calls of one judge at once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_run(options, Path(folder)))


if __name__ == "__main__":
    main()

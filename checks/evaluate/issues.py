"""Labelled issues of code reviews, read from JSON Lines, as scenes that a panel can be put before.

Two kinds of record are known. With its code in it (`crscore_claims.jsonl`): `id`, `diff`, `claim`, `label`. With its
code in a repository (`aacr_bench.jsonl`): `id`, `repo`, `head_sha`, `base_sha`, `path`, `line`, `side`, `comment`,
`label`; these need a mirror of the repository. `label` is `valid`, `hallucination` or `undetermined`.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.errors import LabelledDataError
from checks.review.prompts import Exhibit, Matter
from checks.review.scene import TextScene
from checks.review.types import Issue, Pin, Side
from checks.types import IssueLabel

DIFF_PATH = "change.diff"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledIssue:
    """An issue with the label people gave it. `diff` is its code, or `pin` says in which commit that stands."""

    id: str
    data_set: str
    issue: Issue
    label: IssueLabel
    diff: str | None = None
    pin: Pin | None = None
    language: str = ""


def read_labelled(directory: Path) -> list[LabelledIssue]:
    """All labelled issues of a folder's known files, in the order of the files. Raises `LabelledDataError`."""
    found: list[LabelledIssue] = []
    for name, take in (("crscore_claims.jsonl", _claim), ("aacr_bench.jsonl", _comment)):
        path = directory / name
        if path.is_file():
            found += _records(path, take)
    if not found:
        raise LabelledDataError(
            f"{directory}: no labelled issues", hint="the folder needs crscore_claims.jsonl or aacr_bench.jsonl"
        )
    return found


def sample(issues: Sequence[LabelledIssue], count: int, seed: int) -> list[LabelledIssue]:
    """At most `count` issues, hallucinations and valid ones in equal numbers as far as they last, shuffled by `seed`;
    a smaller count gives a prefix of a larger one. Undetermined ones are left out: no verdict on them is wrong."""
    rng = random.Random(seed)  # noqa: S311
    of_label = {label: [one for one in issues if one.label is label] for label in IssueLabel}
    for one in of_label.values():
        rng.shuffle(one)
    wrong, right = of_label[IssueLabel.HALLUCINATION], of_label[IssueLabel.VALID]
    both = [one for pair in zip(wrong, right, strict=False) for one in pair]
    shorter = min(len(wrong), len(right))
    return [*both, *wrong[shorter:], *right[shorter:]][:count]


def text_scene(labelled: LabelledIssue) -> TextScene:
    """The scene of an issue whose code is in its record."""
    diff = labelled.diff or ""
    exhibit = Exhibit(
        path=DIFF_PATH,
        blob=hashlib.sha256(diff.encode()).hexdigest()[:40],
        text=diff,
        note="part of a change as a unified diff; the rest of the repository is not known",
        partial=True,
    )
    return TextScene(Matter(issue=labelled.issue.text, place=f"In {DIFF_PATH}:", exhibits=(exhibit,)))


def _records(path: Path, take: Callable[[dict[str, Any]], LabelledIssue]) -> Iterator[LabelledIssue]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield take(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise LabelledDataError(
                    f"{path}:{number}: {type(error).__name__}: {error}", hint="one labelled issue as JSON a line"
                ) from error


def _claim(record: dict[str, Any]) -> LabelledIssue:
    issue = Issue(number=0, format="labelled", path=DIFF_PATH, body=str(record["claim"]))
    return LabelledIssue(
        id=str(record["id"]),
        data_set="crscore",
        issue=issue,
        label=IssueLabel(record["label"]),
        diff=str(record["diff"]),
        language=str(record.get("language", "")),
    )


def _comment(record: dict[str, Any]) -> LabelledIssue:
    lines = sorted(line for line in (record.get("start_line"), record.get("end_line")) if line)
    issue = Issue(
        number=0,
        format="labelled",
        path=str(record["path"]),
        start_line=lines[0] if lines else None,
        end_line=lines[-1] if lines else None,
        side=Side(record.get("side") or "RIGHT"),
        body=str(record["comment"]),
        category=record.get("category"),
    )
    return LabelledIssue(
        id=str(record["id"]),
        data_set="aacr",
        issue=issue,
        label=IssueLabel(record["label"]),
        pin=Pin(repository=str(record["repo"]), revision=record["head_sha"], base_revision=record["base_sha"]),
        language=str(record.get("language", "")),
    )

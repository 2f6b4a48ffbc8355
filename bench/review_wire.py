"""Reviews in many formats: are all issues found, and do they go out as they came in?

    python -m bench.review_wire --data DIR

DIR holds pairs `NAME.expected.json` (keys `file`, `format`, `findings`, and `context.repo_root` if paths are absolute)
and the file each names. A row of the table is one sample: issues expected and found, fields that differ, whether the
review without verdicts is the same to the byte, and whether removing every issue leaves none. Exits with 1 unless all
samples are right.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from checks.review.findings import apply, read_review, treat
from checks.review.types import Issue, Treated, Treatment

ROUNDS = 20


def field(issue: Issue, name: str) -> Any:
    """A field of an issue as the samples write it."""
    value = getattr(issue, name) if hasattr(issue, name) else issue.extra.get(name)
    return getattr(value, "value", value)


def differences(issue: Issue, expected: dict[str, Any]) -> list[str]:
    """The names of the fields that differ; no title and an empty one are the same."""
    return [
        name
        for name, value in expected.items()
        if field(issue, name) != ("" if name == "title" and value is None else value)
    ]


def measure(data: Path, sample: Path) -> tuple[list[str], bool]:
    """A row of the table, and whether all of it is right."""
    expected = json.loads(sample.read_text())
    text = (data / expected["file"]).read_bytes().decode()
    root = expected["context"].get("repo_root")
    seconds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        review = read_review(text, repo_root=root)
        seconds.append(time.perf_counter() - begun)
    wrong = [
        f"{number}.{name}"
        for number, (issue, wanted) in enumerate(zip(review.issues, expected["findings"], strict=False))
        for name in differences(issue, wanted)
    ]
    same = apply(text, treat(review, {})) == text
    drop = {issue.number: Treated(treatment=Treatment.DROP) for issue in review.issues}
    none = not read_review(apply(text, treat(review, drop))).issues
    found, want = len(review.issues), len(expected["findings"])
    right = found == want and not wrong and same and none and review.formats == (expected["format"],)
    milliseconds = f"{statistics.median(seconds) * 1000:.2f}"
    row = [expected["id"], ",".join(review.formats), f"{found}/{want}", " ".join(wrong) or "-"]
    return [*row, "yes" if same else "NO", "yes" if none else "NO", milliseconds], right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the samples")
    data: Path = parser.parse_args().data
    samples = sorted(data.glob("*.expected.json"))
    if not samples:
        print(f"no *.expected.json in {data}")
        return 1
    rows = [measure(data, sample) for sample in samples]
    head = ["sample", "format", "found", "fields that differ", "same bytes", "all removed", "ms"]
    widths = [max(len(row[column]) for row in [head, *(row for row, _ in rows)]) for column in range(len(head))]
    for row in [head, *(row for row, _ in rows)]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0 if all(right for _, right in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())

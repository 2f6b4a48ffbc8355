"""The path matcher over labelled questions, and over mutations of real paths.

    python -m bench.review_paths --data DIR

`DIR` holds `cases.jsonl`, `symbols.jsonl` and `trees/` as `review/paths` of the open data does. Prints, per kind of
question, how many were answered with the expected file, refused where a file was expected, and answered with a wrong
file; then the mutation table (paths bent as models bend them); then the time per question. Exit code 1 when a wrong
file was given in the labelled questions.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from checks.review.paths import PathIndex, match_path
from checks.review.types import Definition, TreeFile

KINDS = {"120000": "link", "160000": "submodule"}
SOURCE = (".py", ".ts", ".tsx", ".js", ".go", ".java", ".rs", ".cpp", ".kt")
SAMPLE = 360


def read_tree(folder: Path, name: str) -> list[TreeFile]:
    """The entries of one listing; links and submodules by their modes, where there is a file of modes."""
    modes: dict[str, str] = {}
    listing = folder / f"{name}.modes.tsv"
    if listing.exists():
        for line in listing.read_text().splitlines():
            one, _, other = line.partition("\t")
            path, mode = (other, one) if one in KINDS else (one, other)
            modes[path] = KINDS.get(mode, "file")
    paths = (folder / f"{name}.txt").read_text().splitlines()
    return [TreeFile(path=path, blob="", kind=modes.get(path, "file")) for path in paths]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Symbols:
    """Where the data says that names are defined."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._by: dict[tuple[str, str], list[Definition]] = defaultdict(list)
        for row in rows:
            where = Definition(
                name=row["symbol"], kind="class", path=row["path"], start_line=row["line"], end_line=row["line"]
            )
            self._by[row["tree"], row["symbol"]].append(where)

    def of(self, tree: str) -> Callable[[str], list[Definition]]:
        return lambda name: self._by.get((tree, name), [])


def labelled(data: Path, console: Console) -> int:
    """The table of labelled questions; returns how many wrong files were given."""
    trees = {path.stem: PathIndex(read_tree(path.parent, path.stem)) for path in sorted(data.glob("trees/*.txt"))}
    symbols = Symbols(read_lines(data / "symbols.jsonl"))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case in read_lines(data / "cases.jsonl"):
        asked = {key: case[key] or "" for key in ("file_path", "file_name", "class_name")}
        plain = match_path(trees[case["tree"]], **{**asked, "class_name": ""})
        full = match_path(trees[case["tree"]], **asked, definitions=symbols.of(case["tree"]))
        count = counts[case["kind"]]
        count["n"] += 1
        count[outcome(plain.path, case["expected"])] += 1
        better = case.get("expected_with_symbols")
        allowed = {case["expected"], better} - {None}
        if better is not None:
            count["symbols"] += 1
            count["reached"] += better in full.files
        if full.path is not None and full.path not in allowed:
            count["wrong with symbols"] += 1
            console.print(f"[red]{case['id']}[/]: {case['file_path']} gave {full.path}, not {sorted(allowed)}")
    table = Table(
        "kind", "n", "right", "refused", "wrong", "definition wanted / reached", box=None, padding=(0, 2, 0, 0)
    )
    for kind, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        reached = f"{count['symbols']} / {count['reached']}" if count["symbols"] else ""
        wrong = str(count["wrong"] + count["wrong with symbols"])
        table.add_row(kind, str(count["n"]), str(count["right"]), str(count["refused"]), wrong, reached)
    console.print(table)
    return sum(count["wrong"] + count["wrong with symbols"] for count in counts.values())


def outcome(given: str | None, expected: str | None) -> str:
    if given == expected:
        return "right"
    return "refused" if given is None else "wrong"


def mutations(path: str) -> Iterator[tuple[str, str]]:
    """A path as models bend it: (name of the mutation, bent path)."""
    parts = path.split("/")
    stem, _, extension = parts[-1].rpartition(".")
    yield "a/ before it", f"a/{path}"
    yield "./ before it", f"./{path}"
    yield "absolute prefix", f"/home/runner/checkout/{path}"
    yield "backslashes", path.replace("/", "\\")
    if len(parts) > 1:
        yield "first folder dropped", "/".join(parts[1:])
        yield "wrong first folder", "/".join(["wrongroot", *parts[1:]])
    if len(parts) > 2:
        yield "middle folder dropped", "/".join(parts[:1] + parts[2:])
        yield "wrong middle folder", "/".join([parts[0], "wrongmiddle", *parts[2:]])
    yield "base name only", parts[-1]
    if extension in {"ts", "tsx"}:
        yield ".js asked, .ts(x) exists", "/".join([*parts[:-1], f"{stem}.js"])
    yield "extension missing", "/".join([*parts[:-1], stem])
    yield "base name not there", "/".join([*parts[:-1], f"{stem}_q7z.{extension}"])


def mutated(data: Path, console: Console) -> None:
    """Right, refused and wrong per mutation, over random source files of the given trees."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    rng = random.Random(7)
    listings = [read_tree(path.parent, path.stem) for path in sorted(data.glob("trees/*.txt"))]
    per_tree = SAMPLE // len(listings)
    for tree in listings:
        index = PathIndex(tree)
        sources = [file.path for file in tree if file.path.endswith(SOURCE) and file.kind == "file"]
        for path in rng.sample(sources, min(per_tree, len(sources))):
            for name, bent in mutations(path):
                expected = None if name == "base name not there" else path
                counts[name][outcome(match_path(index, file_path=bent).path, expected)] += 1
    table = Table("mutation", "n", "right %", "refused %", "wrong %", box=None, padding=(0, 2, 0, 0))
    for name, count in counts.items():
        n = count.total()
        table.add_row(name, str(n), *(f"{100 * count[key] / n:.1f}" for key in ("right", "refused", "wrong")))
    console.print(table)


def timed(console: Console) -> None:
    """A tree of 100,000 files: the time to index it, and per question."""
    rng = random.Random(1)
    words = [f"part{number}" for number in range(400)]
    paths = sorted(
        {
            "/".join([*rng.choices(words, k=rng.randrange(1, 7)), f"file{rng.randrange(20000)}.ts"])
            for _ in range(100_000)
        }
    )
    tree = [TreeFile(path=path, blob="") for path in paths]
    started = time.perf_counter()
    index = PathIndex(tree)
    built = time.perf_counter() - started
    asked = [bent for path in rng.sample(paths, 1500) for _, bent in mutations(path)]
    times = []
    for path in asked:
        started = time.perf_counter()
        match_path(index, file_path=path)
        times.append(time.perf_counter() - started)
    times.sort()
    console.print(
        f"{len(paths):,} files indexed in {built:.2f} s; {len(asked):,} questions: median "
        f"{times[len(times) // 2] * 1e6:.0f} us, 99th percentile {times[int(len(times) * 0.99)] * 1e6:.0f} us"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with cases.jsonl, symbols.jsonl and trees/")
    options = parser.parse_args()
    console = Console()
    wrong = labelled(options.data, console)
    console.print()
    mutated(options.data, console)
    console.print()
    timed(console)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

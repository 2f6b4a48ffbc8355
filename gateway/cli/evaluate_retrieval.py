"""`evaluate retrieval`: the legs of a collection and their fusions on labelled questions; fitted weights."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.app.collections import collection_directory, collection_settings, open_collection
from gateway.app.encoders import build_encoder
from gateway.cli.output import USAGE, emit, fail
from gateway.config.load import load
from gateway.config.locate import locate
from gateway.config.model import CollectionConfig
from gateway.config.problems import listed, suggestion
from retrieval.collection import Collection
from retrieval.evaluate.data import CorpusLoader, LabelledSet, find_sets
from retrieval.evaluate.legs import Report, evaluate
from retrieval.hybrid import write_fitted
from retrieval.index.fusion import Fusion
from retrieval.ingest import Progress as IngestProgress
from retrieval.ingest import Stage
from retrieval.split import SplitSettings
from retrieval.types import Encoder
from retrieval.writer import IngestOptions

# Fewer would as likely as not turn a leg off by chance.
LEAST_QUESTIONS = 20
SHOWN = ("ndcg_10", "recall_10", "recall_100", "hit_1", "hit_9", "mrr_10")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The command's options: `tokens` a passage, `cache` keeps indexes for the next run, `limit` questions a set."""

    data: Path
    sets: tuple[str, ...]
    fit: str | None
    config: Path | None
    cache: Path | None
    tokens: int
    limit: int | None


def evaluate_retrieval(wanted: Wanted, *, as_json: bool) -> None:
    """Measure the sets of a folder, or fit and measure a collection, and print the figures."""
    console = Console(stderr=True, quiet=as_json)
    reports = _fitted(wanted, console) if wanted.fit else _measured(wanted, console)
    text = "\n\n".join(_table(report) for report in reports)
    emit({report.name: report.as_dict() for report in reports}, as_json=as_json, text=text)


def _measured(wanted: Wanted, console: Console) -> list[Report]:
    encoder = build_encoder(CollectionConfig().encoder)
    settings = replace(
        collection_settings(CollectionConfig()), split=SplitSettings(target_tokens=wanted.tokens), fusion=Fusion()
    )
    reports = []
    with _kept(wanted.cache) as directory:
        for labelled in _chosen(find_sets(wanted.data), wanted):
            assert labelled.corpus is not None
            place = directory / f"{labelled.name}-{wanted.tokens}"
            with Collection.open(place, settings, encoder) as collection, _Bar(console, labelled.name) as bar:
                collection.ingest(
                    [labelled.corpus], IngestOptions(loaders=(CorpusLoader(),), prune=True, progress=bar.ingesting)
                )
                reports.append(evaluate(collection, encoder, labelled, bar.asking))
    return reports


def _fitted(wanted: Wanted, console: Console) -> list[Report]:
    config = load(locate(wanted.config, os.environ, Path.cwd()), os.environ)
    name = wanted.fit or ""
    section = config.collections.get(name)
    if section is None:
        known = listed(config.collections) or "none"
        fail(f"there is no collection '{name}'{suggestion(name, config.collections)}", f"known: {known}", USAGE)
    if section.search.mode == "dense":
        fail(f"collection '{name}' is searched by vectors alone", "set search.mode: hybrid, then ingest", USAGE)
    if section.search.lexical_weight is not None:
        fail(
            f"collection '{name}' has a lexical_weight in the configuration, so a fitted one would not be used",
            "remove search.lexical_weight from its section",
            USAGE,
        )
    sets = _chosen(find_sets(wanted.data, corpus=False), wanted)
    if len(sets) > 1:
        found = listed([each.name for each in sets])
        fail(f"--fit takes one set, and {wanted.data} holds {found}", "name one with --set", USAGE)
    if len(sets[0].queries) < LEAST_QUESTIONS:
        have = len(sets[0].queries)
        fail(f"{have} questions say nothing of a weight", f"label at least {LEAST_QUESTIONS}", USAGE)
    encoder: Encoder = build_encoder(section.encoder)
    with open_collection(config, name, encoder) as collection, _Bar(console, name) as bar:
        report = evaluate(collection, encoder, sets[0], bar.asking)
    write_fitted(collection_directory(config, name), Fusion(lexical_weight=report.weight))
    console.print(f"lexical weight {report.weight:g} is kept with collection {name}; serve uses it from its next start")
    return [report]


def _chosen(sets: Sequence[LabelledSet], wanted: Wanted) -> list[LabelledSet]:
    names = [each.name for each in sets]
    for name in wanted.sets:
        if name not in names:
            fail(f"there is no set '{name}'{suggestion(name, names)}", f"known: {listed(names)}", USAGE)
    chosen = [each for each in sets if not wanted.sets or each.name in wanted.sets]
    if wanted.limit is None:
        return chosen
    return [replace(each, queries=dict(list(each.queries.items())[: wanted.limit])) for each in chosen]


@contextmanager
def _kept(cache: Path | None) -> Iterator[Path]:
    if cache is not None:
        yield cache
        return
    with tempfile.TemporaryDirectory(prefix="evaluate-") as directory:
        yield Path(directory)


class _Bar:
    """A progress bar on a terminal, nothing elsewhere."""

    def __init__(self, console: Console, name: str) -> None:
        self._progress = Progress(
            TextColumn(f"{name}: {{task.description}}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("reading", total=None)

    def ingesting(self, progress: IngestProgress) -> None:
        """Show how far the index is."""
        if progress.stage is Stage.ENCODE:
            self._progress.update(
                self._task, description="encoding passages", completed=progress.done, total=progress.total or None
            )

    def asking(self, done: int, total: int) -> None:
        """Show how many questions were asked."""
        self._progress.update(self._task, description="asking", completed=done, total=total)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _table(report: Report) -> str:
    """A Markdown table of one set; each cell is the mean with half the width of its 95 % interval."""
    lines = [
        f"### {report.name}: {report.questions} questions, {report.passages} passages",
        "",
        f"| leg | {' | '.join(name.replace('_', '@') for name in SHOWN)} |",
        f"|---|{'---|' * len(SHOWN)}",
    ]
    for row in report.rows:
        figures = (row.figures[name] for name in SHOWN)
        cells = (f"{each.mean:.3f} ± {(each.high - each.low) / 2:.3f}" for each in figures)
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    gain = report.gain
    searches = ", ".join(f"{name} {median:.1f} / {tail:.1f}" for name, (median, tail) in report.search_ms.items())
    lines += [
        "",
        f"Fitted lexical weight {report.weight:g}; fitted hybrid over the better leg in nDCG@10: {gain.mean:+.3f} "
        f"[{gain.low:+.3f}, {gain.high:+.3f}]. Milliseconds, median / p99: encode {report.encode_ms[0]:.1f} / "
        f"{report.encode_ms[1]:.1f}, search {searches}.",
    ]
    return "\n".join(lines)

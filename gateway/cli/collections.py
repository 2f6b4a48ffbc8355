"""`ingest`: documents of the configured folders into their collections, with progress."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.app.collections import open_collection
from gateway.app.encoders import build_encoder
from gateway.app.plugins import extra_loaders
from gateway.cli.output import printable
from gateway.config.model import GatewayConfig
from retrieval.ingest import IngestReport, Stage
from retrieval.ingest import Progress as IngestProgress
from retrieval.types import Encoder
from retrieval.writer import IngestOptions

_STAGES = {
    Stage.LOAD: "reading documents",
    Stage.ENCODE: "encoding passages",
    Stage.SNAPSHOT: "writing the index",
    Stage.PUBLISH: "done",
}


def ingest_collections(
    config: GatewayConfig, names: Sequence[str], *, rebuild: bool = False, quiet: bool = False
) -> dict[str, IngestReport]:
    """Bring these collections up to date with their folders; unchanged files cost nothing.

    Raises `RetrievalError` when a collection cannot be written at all; broken files are in its report.
    """
    encoders: dict[Any, Encoder] = {}
    reports: dict[str, IngestReport] = {}
    console = Console(stderr=True, quiet=quiet)
    for name in names:
        section = config.collections[name]
        if section.encoder not in encoders:
            encoders[section.encoder] = build_encoder(section.encoder)
        opened = open_collection(config, name, encoders[section.encoder], for_rebuild=rebuild)
        with opened as collection, _Bar(console, name) as bar:
            options = IngestOptions(loaders=extra_loaders(), rebuild=rebuild, prune=True, progress=bar.update)
            report = collection.ingest([Path(path) for path in section.paths], options)
        reports[name] = report
        _tell(console, name, report)
    return reports


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
        self._task = self._progress.add_task(_STAGES[Stage.LOAD], total=None)

    def update(self, progress: IngestProgress) -> None:
        """Show how far the ingest is."""
        total = progress.total or None
        self._progress.update(self._task, description=_STAGES[progress.stage], completed=progress.done, total=total)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _tell(console: Console, name: str, report: IngestReport) -> None:
    changed = [
        f"{count} {what}"
        for count, what in ((report.added, "new"), (report.changed, "changed"), (report.removed, "removed"))
        if count
    ]
    summary = ", ".join(changed) if changed else f"{report.unchanged} files unchanged"
    console.print(printable(f"collection {name}: {summary}"), highlight=False, markup=False)
    for problem in report.problems:
        hint = f" ({problem.hint})" if problem.hint else ""
        line = printable(f"  not read: {problem.path}: {problem.reason}{hint}")
        console.print(line, style="yellow", highlight=False, markup=False)

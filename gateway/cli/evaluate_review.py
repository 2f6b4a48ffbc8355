"""`evaluate review`: its options, and the call of what does the work, which is imported inside as it is heavy."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.panel import HELP

app = typer.Typer(rich_markup_mode=None)


class DataSet(StrEnum):
    """Sets of labelled issues."""

    CRSCORE = "crscore"
    AACR = "aacr"


@app.command("review")
def review(
    data: Annotated[Path | None, typer.Option("--data", help="The folder with the labelled issues.")] = None,
    judges: Annotated[list[str] | None, typer.Option("--judge", help=HELP)] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="The configuration that names judges.")] = None,
    data_set: Annotated[DataSet | None, typer.Option("--set", help="Only the issues of this set.")] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="At most so many, half of them wrong.")] = 100_000,
    seed: Annotated[int, typer.Option("--seed", help="Which ones.")] = 7,
    hops: Annotated[int, typer.Option("--hops", min=1, max=8, help="multi_hop with 1 to so many files.")] = 1,
    cassette: Annotated[Path | None, typer.Option("--cassette", help="Record replies in this file.")] = None,
    replay: Annotated[bool, typer.Option("--replay", help="Ask no model; use the cassette alone.")] = False,
    repositories: Annotated[
        Path | None, typer.Option("--repositories", help="A folder of git repositories, as owner/name or owner+name.")
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Issues at once.")] = 4,
    simulated: Annotated[bool, typer.Option("--simulate", help="Drawn votes in place of judges and data.")] = False,
    correlation: Annotated[
        list[float] | None, typer.Option("--correlation", min=-0.99, max=0.99, help="With --simulate: of the draws.")
    ] = None,
    unsure: Annotated[float, typer.Option("--unsure", min=0, max=0.5, help="With --simulate: Undetermined.")] = 0.35,
    inject: Annotated[
        bool,
        typer.Option("--inject", help="How often orders hidden in issue or code turn a judge, in place of variants."),
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the report as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Write the plot as SVG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recall, precision and false alarms of each judge, or, and, multi_hop on the same labelled issues."""
    from gateway.cli.measuring import Run, flips, judged, simulated_reports, tell, tell_flips
    from gateway.cli.output import USAGE, fail

    if simulated:
        reports = simulated_reports(correlation or [0.0, 0.3, 0.55, 0.8], unsure, hops)
    elif data is None:
        fail("--data is missing", "name a folder with crscore_claims.jsonl, or use --simulate", USAGE)
    else:
        run = Run(
            data=data, judges=tuple(judges or ()), config=config, data_set=data_set.value if data_set else None,
            count=count, seed=seed, hops=hops, cassette=cassette, replay=replay, repositories=repositories,
            concurrency=concurrency,
        )  # fmt: skip
        if inject:
            tell_flips(flips(run), out, as_json=as_json)
            return
        reports = {"judged" if judges else "without a model": judged(run)}
    tell(reports, out, plot, as_json=as_json)

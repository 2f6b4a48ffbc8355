"""`grounding-gateway evaluate`: what retrieval and checks are worth, measured on labelled data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli import evaluate_review

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Measure retrieval and checks on labelled data.")


class Part(StrEnum):
    """Which part of the data."""

    DEV = "dev"
    TRAIN = "train"


@app.callback()
def _group() -> None:
    pass


app.add_typer(evaluate_review.app)


@app.command("retrieval")
def retrieval(
    data: Annotated[Path, typer.Option("--data", help="A folder in BEIR's layout, or a folder of such folders.")],
    sets: Annotated[list[str] | None, typer.Option("--set", help="Only this set; may be repeated.")] = None,
    fit: Annotated[
        str | None,
        typer.Option("--fit", help="Measure this collection instead, and keep the weight that suits it best."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="With --fit: the configuration; default: $GATEWAY_CONFIG, ./gateway.yaml."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Keep the indexes of the sets here for the next run.")
    ] = None,
    tokens: Annotated[int, typer.Option("--tokens", min=16, help="Tokens of a passage at most.")] = 90,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many questions of each set.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure dense, lexical and hybrid search on labelled questions, with 95 % intervals.

    Fitted weights are measured on questions they were not fitted on. The same data gives the same figures, but for
    times.
    """
    from gateway.cli.evaluate_retrieval import Wanted, evaluate_retrieval

    wanted = Wanted(data=data, sets=tuple(sets or ()), fit=fit, config=config, cache=cache, tokens=tokens, limit=limit)
    evaluate_retrieval(wanted, as_json=as_json)


@app.command("facts")
def facts(
    data: Annotated[Path, typer.Option("--data", help="Folder with facts/dev/*.jsonl, or with *.jsonl itself.")],
    sets: Annotated[list[str] | None, typer.Option("--set", help="Only this set; may be repeated.")] = None,
    part: Annotated[Part, typer.Option("--part", help="Which part of the data.")] = Part.DEV,
    judge: Annotated[
        str | None, typer.Option("--judge", help="Also this judge of the configuration, and its self-check.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Where the judge is; default: $GATEWAY_CONFIG, ./gateway.yaml."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many facts of each set.")] = None,
    budget: Annotated[
        float | None,
        typer.Option("--budget", min=0.001, max=0.5, help="Also the fail_threshold for this share of false alarms."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for facts.json and the plots (SVG).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the classifiers and aggregations of the fact-check on labelled facts and answers.

    Local classifier and word overlap under `strict` and `graded`; with --judge also the judge and its own word without
    documents (self-check). The same data gives the same figures. Exit code 2 when the data cannot be read.
    """
    from gateway.cli.evaluate_facts import Wanted, evaluate

    chosen = tuple(sets or ())
    wanted = Wanted(
        data=data, part=part.value, sets=chosen, judge=judge, config=config, limit=limit, budget=budget, out=out
    )
    evaluate(wanted, as_json=as_json)

"""`grounding-gateway evaluate`: what retrieval and checks are worth, measured on labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli import evaluate_review

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Measure retrieval and checks on labelled data.")


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

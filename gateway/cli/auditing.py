"""The commands under `verdicts` that hold verdicts to account: replay, samples, proofs. Options only."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from checks.types import FACT_LABELS, FactLabel
from gateway.cli.commands import AsJson, ConfigFile, located, utc

Route = Annotated[str, typer.Option("--route", "-r", help="The route.")]
Since = Annotated[datetime | None, typer.Option("--since", help="Of exchanges not before this time (UTC).")]
Until = Annotated[datetime | None, typer.Option("--until", help="Of exchanges before this time (UTC).")]
Threshold = Annotated[
    float | None, typer.Option("--threshold", min=0.0001, max=0.9999, help="fail_threshold; strict: refute_threshold.")
]
SupportThreshold = Annotated[
    float | None, typer.Option("--support-threshold", min=0.0001, max=0.9999, help="Another support_threshold.")
]
RefuteThreshold = Annotated[
    float | None, typer.Option("--refute-threshold", min=0.0001, max=0.9999, help="Another refute_threshold.")
]
Fails = Annotated[list[str] | None, typer.Option("--fails", help="LABEL=fail or LABEL=pass; may be repeated.")]

_commands = typer.Typer()


class AggregationKind(StrEnum):
    """How verdicts of passages become a fact's."""

    STRICT = "strict"
    GRADED = "graded"


def add_to(verdicts: typer.Typer) -> None:
    """Put the commands of this module under `verdicts`."""
    verdicts.registered_commands += _commands.registered_commands


@_commands.command("rescore")
def rescore(
    route: Route,
    config: ConfigFile = None,
    aggregation: Annotated[AggregationKind | None, typer.Option("--aggregation", help="Another aggregation.")] = None,
    threshold: Threshold = None,
    support: SupportThreshold = None,
    refute: RefuteThreshold = None,
    fails: Fails = None,
    since: Since = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Replay recorded fact-checks under other settings, and say what would have been another verdict."""
    from gateway.cli.rescore import Settings
    from gateway.cli.rescore import rescore as run
    from gateway.ledger.labels import Span

    settings = Settings(
        kind=aggregation.value if aggregation else None,
        threshold=threshold,
        support_threshold=support,
        refute_threshold=refute,
        fails=_overrides(fails or ()),
    )
    span = Span(route=route, since=utc(since), until=utc(until))
    raise SystemExit(run(located(config), span, settings, as_json=as_json))


@_commands.command("sample")
def sample(
    route: Route,
    config: ConfigFile = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100_000, help="So many facts.")] = 100,
    seed: Annotated[int, typer.Option("--seed", help="The same seed over the same records gives the same facts.")] = 0,
    since: Since = None,
    until: Until = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new file; default: standard output.")] = None,
) -> None:
    """Draw facts to be labelled, some of every kind of verdict, so that `error-rate` can speak for all of them."""
    from gateway.cli.sampling import sample as run
    from gateway.ledger.labels import Span

    span = Span(route=route, since=utc(since), until=utc(until))
    raise SystemExit(run(located(config), span, count=count, seed=seed, output=output))


@_commands.command("error-rate")
def error_rate(
    file: Annotated[Path, typer.Argument(help="A sample that `verdicts sample` wrote.")],
    config: ConfigFile = None,
    by: Annotated[str | None, typer.Option("--by", help="Labels of this person only; default: the majority's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say from a labelled sample how many of a route's verdicts are wrong, with a 95% interval."""
    from gateway.cli.sampling import error_rate as run

    raise SystemExit(run(located(config), file, by=by, as_json=as_json))


def _overrides(given: list[str] | tuple[()]) -> dict[FactLabel, bool]:
    """`LABEL=fail|pass` as overrides of the aggregation. Ends the process for anything else."""
    from gateway.cli.output import USAGE, fail
    from gateway.config.problems import suggestion

    found = {}
    for text in given:
        label, _, word = text.partition("=")
        if label not in FACT_LABELS or word not in ("fail", "pass"):
            hint = f"labels: {', '.join(FACT_LABELS)}{suggestion(label, FACT_LABELS)}"
            fail(f"--fails {text}: give LABEL=fail or LABEL=pass", hint, USAGE)
        found[FactLabel(label)] = word == "fail"
    return found

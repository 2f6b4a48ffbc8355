"""`grounding-gateway label`: people's labels from the shell; options here, the work in its own modules."""

from __future__ import annotations

import getpass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.commands import AsJson, ConfigFile, located, utc

app = typer.Typer(rich_markup_mode=None, help="Label recorded facts and issues; without a command, one after another.")

By = Annotated[str | None, typer.Option("--by", help="Who labels; default: the name of this user.")]
OfRoute = Annotated[str | None, typer.Option("--route", "-r", help="Of this route.")]
Since = Annotated[datetime | None, typer.Option("--since", help="Of exchanges not before this time (UTC).")]
Until = Annotated[datetime | None, typer.Option("--until", help="Of exchanges before this time (UTC).")]


class Order(StrEnum):
    """What is asked first."""

    UNCERTAIN = "uncertain"
    DISAGREEMENT = "disagreement"
    RANDOM = "random"


@app.callback(invoke_without_command=True)
def label(
    context: typer.Context,
    config: ConfigFile = None,
    route: OfRoute = None,
    order: Annotated[Order, typer.Option("--order", help="What is asked first.")] = Order.UNCERTAIN,
    seed: Annotated[int, typer.Option("--seed", help="Of the random order.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Ask for at most so many.")] = 50,
    by: By = None,
    sample: Annotated[Path | None, typer.Option("--sample", help="Ask for the facts of this audit sample.")] = None,
) -> None:
    """Show facts one after another; one keystroke labels each."""
    if context.invoked_subcommand is not None:
        return
    from gateway.cli.labelling import Asked, ask
    from gateway.ledger.labels import Span

    asked = Asked(span=Span(route=route), order=order.value, seed=seed, limit=limit, by=_by(by), sample=sample)
    raise SystemExit(ask(located(config), asked))


@app.command("set")
def set_label(
    exchange: Annotated[str, typer.Argument(help="The exchange's id.")],
    label: Annotated[str, typer.Argument(help="One of the seven labels of facts, or the three of issues.")],
    config: ConfigFile = None,
    fact: Annotated[int | None, typer.Option("--fact", help="The fact's position; default: the whole answer.")] = None,
    choice: Annotated[int, typer.Option("--choice", help="Of this choice of the answer.")] = 0,
    check: Annotated[int | None, typer.Option("--check", help="Of the check at this position of the record.")] = None,
    source: Annotated[str, typer.Option("--source", help="What the label rests on: an address, a passage.")] = "",
    comment: Annotated[str, typer.Option("--comment", help="A word on it.")] = "",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Put a label on a fact, an issue or a whole answer. A later one of the same person takes its place."""
    from gateway.cli.label_files import set_label as run
    from gateway.ledger.labels import Label

    given = Label(
        exchange_id=exchange,
        label=label,
        labeller=_by(by),
        source=source,
        comment=comment,
        choice=choice,
        check=check,
        fact=fact,
    )
    raise SystemExit(run(located(config), given, as_json=as_json))


@app.command("import")
def import_labels(
    file: Annotated[Path, typer.Argument(help="JSON Lines, an object a label; `-` reads standard input.")],
    config: ConfigFile = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Keep the labels of a file: `exchange`, `label`, and as wanted `fact`, `choice`, `check`, `source`, `comment`,
    `labeller`, `id`. The same file again changes nothing. Exit code 1 when lines were refused."""
    from gateway.cli.label_files import import_labels as run

    raise SystemExit(run(located(config), file, by=_by(by), as_json=as_json))


@app.command("agreement")
def agreement(
    config: ConfigFile = None, route: OfRoute = None, since: Since = None, until: Until = None, as_json: AsJson = False
) -> None:
    """How far labellers agree with each other (Krippendorff's alpha) and with the verdicts."""
    from gateway.cli.label_files import agreement as run
    from gateway.ledger.labels import Span

    span = Span(route=route, since=utc(since), until=utc(until))
    raise SystemExit(run(located(config), span, as_json=as_json))


@app.command("export")
def export_labels(
    folder: Annotated[Path, typer.Argument(help="A folder; facts.jsonl and answers.jsonl are written there.")],
    config: ConfigFile = None,
    route: OfRoute = None,
    since: Since = None,
    until: Until = None,
    by: Annotated[str | None, typer.Option("--by", help="Labels of this person only; default: the majority's.")] = None,
) -> None:
    """Write labelled facts as `evaluate facts` and the training read them."""
    from gateway.cli.label_files import export_labels as run
    from gateway.ledger.labels import Span

    span = Span(route=route, since=utc(since), until=utc(until))
    raise SystemExit(run(located(config), span, folder, by=by))


def _by(given: str | None) -> str:
    if given:
        return given
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in a container
        return "local"

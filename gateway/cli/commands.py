"""The commands that serve, ingest, ask, check and read the ledger: their options, and the call of what does the work.

Everything heavy is imported inside a command, so that `--help` and `config check` do not wait for it.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="The configuration; default: $GATEWAY_CONFIG, or ./gateway.yaml.")
]
RouteName = Annotated[str | None, typer.Option("--route", "-r", help="The route; default: the default route.")]
ApiKey = Annotated[str | None, typer.Option("--key", envvar="GATEWAY_KEY", help="A key, where the gateway has keys.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class CheckStatus(StrEnum):
    """Statuses to look for."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not_checked"


class Phase(StrEnum):
    """How far to migrate: `pre` stops before what must wait for the end of a rollout."""

    PRE = "pre"
    ALL = "all"


def located(config: Path | None) -> Path:
    """The configuration file that is meant. Raises `ConfigError`."""
    from gateway.config.locate import locate

    return locate(config, os.environ, Path.cwd())


def serve(config: ConfigFile = None) -> None:
    """Serve until told to stop: the ledger's database, the collections, the HTTP server."""
    from gateway.cli.serve import serve as run

    run(located(config))


def ingest(
    collections: Annotated[list[str] | None, typer.Argument(help="Names; default: all.")] = None,
    config: ConfigFile = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Encode everything anew.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring collections up to date with their files. Exit code 1 when a file could not be read."""
    from gateway.cli.collections import ingest_collections
    from gateway.cli.output import FAILED, USAGE, emit, fail
    from gateway.config.load import load
    from gateway.config.problems import listed, suggestion

    loaded = load(located(config), os.environ)
    for name in collections or ():
        if name not in loaded.collections:
            known = listed(loaded.collections) or "none"
            fail(f"there is no collection '{name}'{suggestion(name, loaded.collections)}", f"known: {known}", USAGE)
    reports = ingest_collections(loaded, collections or list(loaded.collections), rebuild=rebuild, quiet=as_json)
    if as_json:
        emit({name: asdict(report) for name, report in reports.items()}, as_json=True)
    if any(report.problems for report in reports.values()):
        raise SystemExit(FAILED)


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    config: ConfigFile = None,
    route: RouteName = None,
    key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Ask a route one question. Exit code 1 when the answer failed its check or was blocked."""
    from gateway.cli.ask import ask as run

    raise SystemExit(run(located(config), question, route=route, key=key, as_json=as_json))


def migrate(
    config: ConfigFile = None,
    phase: Annotated[Phase, typer.Option("--phase", help="`pre` before a rollout, `all` after it.")] = Phase.ALL,
    as_json: AsJson = False,
) -> None:
    """Bring the ledger's schema up to date."""
    from contextlib import AsyncExitStack

    from gateway.app.serving import open_database
    from gateway.cli.maintain import make_partitions
    from gateway.cli.output import emit
    from gateway.config.load import load
    from migrations.run import migrate as run

    loaded = load(located(config), os.environ)

    async def work() -> list[str]:
        async with AsyncExitStack() as stack:
            url, _ = await open_database(loaded, stack)
            done = await run(url, phase=phase.value)
            if not loaded.ledger.maintain:  # the gateway cannot make what it needs to begin with
                await make_partitions(url)
            return done

    done = asyncio.run(work())
    text = f"migrated: {', '.join(done)}" if done else "nothing to do"
    emit({"migrated": done}, as_json=as_json, text=text)


def maintain(
    config: ConfigFile = None,
    months: Annotated[int, typer.Option("--months", min=1, max=24, help="So many months ahead.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Make the ledger's partitions ahead, and drop those past `ledger.retention_days`. For a job, with its own role."""
    from gateway.cli.maintain import maintain as run

    raise SystemExit(run(located(config), months=months, as_json=as_json))


verdicts = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Read recorded verdicts.")


@verdicts.command("list")
def list_verdicts(
    config: ConfigFile = None,
    route: Annotated[str | None, typer.Option("--route", "-r", help="Of this route.")] = None,
    status: Annotated[CheckStatus | None, typer.Option("--status", help="With this status.")] = None,
    since: Annotated[datetime | None, typer.Option("--since", help="Not before this time (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option("--until", help="Before this time (UTC).")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 20,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on from an earlier page.")] = None,
    as_json: AsJson = False,
) -> None:
    """List exchanges with their verdicts, newest first."""
    from gateway.cli.verdicts import list_verdicts as run
    from gateway.ledger.store import ExchangeFilter

    filters = ExchangeFilter(
        route=route, check_status=status.value if status else None, since=utc(since), until=utc(until)
    )
    raise SystemExit(run(located(config), filters, limit=limit, cursor=cursor, as_json=as_json))


@verdicts.command("show")
def show_verdict(
    exchange: Annotated[str, typer.Argument(help="The exchange's id.")],
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show everything that was recorded of an exchange. Exit code 1 when there is none of this id."""
    from gateway.cli.verdicts import show_verdict as run

    raise SystemExit(run(located(config), exchange, as_json=as_json))


class ExportFormat(StrEnum):
    """What an export is written as."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


@verdicts.command("export")
def export_verdicts(
    config: ConfigFile = None,
    format_: Annotated[
        ExportFormat, typer.Option("--format", help="Whole exchanges as JSON Lines, or a table with a row a fact.")
    ] = ExportFormat.JSONL,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new file; default: standard output.")] = None,
    route: Annotated[str | None, typer.Option("--route", "-r", help="Of this route.")] = None,
    status: Annotated[CheckStatus | None, typer.Option("--status", help="With this status.")] = None,
    since: Annotated[datetime | None, typer.Option("--since", help="Not before this time (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option("--until", help="Before this time (UTC).")] = None,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on after an earlier export.")] = None,
    texts: Annotated[
        bool, typer.Option("--texts/--no-texts", help="With words of conversations and documents.")
    ] = True,
) -> None:
    """Write exchanges with their verdicts, oldest first."""
    from gateway.cli.export import ExportOptions
    from gateway.cli.export import export as run
    from gateway.ledger.store import ExchangeFilter

    filters = ExchangeFilter(
        route=route, check_status=status.value if status else None, since=utc(since), until=utc(until)
    )
    options = ExportOptions(format=format_.value, output=output, cursor=cursor, texts=texts)
    raise SystemExit(run(located(config), filters, options))


def utc(time: datetime | None) -> datetime | None:
    """A time of the command line, which is in UTC unless it says otherwise."""
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time

"""`grounding-gateway config`: check a configuration, print its JSON Schema."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.output import USAGE, emit, note
from gateway.config.describe import schema, version
from gateway.config.load import Reading, read
from gateway.config.locate import locate
from gateway.config.model import PoolUpstreamConfig
from gateway.config.pooling import described
from gateway.config.problems import Problem

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Check a configuration, print its JSON Schema.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("check")
def check(
    file: Annotated[Path | None, typer.Argument(help="The file; default: $GATEWAY_CONFIG, or ./gateway.yaml.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read and validate a configuration. Exit code 0 when it can be served, 2 when not."""
    reading = read(locate(file, os.environ, Path.cwd()), os.environ)
    if as_json:
        emit(_report(reading), as_json=True)
    else:
        for problem in reading.problems:
            note(str(problem))
        for warning in reading.warnings:
            note(f"warning: {warning}")
        if reading.config is not None:
            emit(None, as_json=False, text=_summary(reading))
        else:
            count = len(reading.problems)
            note(f"error: {reading.files[0]} has {count} {'problem' if count == 1 else 'problems'}")
    if reading.config is None:
        raise SystemExit(USAGE)


@app.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of gateway.yaml, for editors that complete and check YAML."""
    emit(schema(), as_json=True)


def _report(reading: Reading) -> dict[str, Any]:
    config = reading.config
    return {
        "file": str(reading.files[0]),
        "valid": config is not None,
        "version": version(config) if config else None,
        "problems": [_place(problem) for problem in reading.problems],
        "warnings": list(reading.warnings),
    }


def _place(problem: Problem) -> dict[str, Any]:
    mark = asdict(problem.mark) if problem.mark else {"line": None, "column": None}
    return {"file": problem.file, **mark, "key": problem.key, "problem": problem.text}


def _summary(reading: Reading) -> str:
    config = reading.config
    assert config is not None
    routes = ", ".join(f"{name} -> {route.upstream}" for name, route in config.routes.items())
    pools = "".join(
        f"\n  {name}: {described(section)}"
        for name, section in config.upstreams.items()
        if isinstance(section, PoolUpstreamConfig)
    )
    return f"{reading.files[0]}: valid (version {version(config)}); routes: {routes}{pools}"

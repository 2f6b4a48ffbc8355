"""The command line `grounding-gateway`.

Data goes to standard output, everything else to standard error; `gateway.cli.output` has the exit codes.
"""

from __future__ import annotations

import gc
import sys
from typing import Annotated

import typer

from gateway import __version__
from gateway.cli import auditing, checking, collection, commands, config, evaluate, keys, labels
from gateway.cli.output import fail_with

app = typer.Typer(
    name="grounding-gateway",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(commands.serve)
app.add_typer(config.app, name="config")
app.command("ingest")(commands.ingest)
app.add_typer(collection.app, name="collection")
app.command("ask")(commands.ask)
app.add_typer(checking.app, name="check")
auditing.add_to(commands.verdicts)
app.add_typer(commands.verdicts, name="verdicts")
app.add_typer(labels.app, name="label")
app.add_typer(evaluate.app, name="evaluate")
app.add_typer(keys.app, name="keys")
app.command("migrate")(commands.migrate)
app.command("maintain")(commands.maintain)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        print(f"grounding-gateway {__version__}")
        raise typer.Exit


@app.callback(help="An OpenAI-compatible gateway that grounds prompts in documents and checks answers against them.")
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=lambda v: _show_version(wanted=v)),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; ends the process."""
    # The modules and models that a command loads stay: the collector would go through them again and again.
    gc.set_threshold(100_000, 50, 50)
    # What a document or a file name holds may not fit the terminal's encoding; it is shown all the same.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        app()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        fail_with(error)

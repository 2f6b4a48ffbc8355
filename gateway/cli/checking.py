"""`check`: a given answer through a route, or a code review against a repository. Options, and the call of the work."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gateway.cli.panel import HELP


class _AnswerByDefault(TyperGroup):
    """`check "..."` is `check answer "..."`: whatever is no command's name is an answer."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["answer", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_AnswerByDefault,
    rich_markup_mode=None,
    help="Check an answer: `check ANSWER`, or a code review: `check review`.",
)


class VariantName(StrEnum):
    """How the votes of several judges are put together."""

    SINGLE = "single"
    OR = "or"
    AND = "and"
    MAJORITY = "majority"
    MULTI_HOP = "multi_hop"


class Mode(StrEnum):
    """What is written out: the review without its hallucinations, with them marked, or a report only."""

    FILTER = "filter"
    ANNOTATE = "annotate"
    REPORT = "report"


@app.command("answer")
def answer(
    text: Annotated[str, typer.Argument(metavar="ANSWER", help="The answer; `-` reads it from standard input.")],
    query: Annotated[str, typer.Option("--query", "-q", help="The question that it answers.")] = "",
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Default: $GATEWAY_CONFIG, or ./gateway.yaml.")
    ] = None,
    route: Annotated[str | None, typer.Option("--route", "-r", help="The route; default: the default route.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", envvar="GATEWAY_KEY", help="A key, where the gateway has keys.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a given answer. Exit code 1 unless it passed."""
    from gateway.cli.ask import check as run
    from gateway.config.locate import locate

    given = sys.stdin.read() if text == "-" else text
    path = locate(config, os.environ, Path.cwd())
    raise SystemExit(run(path, given, query=query, route=route, key=key, as_json=as_json))


@app.command("review")
def review(
    repository: Annotated[Path, typer.Option("--repository", help="A git repository on this machine.")],
    revision: Annotated[str, typer.Option("--revision", help="The reviewed commit, branch or tag.")],
    input_: Annotated[
        Path, typer.Option("--input", "-i", help="The review, in any known format; `-`: standard input.")
    ],
    judges: Annotated[list[str], typer.Option("--judge", help=HELP)],
    base: Annotated[str | None, typer.Option("--base", help="What the change is compared with.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="The configuration that names judges.")] = None,
    variant: Annotated[
        VariantName | None, typer.Option("--variant", help="Default: multi_hop, or single for one judge.")
    ] = None,
    hops: Annotated[int, typer.Option("--hops", min=1, max=8, help="multi_hop: further files, one after another.")] = 1,
    rules: Annotated[list[str] | None, typer.Option("--rules", help="A file of the repository with its rules.")] = None,
    repo_root: Annotated[
        str | None, typer.Option("--repo-root", help="The repository's folder where the review was written.")
    ] = None,
    max_cost: Annotated[float | None, typer.Option("--max-cost-usd", min=0, help="Ask no judge beyond.")] = None,
    mode: Annotated[Mode, typer.Option("--mode", help="What --output gets.")] = Mode.FILTER,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the review here, in its own format; `-`: standard output."),
    ] = None,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 whatever was found.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check every issue of a code review against the code.

    Exit code 0: all borne out, or no issue in it; 1: hallucinated issues; 3: not checked (a judge away, an unknown
    revision).
    """
    from gateway.cli.reviewing import Asked, check_review

    asked = Asked(
        repository=repository, revision=revision, base=base, source=input_, judges=tuple(judges), config=config,
        variant=variant.value if variant else None, hops=hops, rules=tuple(rules or ()), repo_root=repo_root,
        max_cost_usd=max_cost, mode=mode.value, output=output, as_json=as_json,
    )  # fmt: skip
    code = check_review(asked)
    raise SystemExit(0 if exit_zero else code)
